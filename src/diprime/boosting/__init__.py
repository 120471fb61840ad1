"""Boosting: an additive model of small trees, learnt from gradient sums with Gaussian noise.

A fit plans its budget, queries an engine for sums, and releases them through mechanisms. Only `rows` reads records.

- `defaults`: values of "auto" and other constants found by experiment;
- `plan`: checked parameters, and the budget of every release, set before any row is read;
- `rounds`: training, round by round, with clipping bounds and Newton steps;
- `cells`: private quantiles, the choice of features, and the cells and tree of a round;
- `gradients`: bounded gradients of records;
- `engine`: queries for sums over all partitions;
- `rows`: the records of a partition and their scores.
"""
