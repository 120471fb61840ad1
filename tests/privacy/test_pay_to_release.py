"""A release that is not paid for does not type-check, and the places that could avoid payment are few and known."""

import ast
import re
from pathlib import Path

import pytest

import diprime

SOURCES = Path(diprime.__file__).parent

# Lines that end in "# unpaid" are wrong, and no others are.
SNIPPETS = """
from fractions import Fraction

import numpy as np

from diprime.privacy.charges import Charge, Receipt
from diprime.privacy.ledger import Ledger
from diprime.privacy.measures import PureEpsilon
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Costs, Selection
from diprime.privacy.mechanisms.stopping import best_of_random_number
from diprime.privacy.mechanisms.subsets import subset_median
from diprime.privacy.mechanisms.threshold import frequent
from diprime.privacy.mechanisms.weights import Weights
from diprime.privacy.randomness import RandomSource, Streams

EPSILON = Fraction(1)
CHARGE = Charge("sums", "discrete Laplace", "L1 sensitivity 1", PureEpsilon(EPSILON))


def paid(ledger: Ledger, costs: Costs, streams: Streams, table: Weights) -> None:
    receipt = ledger.pay(CHARGE)
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


def selections(streams: Streams, table: Weights, ledger: Ledger) -> None:
    Selection.with_published_weights(EPSILON, table, streams)  # unpaid
    Selection.with_published_weights(None, table, streams)  # unpaid
    Selection.with_published_weights(CHARGE, table, streams)  # unpaid
    Selection.with_published_weights(ledger, table, streams)  # unpaid
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


class Free(Receipt):  # unpaid
    pass


class FreeSelection(Selection):  # unpaid
    pass
"""


def test_a_release_that_is_not_paid_for_does_not_type_check(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    root = SOURCES.parents[1]
    if not (root / "pyproject.toml").exists():
        pytest.skip("the sources and their settings are not here")
    monkeypatch.chdir(root)  # the project's settings, and its cache
    file = tmp_path / "releases.py"
    file.write_text(SNIPPETS)
    report, errors, _ = api.run(["--strict", "--no-error-summary", str(file)])
    assert errors == ""
    found = {int(line) for line in re.findall(r"releases\.py:(\d+): error:", report)}
    expected = {i for i, line in enumerate(SNIPPETS.splitlines(), 1) if line.endswith("# unpaid")}
    assert found == expected, report


def users_of(*names):
    """Return the modules that call something by one of these names, such as Ledger or Selection.uniform."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        calls = [
            node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
        ]
        if any(ast.unparse(call) == name or ast.unparse(call).endswith(f".{name}") for call in calls for name in names):
            found.add(path.relative_to(SOURCES).as_posix())
    return found


def test_few_places_open_ledgers():
    """A ledger of one's own pays for anything: fits, domains and scores open one, and it is the one that they show.

    A search pays for its fits from that one, and opens a ledger for each fit, of what was paid for it, and one for the
    records that choose, none of which trains.
    """
    charged = {"domain/learning.py", "estimators/base.py", "scoring/scorers.py"}
    assert users_of("Ledger") == {*charged, "search/choosing.py"}
    assert charged == users_of("spending.charge") == users_of("spending.check"), "or it would be in no study's budget"


def test_only_published_recipes_weigh_costs_otherwise_than_was_paid():
    """Elsewhere, weights follow from the receipt: there is no table that could be of another epsilon."""
    assert users_of("with_published_weights") == {"paper/baselines/recipes.py"}


def test_free_selections_and_receipts_are_made_where_they_are_known_to_be_harmless():
    assert users_of("Selection.uniform") == {"training/splitting/median.py"}
    assert users_of("Receipt") == {"privacy/ledger.py"}


def test_noise_is_drawn_by_the_mechanisms_alone():
    """The samplers of the kernels know nothing of receipts: what calls them asks for one, or never sees data."""
    selecting, adding = ("sampling.exponential", "sampling.permute_and_flip"), ("sampling.draw_laplace",)
    assert users_of(*selecting, *adding) == {
        "privacy/mechanisms/laplace.py",
        "privacy/mechanisms/selection.py",
        "privacy/mechanisms/threshold.py",
    }
    assert users_of("sampling.draw_gaussian", "draw_rounded_normal") == {"privacy/mechanisms/gaussian.py"}
    assert users_of("take_streams") == {"privacy/mechanisms/selection.py", "privacy/mechanisms/subsets.py"}
    assert users_of("big_integer_below") == {"privacy/mechanisms/subsets.py"}
