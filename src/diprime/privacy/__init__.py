"""Privacy budgets, randomness and mechanisms. This package does not depend on how models are trained.

* :mod:`~diprime.privacy.measures`: privacy losses, as exact fractions.
* :mod:`~diprime.privacy.gaussian_dp`: conversions between Gaussian differential privacy, epsilon and delta.
* :mod:`~diprime.privacy.charges`: charges, and the receipts that every release requires.
* :mod:`~diprime.privacy.ledger`: the privacy ledger, an immutable list of charges.
* :mod:`~diprime.privacy.budget`: privacy budgets of studies.
* :mod:`~diprime.privacy.session`: the steps of every paid computation, from checking budgets to verifying the ledger.
* :mod:`~diprime.privacy.randomness`: the only source of random bits.
* :mod:`~diprime.privacy.mechanisms`: functions that release private data, given a receipt and random bits.
"""
