"""What reproduces and examines the DiPriMe paper (Consul and Williamson 2021).

* ``accounting``: what the paper charges. Estimators use it for ``accounting="paper"``, and nothing else from here.
* ``baselines``: the forests that the paper compares itself with, DP-RF and DP-DF.
* ``theory``: the paper's utility bounds, as printed and as corrected.

Users import them from ``diprime.baselines`` and ``diprime.theory``.
"""
