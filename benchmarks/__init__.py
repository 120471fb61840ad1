"""Measurements behind the documentation, run from the root of the repository.

* ``python -m benchmarks.utility``: accuracy at each epsilon, compared with other private libraries and the paper.
* ``python -m benchmarks.paper``: the paper's tables and figures, reproduced.
* ``python -m benchmarks.scores``: how often the intervals of private scores cover the truth.
* ``python -m benchmarks.fuzz``: malicious model files, domains, CSV and Parquet files.
* ``python -m benchmarks.speed`` and ``python -m benchmarks.speed.memory``: time and memory.

All of them use the data sets of :mod:`benchmarks.data` and write their results to ``benchmarks/results``.
"""
