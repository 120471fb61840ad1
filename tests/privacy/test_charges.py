"""Receipts: only an account issues them, and each pays for the mechanism, the bound and the number that was charged."""

import contextlib
import copy
import math
import pickle
import re
import threading
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.privacy.charges import Bound, BoundKind, Mechanism, Receipt, UnpaidReleaseError
from diprime.privacy.measures import GaussianDP, PureEpsilon
from diprime.privacy.mechanisms.gaussian import rounded_gaussian
from diprime.privacy.mechanisms.laplace import discrete_laplace, frequent
from diprime.privacy.mechanisms.selection import Selection, best_of_random_number, weight_table
from diprime.privacy.randomness import RandomSource
from tests.paid import approximate_receipt, gaussian_receipt, nothing, receipt

LAPLACE = Mechanism.DISCRETE_LAPLACE


def test_only_an_account_makes_receipts():
    for issuer in (object(), None):
        with pytest.raises(UnpaidReleaseError, match="Only an account"):
            Receipt(nothing(1), issuer)
    with pytest.raises(AttributeError):
        Receipt.__new__(Receipt).use(LAPLACE)
    with pytest.raises(TypeError, match="subclassed"):
        type("Free", (Receipt,), {})


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps, lambda r: copy.deepcopy({"paid": [r]})])
def test_a_receipt_cannot_be_copied(take):
    paid = receipt(LAPLACE)
    with pytest.raises(TypeError, match="cannot be copied"):
        take(paid)
    assert paid.unused == 1


def test_the_fields_of_a_receipt_cannot_be_set():
    paid = receipt(LAPLACE)
    for name, value in (("unused", 10), ("charge", nothing(math.inf)), ("more", 1)):
        with pytest.raises(AttributeError):
            setattr(paid, name, value)


def test_a_receipt_pays_for_the_mechanism_that_was_charged():
    paid = receipt(Mechanism.PERMUTE_AND_FLIP, times=2)
    with pytest.raises(UnpaidReleaseError, match=r"for permute-and-flip, .*discrete Laplace"):
        paid.use(LAPLACE)
    assert paid.unused == 2  # what was refused has used up nothing


@pytest.mark.parametrize(
    ("paid", "method"),
    [
        (receipt(LAPLACE, calibrated_to=2), "use"),
        (gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, calibrated_to=2), "use_gaussian"),
        (
            approximate_receipt(Mechanism.THRESHOLDED_LAPLACE, Fraction(1), Fraction(1, 10**6), calibrated_to=2),
            "use_approximate",
        ),
    ],
)
def test_a_receipt_pays_for_the_bound_that_was_charged(paid, method):
    bound, use = paid.charge.sensitivity, getattr(paid, method)
    others = [replace(bound, n=n) for n in (0, 1, 3)] + [Bound(kind, 2) for kind in BoundKind if kind is not bound.kind]
    for other in others:
        with pytest.raises(UnpaidReleaseError, match=f"charged for {bound}, but released for {re.escape(str(other))}"):
            use(paid.charge.mechanism, bound=other)
    assert paid.unused == 1
    use(paid.charge.mechanism, bound=bound)
    assert paid.unused == 0


def test_a_receipt_pays_for_as_many_releases_as_were_charged():
    paid = receipt(LAPLACE, Fraction(1, 3), times=5)
    for times in (1, 2):
        assert paid.use(LAPLACE, times) == PureEpsilon(Fraction(1, 3))
    with pytest.raises(UnpaidReleaseError, match="3 releases requested, but only 2 of 5 charged releases are left"):
        paid.use(LAPLACE, 3)
    paid.use(LAPLACE, 2)
    for times in (1, 2):
        with pytest.raises(UnpaidReleaseError, match="0 of 5 charged releases are left"):
            paid.use(LAPLACE, times)
    with pytest.raises(UnpaidReleaseError, match="0 of 0 charged releases are left"):
        receipt(LAPLACE, times=0).use(LAPLACE)


@pytest.mark.parametrize("times", [0, -1, -(10**9), 0.5, math.nan])
def test_a_release_that_uses_up_nothing_is_refused(times):
    paid = receipt(LAPLACE, times=3)
    with pytest.raises(UnpaidReleaseError, match="requested"):
        paid.use(LAPLACE, times)
    assert paid.unused == 3


@pytest.mark.parametrize(
    ("paid", "method", "times"),
    [
        (receipt(LAPLACE), "use", Fraction(1, 2)),
        (approximate_receipt(LAPLACE, Fraction(1), Fraction(1, 10**6)), "use_approximate", Fraction(1, 2)),
        (gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN), "use_gaussian", 0.5),
    ],
)
def test_only_gaussian_releases_are_divided_and_only_exactly(paid, method, times):
    with pytest.raises(UnpaidReleaseError, match=f"{times} releases"):
        getattr(paid, method)(paid.charge.mechanism, times, bound=paid.charge.sensitivity)
    assert paid.unused == 1


@given(st.lists(st.fractions(0, 1, max_denominator=10**9).filter(bool), min_size=1, max_size=12))
@settings(deadline=None)
def test_fractions_of_releases_add_up_to_at_most_what_was_charged(fractions):
    paid = gaussian_receipt(Mechanism.ROUNDED_GAUSSIAN, Fraction(1, 3), times=2)
    left = Fraction(2)
    for fraction in fractions:
        if fraction <= left:
            assert use_fraction(paid, fraction) == GaussianDP(Fraction(1, 3)), "the cost of a whole release"
            left -= fraction
        else:
            with pytest.raises(UnpaidReleaseError, match=f"{left} of 2"):
                use_fraction(paid, fraction)
        assert paid.unused == left, "exactly"
    if left:
        use_fraction(paid, left)
    with pytest.raises(UnpaidReleaseError):
        use_fraction(paid, Fraction(1, 10**30))


