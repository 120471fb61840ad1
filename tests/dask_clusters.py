"""Small Dask clusters for tests, and what happens to them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster

from diprime.engines import dask_frames
from diprime.engines.dask_executor import DaskExecutor
from tests import watched_questions


@contextmanager
def cluster(n_workers, *, processes=False, protocol=None):
    """Yield the client of a cluster of workers with a thread each: of this process, or processes of their own."""
    where = {"processes": processes, "protocol": protocol, "dashboard_address": ":0"}
    local = LocalCluster(n_workers=n_workers, threads_per_worker=1, **where)
    with local, Client(local) as client:
        yield client


@contextmanager
def scheduler_process(folder):
    """Yield the process of a scheduler that has one worker, and that fits take for theirs."""
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


def kill_a_worker(client):
    """End the process of one worker, as the system does when memory is short."""
    os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)


def lose_scheduler(process, client, *, noticed):
    """End the process of the scheduler; wait until the client has noticed, or go on while it has not."""
    process.kill()
    while noticed and client.status == "running":
        time.sleep(0.01)


def before_encoding(monkeypatch, happens):
    """Let something happen right before the next fit encodes its rows."""
    encode = dask_frames.encode_on_workers

    def watched(*arguments, **others):
        happens()
        return encode(*arguments, **others)

    monkeypatch.setattr(dask_frames, "encode_on_workers", watched)


def before_question(monkeypatch, number, happens):
    """Let something happen right before a question of the next fit."""
    watched_questions.before_question(monkeypatch, DaskExecutor, number, happens)
