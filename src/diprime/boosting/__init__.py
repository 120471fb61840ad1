"""Boosting: an additive model of smooth curves and small trees, learnt from gradient sums with Gaussian noise.

A fit plans its budget, queries an engine for sums, and releases them through mechanisms. Only `rows` reads records.

- `defaults`: values of "auto" and other constants found by experiment;
- `plan`: checked parameters, and the budget of every kind of release, set before any row is read;
- `train`: all steps of a fit, in order;
- `budget`: the part of the budget that released numbers divide among starting scores, clips, curves and rounds;
- `start`: the starting scores of all records;
- `curves`: smooth functions of all features, fitted together, and `curve_noise`: their noise;
- `clipping`: bounds of the residuals of numeric targets;
- `rounds`: trees on one or two features, one after the other;
- `cells`: private quantiles, the choice of features, and the cells and tree of a round;
- `gradients`: bounded gradients of records;
- `engine`: queries for sums over all partitions;
- `rows`: the records of a partition and their scores.
"""
