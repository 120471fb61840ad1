"""The baselines of the DiPriMe paper: DP-RF (Patil and Singh 2014) and DP-DF (Fletcher and Islam 2015)."""

from diprime.paper.baselines import DPDecisionForestClassifier, DPRandomForestClassifier, DPRandomForestRegressor

__all__ = ["DPDecisionForestClassifier", "DPRandomForestClassifier", "DPRandomForestRegressor"]
