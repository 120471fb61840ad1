"""Differential privacy: budgets, random bits and mechanisms. Nothing here knows about trees.

* :mod:`~diprime.privacy.measures`: the privacy loss of a release, in exact fractions.
* :mod:`~diprime.privacy.normal`: proven bounds of the normal distribution, in integers.
* :mod:`~diprime.privacy.gaussian_dp`: the epsilon and delta of Gaussian differential privacy.
* :mod:`~diprime.privacy.ledger`: charges, and the receipts that every release requires.
* :mod:`~diprime.privacy.budget`: the budget of a study, which adds up all that is released about the same people.
* :mod:`~diprime.privacy.spending`: the way from whoever releases to the budgets in force.
* :mod:`~diprime.privacy.randomness`: the only source of random bits.
* :mod:`~diprime.privacy.mechanisms`: functions that release private data, given a receipt and random bits.
"""
