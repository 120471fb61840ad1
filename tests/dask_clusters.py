"""Small Dask clusters for tests, and failures of their processes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster

import diprime.sources.dask
from diprime.sources.dask.executor import DaskExecutor
from tests import watched_queries


@contextmanager
def cluster(n_workers, *, processes=False, protocol=None):
    """Yield the client of a cluster of single-threaded workers, in this process or in their own processes."""
    where = {"processes": processes, "protocol": protocol, "dashboard_address": ":0"}
    # Without a memory limit, Dask does not pause workers when the test process is large.
    local = LocalCluster(n_workers=n_workers, threads_per_worker=1, memory_limit=0, **where)
    with local, Client(local) as client:
        yield client


@contextmanager
def scheduler_process(folder):
    """Yield the process of a scheduler with one worker, which is the default cluster of fits."""
    file = folder / "scheduler.json"
    run = [sys.executable, "-m"]
    started = [subprocess.Popen([*run, "distributed.cli.dask_scheduler", *_AT, f"--scheduler-file={file}"], **_QUIET)]
    try:
        while not file.exists():
            assert started[0].poll() is None, "the scheduler has ended"
            time.sleep(0.05)
        worker = [*run, "distributed.cli.dask_worker", f"--scheduler-file={file}", *_OF_WORKER]
        started.append(subprocess.Popen(worker, **_QUIET))
        with dask.config.set({"distributed.comm.timeouts.connect": "5s"}):
            client = Client(scheduler_file=str(file), timeout="60s")
            try:
                client.wait_for_workers(1, timeout=60)
                yield started[0]
            finally:
                client.close(timeout=1)
    finally:
        for process in started:
            process.kill()
            process.wait()


_AT = ["--host=127.0.0.1", "--port=0", "--no-dashboard"]
_OF_WORKER = ["--host=127.0.0.1", "--nthreads=1", "--no-nanny", "--no-dashboard"]
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def wait_until(happened):
    """Wait until ``happened`` returns True; fail after a minute."""
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)


def replicate(client, results, n_workers):
    """Copy results to all workers. Retry, because failed copies and busy workers raise no error."""

    def is_everywhere():
        client.replicate(results)
        return all(len(workers) == n_workers for workers in client.who_has(results).values())

    wait_until(is_everywhere)


def kill_a_worker(client):
    """Kill the process of one worker, as the system does when it runs out of memory."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def lose_scheduler(process, client, *, noticed):
    """Kill the scheduler, and wait until the client notices this if ``noticed`` is True."""
    process.kill()
    while noticed and client.status == "running":
        time.sleep(0.01)


def before_encoding(monkeypatch, happens):
    """Call ``happens`` right before the next fit encodes its rows."""
    encode = diprime.sources.dask.encoded_on_workers

    def watched(*arguments, **others):
        happens()
        return encode(*arguments, **others)

    monkeypatch.setattr(diprime.sources.dask, "encoded_on_workers", watched)


def before_query(monkeypatch, number, happens):
    """Call ``happens`` right before a query of the next fit."""
    watched_queries.before_query(monkeypatch, DaskExecutor, number, happens)
