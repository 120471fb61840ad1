"""Boosting: rounds of small trees whose steps add up, from sums of gradients with Gaussian noise.

* :mod:`~diprime.training.boosting.train`: one fit, round after round.
* :mod:`~diprime.training.boosting.plan`: what every release gets of the budget, before a row is read.
* :mod:`~diprime.training.boosting.grid`: private quantiles and the order of categories, from one release.
* :mod:`~diprime.training.boosting.choice`: which features the next round cuts, and how finely.
* :mod:`~diprime.training.boosting.cells`: the cells of a round, and the tree that they are.
* :mod:`~diprime.training.boosting.clipping`: which residuals count in full.
* :mod:`~diprime.training.boosting.steps`: from released sums to steps.
* :mod:`~diprime.training.boosting.defaults`: what ``"auto"`` means, and other numbers found by measurement.
"""
