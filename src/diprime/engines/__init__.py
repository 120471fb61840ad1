"""Engines own the private rows and answer with sums of integers; nothing above them sees a row.

* :mod:`~diprime.engines.protocol`: what training asks of an engine.
* :mod:`~diprime.engines.scores`: what boosting asks, of records that have scores.
* :mod:`~diprime.engines.partitioned`: the engine of forests, which adds up what partitions answer.
* :mod:`~diprime.engines.partitioned_scores`: the engine of boosting.
* :mod:`~diprime.engines.executor`: where partitions are, and what runs on them.
* :mod:`~diprime.engines.partition`: the encoded rows of a fit, in partitions.
* :mod:`~diprime.engines.tree_partition`: what a partition does while trees grow.
* :mod:`~diprime.engines.score_partition`: what a partition does in boosting.
* :mod:`~diprime.engines.memory`: where a partition keeps its arrays, in memory or in files.
* :mod:`~diprime.engines.remote`: what the workers of a cluster run.
* :mod:`~diprime.engines.dask_executor`, :mod:`~diprime.engines.dask_frames`: partitions on a Dask cluster.
* :mod:`~diprime.engines.dask_tasks`, :mod:`~diprime.engines.dask_desks`: its tasks, and steps that are none.
* :mod:`~diprime.engines.spark_executor`, :mod:`~diprime.engines.spark_frames`,
  :mod:`~diprime.engines.spark_worker`: partitions in Spark.
* :mod:`~diprime.engines.assignment`: which tree a record is in.
* :mod:`~diprime.engines.persons`: which of a person's records are used, and how much they weigh.
* :mod:`~diprime.engines.weights`: what a weight means.
* :mod:`~diprime.engines.gradients`: what a record with a score adds to sums.

All engines give the same sums, so that a seeded fit gives the same model wherever its rows are, and however they are
cut into partitions.
"""
