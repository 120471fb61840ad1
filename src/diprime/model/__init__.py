"""A fitted model: the released numbers, and what can be computed from them without the data.

* ``forest``: the trees as flat arrays, with prediction, leaf indices and importances.
* ``masks``: the 256-bit mask of a split, which says which codes go right.
* ``regions``: the codes that can still occur at each node, given the splits above it.
* ``noise``: the variance of the noise in the leaves, from the ledger.
* ``tree_view``: one tree in words and numbers, for reports, plots and the command line.
* ``files``: model files, without pickle or code.
"""
