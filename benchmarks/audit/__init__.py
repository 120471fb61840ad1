"""An empirical audit of epsilon: ``python -m benchmarks.audit``.

Models are fitted many times to two neighbouring tables. Half of the fits find an event that is much likelier on one
side than on the other; the other half bound, with confidence, how much likelier it is. A fit that is ε-DP cannot have a
bound above ε, and controls that are broken on purpose must have one.
"""
