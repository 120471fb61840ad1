"""The baselines of the DiPriMe paper: DP-RF (Patil and Singh 2014) and DP-DF (Fletcher and Islam 2015).

Both grow trees with multi-way splits: numeric features are cut into a few bins of equal width, and a split has one
branch for each bin or level. ``accounting="strict"`` gives the guarantee of this library; ``"paper"`` follows the
published code.

* :mod:`~diprime.paper.baselines.estimators`: the estimators.
* :mod:`~diprime.paper.baselines.recipes`: what a tree releases and what that costs, strictly and as published.
* :mod:`~diprime.paper.baselines.growth`: the growth and the pruning of a tree.
* :mod:`~diprime.paper.baselines.branches`: the branches of a split.
* :mod:`~diprime.paper.baselines.forest`: fitted trees and forests.
"""

from diprime.paper.baselines.estimators import (
    DPDecisionForestClassifier,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
)

__all__ = ["DPDecisionForestClassifier", "DPRandomForestClassifier", "DPRandomForestRegressor"]
