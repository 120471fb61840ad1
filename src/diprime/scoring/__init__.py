"""Scores of released models on private test rows: noisy counts, and estimates with intervals from them.

* ``records``: what a model says of records, one by one, and of made-up rows;
* ``bins``: bins of scores, from the released model alone;
* ``release``: the charges of a score, and tables of counts that are paid for;
* ``cells``: released counts, and how much noise moves sums of them;
* ``intervals``: confidence intervals of ratios of such sums;
* ``classes`` and ``numbers``: the tables and the scores of classifiers and of regressors;
* ``score``: the result, as text and as JSON;
* ``scorers``: the functions that users call.
"""

from diprime.scoring.score import PrivateScore
from diprime.scoring.scorers import private_score, private_score_batches

__all__ = ["PrivateScore", "private_score", "private_score_batches"]
