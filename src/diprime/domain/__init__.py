"""What is public about the data, and how single records become small integers."""

from diprime.domain.codes import MISSING, OTHER, TARGET_UNITS
from diprime.domain.domain import Domain
from diprime.domain.encoding import RowReader
from diprime.domain.features import Categorical, Numeric
from diprime.domain.target_layout import Task

__all__ = ["MISSING", "OTHER", "TARGET_UNITS", "Categorical", "Domain", "Numeric", "RowReader", "Task"]
