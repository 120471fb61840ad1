"""Differentially private forests that split near private medians, exact to the last integer."""

from diprime.budget import Charge, Ledger, PrivacyWarning
from diprime.domain import Categorical, Domain, Numeric
from diprime.estimators import DiPriMeClassifier, DiPriMeRegressor, merge
from diprime.forest import Forest

__version__ = "0.1.0.dev0"

__all__ = [
    "Categorical",
    "Charge",
    "DiPriMeClassifier",
    "DiPriMeRegressor",
    "Domain",
    "Forest",
    "Ledger",
    "Numeric",
    "PrivacyWarning",
    "merge",
]
