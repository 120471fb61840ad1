"""Training plans the budget, asks an engine for sums and lets mechanisms release; it never sees a row.

* :mod:`~diprime.training.settings`: the checked parameters of a fit.
* :mod:`~diprime.training.defaults`: what "auto" means, from public numbers and released counts.
* :mod:`~diprime.training.plan`: what every release gets, adding up to epsilon.
* :mod:`~diprime.training.train`: one fit, from an engine to released sums.
* :mod:`~diprime.training.counts`, :mod:`~diprime.training.windows`, :mod:`~diprime.training.grow`,
  :mod:`~diprime.training.splitting`, :mod:`~diprime.training.leaves`: its releases, in the order they are made.
* :mod:`~diprime.training.estimates`: what becomes of released leaves.
* :mod:`~diprime.training.policy`: where accounting as published differs from strict accounting.
"""
