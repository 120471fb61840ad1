"""Storage of the encoded rows of a fit, and sums over them. No higher layer sees a row.

- `executor`: updates and queries that run on partitions;
- `partition`: the encoded rows of a fit in partitions, in memory or in files, and their weights;
- `groups`: contribution bounds, and the weights of each person's records;
- `remote`: tasks that run on the workers of a cluster.

The engines of the algorithms are `forest.engine` and `boosting.engine`. All executors return the same sums, so a seeded
fit gives the same model wherever its rows are and however they are partitioned.
"""
