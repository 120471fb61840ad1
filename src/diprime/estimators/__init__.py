"""The scikit-learn estimators: parameters, fitting, prediction, model files and merging."""
