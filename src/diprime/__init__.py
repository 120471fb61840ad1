"""Differentially private forests that split near private medians, exact to the last integer."""

from diprime.budget import Charge, Ledger, PrivacyWarning
from diprime.domain import Categorical, Domain, Numeric
from diprime.estimators import DiPriMeClassifier, DiPriMeRegressor, load, merge
from diprime.forest import Forest
from diprime.model_files import ModelFileError
from diprime.version import __version__

__all__ = [
    "Categorical",
    "Charge",
    "DiPriMeClassifier",
    "DiPriMeRegressor",
    "Domain",
    "Forest",
    "Ledger",
    "ModelFileError",
    "Numeric",
    "PrivacyWarning",
    "__version__",
    "load",
    "merge",
]
