"""Interpretation of released models, without the data: importances, explanations, effects and trees.

- `importances`: shares of features in the variance of predictions, net of noise;
- `explanation`: effects of features on single predictions;
- `views`: trees as text and numbers, and effects as curves and tables, for reports, plots and the command line;
- `words`: features, splits and released numbers as text.
"""
