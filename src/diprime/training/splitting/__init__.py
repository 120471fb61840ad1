"""How splits are chosen: a splitter states the costs of candidates and their range, and a mechanism selects.

* :mod:`~diprime.training.splitting.candidates`: the splits that a node can choose from.
* :mod:`~diprime.training.splitting.cost`: the cost of a candidate, and how much one record can change it.
* :mod:`~diprime.training.splitting.histograms`: the histograms that costs are computed from.
* :mod:`~diprime.training.splitting.levels`: the selections of one level, made in batches of nodes.
* :mod:`~diprime.training.splitting.joint`: one selection over all features and thresholds.
* :mod:`~diprime.training.splitting.median`: private medians, as in the paper, and a choice among them.
* :mod:`~diprime.training.splitting.factory`: the splitter of each method.
"""
