"""A release that is not paid for does not type-check, and the places that could avoid payment are few and known."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import diprime

SOURCES = Path(diprime.__file__).parent

# Lines that end in "# unpaid" are wrong, and no others are.
SNIPPETS = """
from fractions import Fraction

import numpy as np

from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Costs, Selection
from diprime.privacy.mechanisms.selection import best_of_random_number
from diprime.privacy.mechanisms.selection import subset_median
from diprime.privacy.mechanisms.laplace import frequent
from diprime.privacy.mechanisms.selection import Weights
from diprime.privacy.randomness import RandomSource, Streams
from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind
from diprime.privacy.session import Account

EPSILON = Fraction(1)
CHARGE = Charge(ReleaseKind.NODE_SUMS, Mechanism.DISCRETE_LAPLACE, Bound(BoundKind.L1, 1), PureEpsilon(EPSILON))


def paid(account: Account, costs: Costs, streams: Streams, table: Weights) -> None:
    receipt = account.pay(CHARGE)
    discrete_laplace(costs, receipt, 1, streams)
    discrete_laplace(costs, receipt, 1, streams, times=2)
    rounded_gaussian(costs, receipt, 1, streams, times=2)
    frequent(costs, receipt, streams)
    Selection.with_published_weights(receipt, table, streams).pick(np.arange(3), costs)
    selection = Selection(receipt, streams, cost_range=2, n_candidates=3)
    subset_median(selection, 0, [1, 2])
    Selection.uniform(streams, 3).pick(np.arange(3), costs)


def noise(costs: Costs, streams: Streams) -> None:
    discrete_laplace(costs, EPSILON, 1, streams)  # unpaid
    discrete_laplace(costs, 1.0, 1, streams)  # unpaid
    discrete_laplace(costs, None, 1, streams)  # unpaid
    discrete_laplace(costs, CHARGE, 1, streams)  # unpaid
    discrete_laplace(costs, sensitivity=1, streams=streams)  # unpaid
    rounded_gaussian(costs, EPSILON, 1, streams)  # unpaid
    frequent(costs, EPSILON, streams)  # unpaid
    frequent(costs, CHARGE, streams)  # unpaid
    frequent(costs, streams=streams)  # unpaid
    rounded_gaussian(costs, CHARGE, 1, streams)  # unpaid
    rounded_gaussian(costs, squared_sensitivity=1, streams=streams)  # unpaid


def selections(streams: Streams, table: Weights, account: Account) -> None:
    Selection.with_published_weights(EPSILON, table, streams)  # unpaid
    Selection.with_published_weights(None, table, streams)  # unpaid
    Selection.with_published_weights(CHARGE, table, streams)  # unpaid
    Selection.with_published_weights(account, table, streams)  # unpaid
    Selection.with_published_weights(table, streams)  # unpaid
    Selection.with_published_weights(table=table, streams=streams)  # unpaid
    Selection(table, streams)  # unpaid
    Selection(EPSILON, streams, cost_range=2, n_candidates=3)  # unpaid
    Selection(CHARGE, streams, cost_range=2, n_candidates=3)  # unpaid
    Selection(None, streams, cost_range=2, n_candidates=3)  # unpaid
    Selection(streams=streams, cost_range=2, n_candidates=3)  # unpaid
    Selection.uniform(streams, 3).table = table  # unpaid
    subset_median(EPSILON, 0, [1, 2])  # unpaid


def repeat(measure: PureEpsilon) -> tuple[int, str]:
    return 0, "outcome"


def repetitions(source: RandomSource, receipt: Receipt) -> None:
    best_of_random_number(repeat, receipt, 7, source)
    best_of_random_number(repeat, EPSILON, 7, source)  # unpaid
    best_of_random_number(repeat, CHARGE, 7, source)  # unpaid
    best_of_random_number(repeat, max_repetitions=7, source=source)  # unpaid


def receipts(receipt: Receipt) -> None:
    Receipt(CHARGE)  # unpaid
    receipt.unused = 7  # unpaid
    receipt.charge = CHARGE  # unpaid


def accounts(account: Account) -> None:
    Account()  # unpaid
    account.ledger = None  # unpaid
    account.charges = []  # unpaid


class Free(Receipt):  # unpaid
    pass


class FreeSelection(Selection):  # unpaid
    pass


class FreeAccount(Account):  # unpaid
    pass
"""


def test_unpaid_releases_do_not_type_check(tmp_path):
    pytest.importorskip("mypy")
    root = SOURCES.parents[1]
    if not (root / "pyproject.toml").exists():
        pytest.skip("the sources and their settings are not here")
    file = tmp_path / "releases.py"
    file.write_text(SNIPPETS)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # the project's settings
    assert done.stderr == ""
    report = done.stdout
    found = {int(line) for line in re.findall(r"releases\.py:(\d+): error:", report)}
    expected = {i for i, line in enumerate(SNIPPETS.splitlines(), 1) if line.endswith("# unpaid")}
    assert found == expected, report


@cache
def calls():
    """Return what each module calls, such as Ledger or Selection.uniform."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        found[path.relative_to(SOURCES).as_posix()] = called
    return found


def users_of(*names):
    """Return the modules that call something by one of these names."""
    return {
        module
        for module, called in calls().items()
        if any(call == name or call.endswith(f".{name}") for call in called for name in names)
    }


def test_only_a_session_opens_accounts_and_only_an_account_issues_receipts():
    assert users_of("Account") == {"privacy/session.py"}
    assert users_of("Receipt") == {"privacy/session.py"}
    assert users_of("transaction.charge") == {"privacy/budget/__init__.py", "privacy/session.py"}


def test_fits_domains_and_scores_begin_sessions_and_a_search_opens_subaccounts():
    assert users_of("Session.begin") == {"domain/domain.py", "estimators/base.py", "scoring/__init__.py"}
    assert users_of("session.spend") == {"domain/learning.py", "estimators/base.py", "scoring/__init__.py"}
    assert users_of("subaccount") == {"search/choosing.py"}


def test_only_published_recipes_use_their_own_weights():
    """Elsewhere, weights follow from the receipt: there is no table that could be of another epsilon."""
    assert users_of("with_published_weights") == {"paper/multiway.py"}


def test_only_forest_splitters_make_uniform_selections():
    assert users_of("Selection.uniform") == {"forest/splitters.py"}


def test_only_mechanisms_draw_noise():
    """The samplers of the kernels know nothing of receipts: what calls them asks for one, or never sees data."""
    selecting, adding = ("sampling.exponential", "sampling.permute_and_flip"), ("sampling.draw_laplace",)
    assert users_of(*selecting, *adding) == {
        "privacy/mechanisms/laplace.py",
        "privacy/mechanisms/selection.py",
    }
    assert users_of("sampling.draw_gaussian", "draw_rounded_normal") == {"privacy/mechanisms/gaussian.py"}
    assert users_of("take_streams") == {"privacy/mechanisms/selection.py"}
    assert users_of("big_integer_below") == {"privacy/mechanisms/selection.py"}
