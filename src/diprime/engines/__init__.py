"""Engines own the private rows and answer with sums of integers; nothing above them sees a row.

* :mod:`~diprime.engines.protocol`: what training asks of an engine.
* :mod:`~diprime.engines.assignment`: which tree a record is in.
* :mod:`~diprime.engines.persons`: which of a person's records are used, and how much they weigh.
* :mod:`~diprime.engines.weights`: what a weight means.
* :mod:`~diprime.engines.local`: the rows are in this process, and its threads do the work.
* :mod:`~diprime.engines.scores`: what boosting asks, of records that have scores.
* :mod:`~diprime.engines.gradients`: what a record with a score adds to sums.
* :mod:`~diprime.engines.local_scores`: the rows of boosting in this process.

All engines give the same sums, so that a seeded fit gives the same model wherever its rows are.
"""