def use_fraction(paid, fraction):
    return paid.use_gaussian(paid.charge.mechanism, fraction, bound=paid.charge.sensitivity)


def test_threads_do_not_use_the_last_release_twice():
    class SlowInt(int):
        """Takes its time after it was compared, for others to be compared as well."""

        def __le__(self, other):
            result = int(self) <= other
            time.sleep(0.02)
            return result

    paid, start, done = receipt(LAPLACE, times=3), threading.Barrier(8), []

    def attempt():
        start.wait()
        with contextlib.suppress(UnpaidReleaseError):
            done.append(paid.use(LAPLACE, SlowInt(1)))

    workers = [threading.Thread(target=attempt) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (len(done), paid.unused) == (3, 0)


# -- every mechanism ---------------------------------------------------------------------------------------------------

COUNTS = np.array([[1, 2], [3, 4]])
TABLE = weight_table(Fraction(1), 3, 3)


def streams(n=2):
    return RandomSource(0).streams(n)


def approximately(mechanism, epsilon=1, times=1, calibrated_to=1):
    return approximate_receipt(mechanism, Fraction(epsilon), Fraction(1, 10**6), times, calibrated_to)


RELEASES = {
    "Laplace": (LAPLACE, receipt, 3, lambda r, times: discrete_laplace(COUNTS, r, 3, streams(), times)),
    "Gaussian": (
        Mechanism.ROUNDED_GAUSSIAN,
        gaussian_receipt,
        3,
        lambda r, times: rounded_gaussian(COUNTS, r, 3, streams(), times),
    ),
    "threshold": (
        Mechanism.THRESHOLDED_LAPLACE,
        approximately,
        1,
        lambda r, times: frequent(COUNTS[0], r, streams(1), times),
    ),
    "selection": (
        Mechanism.PERMUTE_AND_FLIP,
        receipt,
        3,
        lambda r, times: Selection(r, streams(), cost_range=3, n_candidates=3, times=times),
    ),
    "published weights": (
        Mechanism.EXPONENTIAL,
        receipt,
        3,
        lambda r, times: [Selection.with_published_weights(r, TABLE, streams()) for _ in range(times)],
    ),
    "stopping": (
        Mechanism.RANDOM_STOPPING,
        receipt,
        7,
        lambda r, times: [best_of_random_number(lambda m: (0, m), r, 7, RandomSource(0)) for _ in range(times // 3)],
    ),
}
every_mechanism = pytest.mark.parametrize(("mechanism", "paid", "n", "release"), RELEASES.values(), ids=RELEASES)


class LookAlike:
    """Has all that a receipt has, and was not paid for."""

    def __init__(self, paid):
        self.charge = paid.charge
        self.unused = 10**9
        self.use = self.use_gaussian = self.use_approximate = lambda *_, **__: paid.charge.measure


@every_mechanism
def test_only_receipts_pay_for_releases(mechanism, paid, n, release):
    used_up = paid(mechanism, times=3, calibrated_to=n)
    release(used_up, 3)
    assert used_up.unused == 0
    for unpaid in (None, 1.0, Fraction(1), used_up.charge, LookAlike(used_up)):
        with pytest.raises(UnpaidReleaseError, match=rf"receipt .*account, got {type(unpaid).__name__}"):
            release(unpaid, 3)
    for unpaid in (used_up, paid(mechanism, times=0, calibrated_to=n)):
        with pytest.raises(UnpaidReleaseError, match=r"charged releases are left"):
            release(unpaid, 3)


@every_mechanism
def test_a_release_uses_up_as_many_releases_as_it_makes(mechanism, paid, n, release):
    receipt = paid(mechanism, times=5, calibrated_to=n)
    release(receipt, 3)
    assert receipt.unused == 2
    with pytest.raises(UnpaidReleaseError, match=r"[012] of 5 charged releases are left"):
        release(receipt, 3)


@every_mechanism
def test_a_release_needs_the_receipt_of_its_mechanism_and_measure(mechanism, paid, n, release):
    for other in (LAPLACE, Mechanism.RANDOM_STOPPING, Mechanism.NONE):
        if other is not mechanism:
            wrong = paid(other, times=3, calibrated_to=n)
            with pytest.raises(UnpaidReleaseError, match=f"charged for {other}, but released by"):
                release(wrong, 3)
            assert wrong.unused == 3
    for other in {receipt, gaussian_receipt, approximately} - {paid}:
        wrong = other(mechanism, times=3, calibrated_to=n)
        with pytest.raises(UnpaidReleaseError, match=r"charged in .*, but released (for|with)"):
            release(wrong, 3)
        assert wrong.unused == 3


@pytest.mark.parametrize("charged", [2, 6, 999])
@pytest.mark.parametrize(
    "name", sorted(RELEASES.keys() - {"published weights"})
)  # weights of their own follow from no bound
def test_a_release_is_calibrated_to_the_bound_that_was_charged(name, charged):
    mechanism, paid, n, release = RELEASES[name]
    wrong = paid(mechanism, times=3, calibrated_to=charged)
    with pytest.raises(UnpaidReleaseError, match=f"for .* {charged}.*, but released for .* {n}"):
        release(wrong, 3)
    assert wrong.unused == 3
