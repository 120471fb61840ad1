"""Differentially private forests that split near private medians, exact to the last integer."""

from diprime._util.version import __version__
from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.estimators.boosting import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor
from diprime.estimators.files import load
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor
from diprime.estimators.merging import merge
from diprime.model.additive import AdditiveForest
from diprime.model.explanation import Explanation
from diprime.model.files import ModelFileError
from diprime.model.forest import Forest
from diprime.planning import Plan, plan
from diprime.privacy.budget import Budget
from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.privacy.spending import BudgetError
from diprime.scoring import PrivateScore, private_score, private_score_batches
from diprime.search import PrivateSearch

__all__ = [
    "AdditiveForest",
    "Budget",
    "BudgetError",
    "Categorical",
    "Charge",
    "Date",
    "DiPriMeBoostingClassifier",
    "DiPriMeBoostingRegressor",
    "DiPriMeClassifier",
    "DiPriMeRegressor",
    "Domain",
    "Explanation",
    "Forest",
    "Integer",
    "Ledger",
    "ModelFileError",
    "Numeric",
    "Plan",
    "PrivacyWarning",
    "PrivateScore",
    "PrivateSearch",
    "__version__",
    "load",
    "merge",
    "plan",
    "private_score",
    "private_score_batches",
]
