"""The scikit-learn estimators: their parameters, fitting and prediction, files and merging."""
