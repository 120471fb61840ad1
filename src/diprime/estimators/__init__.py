"""The scikit-learn face: parameters in, a fitted forest and its ledger out."""
