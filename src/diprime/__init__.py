"""Differentially private forests and boosting, computed with exact integer arithmetic."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

from diprime._util import __version__  # first, to handle Ctrl-C and lack of memory in other imports
from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.estimators.boosting import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor
from diprime.estimators.forest import DiPriMeClassifier, DiPriMeRegressor
from diprime.estimators.models import fitted_steps, load, merge
from diprime.inspection.explanation import Explanation
from diprime.inspection.importances import Importances
from diprime.model.additive import AdditiveForest
from diprime.model.files import ModelFileError
from diprime.model.trees import Forest
from diprime.planning import Plan, plan
from diprime.privacy.budget import Budget
from diprime.privacy.charges import Charge
from diprime.privacy.ledger import Ledger, PrivacyWarning
from diprime.privacy.session import BudgetError
from diprime.scoring import PrivateScore, private_score
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
    "Importances",
    "Integer",
    "Ledger",
    "ModelFileError",
    "Numeric",
    "Plan",
    "PrivacyWarning",
    "PrivateScore",
    "PrivateSearch",
    "__version__",
    "fitted_steps",
    "load",
    "merge",
    "plan",
    "private_score",
]

_MODULES = ("export", "paper", "plots", "report", "sources")  # imported on first use

for _name in __all__:
    if hasattr(globals()[_name], "__module__"):
        globals()[_name].__module__ = __name__  # so that pickles and tracebacks do not name internal modules


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


if not _TYPE_CHECKING:  # type checkers resolve "from diprime import plots" as a module import

    def __getattr__(name: str) -> _ModuleType:
        if name in _MODULES:
            return _import_module(f"diprime.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
