"""What the DiPriMe paper compares itself with: DP-RF (Patil and Singh 2014) and DP-DF (Fletcher and Islam 2015).

Both grow trees on coarse codes, numeric features cut into a few bins of equal width, with one branch for each bin or
level. ``accounting="strict"`` keeps the promise of this library; ``"paper"`` does as the published code does.
"""

from diprime.paper.baselines.estimators import (
    DPDecisionForestClassifier,
    DPRandomForestClassifier,
    DPRandomForestRegressor,
)

__all__ = ["DPDecisionForestClassifier", "DPRandomForestClassifier", "DPRandomForestRegressor"]
