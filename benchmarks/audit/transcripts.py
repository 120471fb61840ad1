"""What a fit releases, in its order, and fits that are made to release the same.

A `Watch` sits where mechanisms release. It keeps what was drawn, which an attacker sees, and what it was drawn for,
which tells how likely it was. A fit of the neighbouring table that is *replayed* releases what the first one did, with
the same bits for everything that no record influences, so that both likelihoods are known.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import diprime.estimators.boosting
import diprime.paper
import diprime.scoring  # noqa: F401 -- modules that were imported later would not be watched
from diprime._util.resources import Threads
from diprime.forest.engine import IndependentAssignment
from diprime.forest.rows import DrawnTrees
from diprime.privacy import randomness
from diprime.privacy.charges import Mechanism, Receipt
from diprime.privacy.mechanisms.gaussian import gaussian_sigma, rounded_gaussian
from diprime.privacy.mechanisms.laplace import discrete_laplace, frequent, laplace_scale
from diprime.privacy.mechanisms.selection import Selection, subset_median
from diprime.privacy.randomness import RandomSource

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Release:
    """One call of a mechanism.

    Attributes
    ----------
    mechanism : {"laplace", "gaussian", "subsets", "frequent"} or Mechanism
        What drew it.
    true : array
        The private numbers that it was drawn for: sums, costs or counts.
    drawn : array
        What was released.
    noise : float or array
        The scale of Laplace noise, the standard deviation of normal noise, or the table of weights.
    """

    mechanism: str | Mechanism
    true: Array
    drawn: Array
    noise: Any = None


@dataclass
class Transcript:
    """All releases of a fit, and the bits that they do not tell.

    Attributes
    ----------
    releases : list of Release
        The releases, in their order.
    key : bytes
        The key of the random bits.
    trees : list of arrays
        The tree of each row, wherever rows were assigned to trees.
    n_trees : int
        Among how many trees rows were divided.
    """

    key: bytes
    releases: list[Release] = field(default_factory=list)
    trees: list[Array] = field(default_factory=list)
    n_trees: int = 1

    @property
    def numbers(self) -> Array:
        """Everything that was released, as one list of numbers."""
        drawn = [np.asarray(release.drawn, dtype=np.float64).ravel() for release in self.releases]
        return np.concatenate([np.zeros(0), *drawn])


class _Enough(Exception):  # noqa: N818 -- no error: all releases of a replayed fit have been made
    """Ends a replayed fit: what it makes of its releases is of no interest."""


class ReplayError(Exception):
    """A replayed fit asked for other releases than the first one: it cannot have been made from what was released."""


class Watch:
    """Records and replays the releases of fits; used within `watching`."""

    def __init__(self, keys: Callable[[], bytes]) -> None:
        self._keys = keys
        self._now: Transcript | None = None
        self._earlier: Transcript | None = None
        self._at = 0
        self._own_tree: int | None = None

    def record(self, fit: Callable[[], Any]) -> tuple[Any, Transcript]:
        """Fit, and return the result and its transcript."""
        self._now, self._earlier, self._own_tree = Transcript(self._keys()), None, None
        result = fit()
        return result, self._now

    def replay(self, fit: Callable[[], Any], earlier: Transcript, own_tree: int | None = None) -> Transcript:
        """Fit with the releases of an earlier transcript, and return what they were drawn for.

        ``own_tree`` is the tree of the last row, if the table has a row more than the earlier one or its tree is to be
        another.
        """
        self._now, self._earlier, self._at, self._own_tree = Transcript(earlier.key), earlier, 0, own_tree
        try:
            fit()
        except _Enough:
            return self._now
        raise ReplayError("The replayed fit releases less than the first.")

    # -- stand-ins for what the library calls -------------------------------------------------------------------------

    def token_bytes(self, n: int) -> bytes:
        """Return a copy of the key of a fit, which overwrites what it is given."""
        assert self._now is not None
        return bytes(bytearray(self._now.key[:n]))

    def happened(self, mechanism: str | Mechanism, true: Array, draw: Callable[[], Any], noise: Any = None) -> Any:
        """Draw a release, or take the earlier one, and keep it."""
        assert self._now is not None
        drawn = draw()  # in any case: it uses a receipt
        if self._earlier is not None:
            drawn = self._next(mechanism, drawn)
        self._now.releases.append(Release(mechanism, true, np.array(drawn), noise))
        if self._earlier is not None and self._at == len(self._earlier.releases):
            raise _Enough
        return drawn

    def _next(self, mechanism: str | Mechanism, drawn: Any) -> Any:
        assert self._earlier is not None
        earlier = self._earlier.releases[self._at]
        self._at += 1
        if earlier.mechanism != mechanism or earlier.drawn.shape != np.shape(drawn):
            raise ReplayError("The replayed fit releases something else than the first.")
        return earlier.drawn.tolist() if isinstance(drawn, list) else earlier.drawn.copy()

    def assigned(self, n_trees: int, drawn: Array) -> Array:
        """Keep the trees of rows, which with the same key are the same again; the last row may get another."""
        assert self._now is not None
        if self._own_tree is not None and len(drawn):
            drawn[-1] = self._own_tree
        self._now.trees.append(drawn.copy())
        self._now.n_trees = n_trees
        return drawn


def _stand_ins(watch: Watch) -> Iterator[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Yield functions of the library, and what is called instead of them."""

    def laplace(values: Array, receipt: Receipt, sensitivity: int, streams: Array, times: int = 1) -> Any:
        numerator, denominator = laplace_scale(Fraction(receipt.charge.epsilon), sensitivity)
        scale = numerator / denominator
        draw = lambda: discrete_laplace(values, receipt, sensitivity, streams, times)  # noqa: E731
        return watch.happened("laplace", values.copy(), draw, scale)

    def gaussian(
        values: Array,
        receipt: Receipt,
        squared_sensitivity: int,
        streams: Array,
        times: int = 1,
        share: Fraction = Fraction(1),
    ) -> Any:
        measure: Any = receipt.charge.measure
        sigma = float(gaussian_sigma(Fraction(measure.mu_squared) * share, squared_sensitivity))
        draw = lambda: rounded_gaussian(values, receipt, squared_sensitivity, streams, times, share)  # noqa: E731
        return watch.happened("gaussian", values.copy(), draw, sigma)

    def subsets(selection: Selection, place: int, counts: list[int]) -> Any:
        draw = lambda: subset_median(selection, place, counts)  # noqa: E731
        return watch.happened("subsets", np.array(counts), draw, selection.table)

    def thresholded(counts: Array, receipt: Receipt, streams: Array, times: int = 1) -> Any:
        return watch.happened("frequent", counts.copy(), lambda: frequent(counts, receipt, streams, times))

    yield discrete_laplace, laplace
    yield rounded_gaussian, gaussian
    yield subset_median, subsets
    yield frequent, thresholded


