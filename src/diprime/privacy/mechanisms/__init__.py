"""The mechanisms, each with its proof (``*.md``) and its exact distribution (``*_pmf``) beside it.

Each mechanism states what it assumes about its input, and requires a :class:`~diprime.privacy.charges.Receipt` for what
it releases.

* :mod:`~diprime.privacy.mechanisms.weights`: the weight of a candidate in a selection.
* :mod:`~diprime.privacy.mechanisms.selection`: the exponential mechanism and permute-and-flip.
* :mod:`~diprime.privacy.mechanisms.subsets`: the exponential mechanism over all splits of categories.
* :mod:`~diprime.privacy.mechanisms.laplace`: discrete Laplace noise on sums.
* :mod:`~diprime.privacy.mechanisms.gaussian`: rounded normal noise on sums, for Gaussian differential privacy.
* :mod:`~diprime.privacy.mechanisms.rounded_normal`: the rare draws of that noise that the kernel leaves to Python.
* :mod:`~diprime.privacy.mechanisms.stopping`: the best of a random number of private repetitions.
"""
