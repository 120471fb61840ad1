"""Forests: averages of trees with privately released splits and leaves.

A fit plans its budget, queries an engine for sums, and releases them through mechanisms. Only `rows` reads records.

- `defaults`: values of "auto", from public numbers and released counts;
- `plan`: checked parameters, and the budgets of all releases, which add up to epsilon;
- `train`: training, level by level;
- `sums`: releases other than splits (counts, clipping ranges and leaf sums), and strict accounting;
- `candidates`, `splitters`: candidate splits of a level, and private selection among them;
- `engine`: the assignment of rows to trees, and queries for sums over all partitions;
- `rows`: the records of a partition, and the random assignment of rows to trees.
"""
