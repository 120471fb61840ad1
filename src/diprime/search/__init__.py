"""Private search: a setting is chosen among several, and its model released, under one budget.

* ``candidates``: the settings to choose among, from what users write;
* ``plan``: what each fit and the choice get of the budget, before a row is read;
* ``parts``: records that train, and records that choose;
* ``errors``: the errors of a fitted model, in integers that one record changes by a known amount;
* ``choosing``: the two ways to choose, with their ledgers;
* ``search``: the estimator.
"""

from diprime.search.search import PrivateSearch

__all__ = ["PrivateSearch"]
