from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def in_this_process(monkeypatch):
    """Run fits in a thread instead of other processes, which would not see what a test has patched."""
    monkeypatch.setattr("benchmarks.paper.fits.ProcessPoolExecutor", lambda max_workers: ThreadPoolExecutor(1))
