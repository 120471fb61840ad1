"""The budget of a study: one epsilon and delta for all that is released about the same people.

* :mod:`~diprime.privacy.budget.filter`: what a budget accepts, given what it was charged.
* :mod:`~diprime.privacy.budget.log`: the charges as lines of text, each with the hash of the one before.
* :mod:`~diprime.privacy.budget.stores`: where the log is: in memory, or in a file that is locked and synced.
* :mod:`~diprime.privacy.budget.budget`: the class that users see.
"""

from diprime.privacy.budget.budget import Budget
from diprime.privacy.budget.log import Entry

__all__ = ["Budget", "Entry"]
