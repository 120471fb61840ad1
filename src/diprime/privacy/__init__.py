"""Privacy, knowing nothing of trees.

* :mod:`~diprime.privacy.measures`: what a release costs, in exact fractions.
* :mod:`~diprime.privacy.ledger`: charges, and the receipts that releases need.
* :mod:`~diprime.privacy.randomness`: the one source of random bits.
* :mod:`~diprime.privacy.mechanisms`: what releases, given a receipt and random bits.
"""
