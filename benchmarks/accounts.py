"""Accounts without a session, for experiments on single releases."""

from __future__ import annotations

from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import Epsilon
from diprime.privacy.session import OPENED_BY_A_SESSION, Account


def open_account(epsilon: Epsilon) -> Account:
    """Return an account with its own budget."""
    account = Account(OPENED_BY_A_SESSION, Ledger(epsilon))
    account._is_open = True
    return account
