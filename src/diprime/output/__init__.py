"""Fitted models for people and for other programs, from released numbers only.

* ``report``: one HTML page with the privacy guarantee, the ledger and the trees.
* ``plots``: matplotlib plots of the budget, the importances and the trees.
* ``onnx``: models that ONNX runtimes evaluate, with bit-identical predictions.

Users import them from ``diprime.report``, ``diprime.plots`` and ``diprime.export``.
"""