def _watched_pick(watch: Watch) -> Callable[..., Any]:
    pick = Selection.pick

    def watched(selection: Selection, sets: Array, costs: Array, mirrored: Array | None = None) -> Any:
        written = costs.copy()
        if mirrored is not None:
            half = written.shape[1] // mirrored.shape[1] // 2
            blocks = written.reshape(*mirrored.shape, 2 * half)
            blocks[mirrored > 0, half:] = blocks[mirrored > 0, :half]
        draw = lambda: pick(selection, sets, costs, mirrored)  # noqa: E731
        return watch.happened(selection._rule, written, draw, selection.table)

    return watched


def _watched_assignment(watch: Watch) -> Callable[..., Any]:
    draws = IndependentAssignment.draws

    def watched(self: IndependentAssignment, sizes: Sequence[int], source: RandomSource) -> Sequence[DrawnTrees]:
        with Threads(1) as threads:
            trees = [part.draw(threads) for part in draws(self, sizes, source)]
        drawn = watch.assigned(self.n_trees, np.concatenate(trees))
        return [DrawnTrees(part) for part in np.split(drawn, np.cumsum(sizes)[:-1])]

    return watched


@contextmanager
def watching(keys: Callable[[], bytes]) -> Iterator[Watch]:
    """Watch all releases of fits with one thread, whose random bits come from the given keys of 32 bytes."""
    watch = Watch(keys)
    with ExitStack() as stack:
        for function, stand_in in _stand_ins(watch):
            replace_everywhere(stack, function, stand_in)
        stack.enter_context(patch.object(Selection, "pick", _watched_pick(watch)))
        stack.enter_context(patch.object(IndependentAssignment, "draws", _watched_assignment(watch)))
        secrets = SimpleNamespace(token_bytes=watch.token_bytes)
        stack.enter_context(patch.object(randomness, "secrets", secrets))
        yield watch


def replace_everywhere(stack: ExitStack, function: Callable[..., Any], stand_in: Callable[..., Any]) -> None:
    """Replace a function in every module of the library that has it, under whatever name, until the stack is left."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "diprime"]
    places = [(module, name) for module in modules for name, value in vars(module).items() if value is function]
    if not places:
        raise ValueError(f"No module of the library has {function.__name__}.")
    for module, name in places:
        stack.enter_context(patch.object(module, name, stand_in))
