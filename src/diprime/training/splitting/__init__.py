"""Ways of choosing a split: each states its costs and their range, and leaves the draw to a mechanism.

* :mod:`~diprime.training.splitting.candidates`: which splits a node can choose from, whatever the records are.
* :mod:`~diprime.training.splitting.cost`: what a candidate costs, and how far one record can change it.
* :mod:`~diprime.training.splitting.histograms`: the histograms that costs are computed from.
* :mod:`~diprime.training.splitting.levels`: the selections of one level, in batches of nodes.
* :mod:`~diprime.training.splitting.joint`: one selection over all features and thresholds.
* :mod:`~diprime.training.splitting.median`: the paper's private medians, and a choice among them.
* :mod:`~diprime.training.splitting.factory`: the splitter that a method names.
"""
