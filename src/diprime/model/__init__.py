"""A fitted model: the released numbers, and what can be computed from them without the data.

* ``trees``: complete binary trees as flat arrays, and the leaves that rows reach.
* ``forest``: trees that are averaged, with prediction and importances.
* ``additive``: trees that add up, with scores, prediction and importances.
* ``links``: from scores to predictions.
* ``terms``: trees on one or two features, collapsed to functions of these features.
* ``effects``: terms separated into main effects and interactions.
* ``masks``: the 256-bit mask of a split, which says which codes go right.
* ``regions``: the codes that can still occur at each node, given the splits above it.
* ``noise``: the variance of the noise in the leaves, from the ledger.
* ``tree_view``: one tree in words and numbers, for reports, plots and the command line.
* ``files``: model files, without pickle or code.
"""
