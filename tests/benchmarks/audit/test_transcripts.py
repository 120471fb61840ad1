"""Releases are recorded as they are, and a replayed fit releases the same."""

import numpy as np
import pytest

from benchmarks.audit import neighbours
from benchmarks.audit.__main__ import keys
from benchmarks.audit.transcripts import ReplayError, watching
from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier
from diprime.forest import sums
from diprime.forest.engine import IndependentAssignment
from diprime.privacy import randomness
from diprime.privacy.charges import Mechanism
from diprime.privacy.mechanisms.laplace import discrete_laplace
from diprime.privacy.mechanisms.selection import Selection

OF = neighbours.misfit()


def fits(kind=DiPriMeClassifier, **parameters):
    """Return a function that fits the table without the canary, or with it."""
    parameters = {"n_estimators": 1, "max_depth": 1, **parameters} if kind is DiPriMeClassifier else parameters

    def of(*, with_canary):
        X, y, _ = OF.table(with_canary=with_canary)
        return lambda: kind(4.0, OF.domain, n_jobs=1, **parameters).fit(X, y)

    return of


def test_transcript_contains_every_release():
    with watching(keys(1)) as watch:
        model, transcript = watch.record(fits()(with_canary=False))
    assert [release.mechanism for release in transcript.releases] == ["laplace", Mechanism.EXPONENTIAL, "laplace"]
    counts, _, of_leaves = transcript.releases
    assert counts.true.tolist() == [[40, 40]]
    assert of_leaves.drawn.sum(axis=1).tolist() == model.forest_.counts.ravel().tolist()
    assert of_leaves.true.sum() == 80
    assert len(transcript.numbers) == 2 + 1 + 4


def test_releases_are_determined_by_random_bits():
    drawn = []
    for seed in (1, 1, 2):
        with watching(keys(seed)) as watch:
            drawn.append(watch.record(fits()(with_canary=False))[1].numbers.tolist())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("kind", [DiPriMeClassifier, DiPriMeBoostingClassifier])
def test_replayed_fit_repeats_releases_on_the_other_table(kind):
    of = fits(kind, **({} if kind is DiPriMeClassifier else {"n_rounds": 3, "delta": 0.01}))
    with watching(keys(1)) as watch:
        _, first = watch.record(of(with_canary=False))
        again = watch.replay(of(with_canary=True), first)
        same = watch.replay(of(with_canary=False), first)
    np.testing.assert_array_equal(again.numbers, first.numbers)
    for release, other in zip(first.releases, same.releases, strict=True):
        np.testing.assert_array_equal(release.true, other.true)
    assert any((a.true != b.true).any() for a, b in zip(first.releases, again.releases, strict=True))


def test_replay_changes_only_the_tree_of_the_canary():
    of = fits(n_estimators=3)
    with watching(keys(1)) as watch:
        _, first = watch.record(of(with_canary=False))
        for tree in range(3):
            (trees,) = watch.replay(of(with_canary=True), first, tree).trees
            assert trees[:-1].tolist() == first.trees[0].tolist()
            assert trees[-1] == tree
    assert first.n_trees == 3


def test_replay_of_other_queries_is_refused():
    with watching(keys(1)) as watch:
        _, first = watch.record(fits(max_depth=2)(with_canary=False))
        with pytest.raises(ReplayError, match="something else"):
            watch.replay(fits(max_depth=1)(with_canary=False), first)
        _, first = watch.record(fits(method="random")(with_canary=False))
        first.releases.append(first.releases[-1])
        with pytest.raises(ReplayError, match="less"):
            watch.replay(fits(method="random")(with_canary=False), first)


def test_spies_are_removed_afterwards():
    before = sums.discrete_laplace, Selection.pick, IndependentAssignment.draws, randomness.secrets
    with watching(keys(1)):
        assert sums.discrete_laplace is not discrete_laplace
    assert before == (sums.discrete_laplace, Selection.pick, IndependentAssignment.draws, randomness.secrets)
    assert sums.discrete_laplace is discrete_laplace
