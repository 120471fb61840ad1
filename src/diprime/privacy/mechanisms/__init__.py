"""Release mechanisms, with their proofs (``*.md``) and exact distributions (``*_pmf``).

Each mechanism states its assumptions about the input, and requires a :class:`~diprime.privacy.charges.Receipt`.

* :mod:`~diprime.privacy.mechanisms.selection`: the exponential mechanism, permute-and-flip and random stopping.
* :mod:`~diprime.privacy.mechanisms.laplace`: discrete Laplace noise on sums, and thresholded counts.
* :mod:`~diprime.privacy.mechanisms.gaussian`: rounded normal noise on sums, for Gaussian differential privacy.
"""
