"""PostgreSQL server for tests, with its data and socket in a temporary directory."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

USER = "nobody" if os.name == "posix" and os.geteuid() == 0 else None  # PostgreSQL refuses to run as root


def find_programs():
    """Return the directory of the server's programs in Debian's place or in PATH, or None."""
    found = shutil.which("initdb")
    return Path(found).parent if found else max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def server():
    """Run a server, and yield its address."""
    programs = find_programs()
    with tempfile.TemporaryDirectory(prefix="postgresql-", ignore_cleanup_errors=True) as name:
        if USER:
            shutil.chown(name, USER)

        def run(program, *arguments):
            command = [programs / program, "-D", f"{name}/data", *arguments]
            subprocess.run(command, cwd=name, user=USER, check=True, stdout=subprocess.DEVNULL, timeout=120)

        run("initdb", "--username=tester", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        options = f"-k {name} -c listen_addresses='' -c fsync=off"
        run("pg_ctl", "start", "-w", "-l", f"{name}/log", "-o", options)
        try:
            yield f"postgresql:///postgres?host={name}&user=tester"
        finally:
            run("pg_ctl", "stop", "-w", "-m", "immediate")
