"""Differentially private forests that split near private medians, exact to the last integer."""

from diprime._util.version import __version__
from diprime.domain import Categorical, Domain, Numeric
from diprime.estimators.boosting import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor
from diprime.estimators.files import load
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor
from diprime.estimators.merging import merge
from diprime.model.additive import AdditiveForest
from diprime.model.explanation import Explanation
from diprime.model.files import ModelFileError
from diprime.model.forest import Forest
from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.search import PrivateSearch

__all__ = [
    "AdditiveForest",
    "Categorical",
    "Charge",
    "DiPriMeBoostingClassifier",
    "DiPriMeBoostingRegressor",
    "DiPriMeClassifier",
    "DiPriMeRegressor",
    "Domain",
    "Explanation",
    "Forest",
    "Ledger",
    "ModelFileError",
    "Numeric",
    "PrivacyWarning",
    "PrivateSearch",
    "__version__",
    "load",
    "merge",
]
