"""Curves: integer basis functions with the stated norms, and fits that find smooth functions and useful features."""

import numpy as np
import pytest

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Domain, Numeric
from diprime.boosting import curves, defaults, train
from diprime.boosting.curves import CurveFit
from diprime.kernels.constants import N_CODES
from diprime.model.effects import first_codes
from tests.small_data import TASKS, assert_same_forest, boost, make

pytestmark = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")

INFINITY = float("inf")


@pytest.fixture
def no_rounds(monkeypatch):
    monkeypatch.setattr(defaults, "round_share", lambda task, signal: 0.0)


@pytest.fixture
def curve_fits(monkeypatch):
    """Return a list to which every fit adds its curves."""
    made, init = [], CurveFit.__init__

    def kept(fit, *arguments):
        init(fit, *arguments)
        made.append(fit)

    monkeypatch.setattr(CurveFit, "__init__", kept)
    return made


def numbers(n_features, target):
    return Domain({f"x{j}": Numeric(0, 1) for j in range(n_features)}, target)


# -- norms ------------------------------------------------------------------------------------------------------------


def check_norms(fit):
    """Check that what a step multiplies the sums with has the norms by which gradients are shortened."""
    grid = fit.grid()
    assert grid.constant == fit._constant.basis**2
    for codes in (np.arange(N_CODES), np.roll(np.arange(N_CODES), 1)):
        begin = 0
        for block in fit._blocks:
            n = len(block.features)
            assert np.array_equal(grid.features[begin : begin + n], block.features)
            for code in codes[::17]:
                one_record = np.zeros((n, N_CODES, block.coefficients.shape[-1]), dtype=np.int64)
                one_record[:, code] = 1
                projected = block.project(one_record)[..., 0].astype(object)
                norms = (projected.reshape(n, -1) ** 2).sum(axis=1) if n else []
                assert [int(norm) for norm in norms] == grid.norms[begin : begin + n, code].tolist()
            begin += n


@pytest.mark.parametrize("epsilon", [0.3, 3.0, INFINITY])
@pytest.mark.parametrize("task", TASKS)
def test_shortened_norms_are_those_of_the_projection_in_every_epoch(task, epsilon, monkeypatch):
    """Including epochs after features are dropped and cosines added."""
    for name, value in {"MAX_CURVES": 2, "ROUGH": -1.0, "ROUGH_DEVIATIONS": -1e9, "WAVES": 3, "MANY_WAVES": 5}.items():
        monkeypatch.setattr(defaults, name, value)
    monkeypatch.setattr(defaults, "n_waves", lambda signal: 3)
    step, sizes = CurveFit._step, set()

    def checked(fit, share, rate):
        if len(sizes) < 3 or np.random.default_rng().random() < 0.1:
            check_norms(fit)
        sizes.add((len(fit._features), fit._numbers.n_waves))
        return step(fit, share, rate)

    monkeypatch.setattr(CurveFit, "_step", checked)
    boost(task, *make(task, 3000), epsilon=epsilon, n_rounds=1)
    assert len({n for n, _ in sizes}) == 2, "features were dropped"
    assert {waves for _, waves in sizes} == {3, 5}, "cosines were added"


@pytest.mark.parametrize("task", TASKS)
def test_most_records_use_the_whole_sensitivity(task, curve_fits, no_rounds):
    boost(task, *make(task, 3000), epsilon=5.0)
    (fit,) = curve_fits
    share_of_code = np.concatenate([block.shares for block in fit._blocks])
    mean = (fit._norms * share_of_code).sum() + fit._constant.basis**2
    assert mean / fit._budget.basis_unit**2 == pytest.approx(1 / defaults.NORM_SHARE, rel=0.02)


# -- functions --------------------------------------------------------------------------------------------------------


def smooth(X):
    return 1.5 * np.cos(np.pi * X[:, 0]) + np.cos(2 * np.pi * X[:, 1]) - 2 * X[:, 2] ** 2


def test_smooth_function_of_numbers_is_recovered_without_noise(no_rounds):
    X = np.random.default_rng(0).random((20_000, 4))
    y = smooth(X)
    model = DiPriMeBoostingRegressor(INFINITY, numbers(4, Numeric(-5, 3)), random_state=0).fit(X, y)
    assert len(model.forest_.curves) == 4
    assert model.forest_.steps.is_curve.all()
    assert model.score(X, y) > 0.98


def test_log_odds_of_two_classes_are_recovered_without_noise(no_rounds):
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 3))
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-smooth(X)))).astype(int)
    model = DiPriMeBoostingClassifier(INFINITY, numbers(3, Categorical([0, 1])), random_state=0).fit(X, y)
    error = model.decision_function(X) - smooth(X)
    assert (error**2).mean() < 0.05 * smooth(X).var(), "the fit ends before its slowest directions converge"
    assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 0.01


def test_likeliest_of_three_classes_is_found_without_noise(no_rounds):
    rng = np.random.default_rng(0)
    X = rng.random((30_000, 3))
    odds = np.exp(np.stack([np.zeros(len(X)), smooth(X), -0.7 * smooth(X) + X[:, 2]], axis=1))
    p = odds / odds.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((len(X), 1))).sum(axis=1)
    model = DiPriMeBoostingClassifier(INFINITY, numbers(3, Categorical(range(3))), random_state=0).fit(X, y)
    assert p[np.arange(len(X)), model.predict(X)].mean() > p.max(axis=1).mean() - 0.005


@pytest.mark.parametrize("task", TASKS)
def test_missing_values_and_categories_have_values_of_their_own(task, no_rounds):
    rng = np.random.default_rng(0)
    effects = dict(zip("abcde", [0.9, 0.2, 0.6, 0.1, 0.4], strict=True))
    kinds, x = rng.choice([*effects, None], 20_000), rng.random(20_000)
    X = np.array([np.where(rng.random(20_000) < 0.3, None, x), kinds], dtype=object).T
    expected = np.array([effects.get(kind, 0.5) for kind in kinds]) * 0.5 + np.where(X[:, 0] == None, 0.5, 0.0)  # noqa: E711
    target = Numeric(0, 1) if task == "regression" else Categorical([0, 1])
    domain = Domain({"x": Numeric(0, 1), "kind": Categorical(list(effects))}, target)
    if task == "regression":
        model = DiPriMeBoostingRegressor(20.0, domain, random_state=0).fit(X, expected)
        found = model.predict(X)
    else:
        y = (rng.random(len(X)) < 0.05 + 0.9 * expected).astype(int)
        found = DiPriMeBoostingClassifier(20.0, domain, random_state=0).fit(X, y).predict_proba(X)[:, 1] / 0.9 - 0.05
    assert np.sqrt(((found - expected) ** 2).mean()) < 0.06


def test_rough_functions_get_more_cosines_and_smooth_ones_do_not(curve_fits, no_rounds):
    X = np.random.default_rng(0).random((5000, 2))
    domain = numbers(2, Numeric(-1, 1))
    for frequency, waves in ((1, defaults.WAVES), (7, defaults.MANY_WAVES)):
        y = np.cos(frequency * np.pi * X[:, 0]) * 0.8
        model = DiPriMeBoostingRegressor(10.0, domain, random_state=0).fit(X, y)
        assert curve_fits[-1]._numbers.n_waves == waves
        assert model.score(X, y) > 0.8


def test_noise_seldom_counts_as_roughness(curve_fits, no_rounds):
    X, y = np.random.default_rng(0).random((2000, 5)), np.tile([0, 1], 1000)
    for seed in range(8):
        DiPriMeBoostingClassifier(1.0, numbers(5, Categorical([0, 1])), random_state=seed).fit(X, y)
    assert {fit._numbers.n_waves for fit in curve_fits} == {defaults.WAVES}


# -- features ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [Numeric(-5, 3), Categorical([0, 1])])
def test_wide_tables_keep_few_curves_with_the_informative_features(target, no_rounds):
    rng = np.random.default_rng(0)
    n_features, informative = 300, [17, 150, 299]
    X = rng.random((4000, n_features))
    score = 0.6 * smooth(X[:, informative])
    if isinstance(target, Numeric):
        y, kind = score, DiPriMeBoostingRegressor
    else:
        y, kind = (
            (rng.random(4000) < 1 / (1 + np.exp(-5 * (score - score.mean())))).astype(int),
            DiPriMeBoostingClassifier,
        )
    model = kind(10.0, numbers(n_features, target), random_state=0).fit(X, y)
    used = {term.features[0] for term in model.forest_.effects.terms}
    assert set(informative) <= used
    assert len(model.forest_.curves) == defaults.MAX_CURVES
    strongest = np.argsort(model.feature_importances_)[-3:]
    assert sorted(strongest.tolist()) == informative


def test_weights_move_to_features_with_large_curves(curve_fits, no_rounds):
    X = np.random.default_rng(0).random((4000, 10))
    y = 0.8 * np.cos(np.pi * X[:, 3])
    DiPriMeBoostingRegressor(2.0, numbers(10, Numeric(-1, 1)), random_state=0).fit(X, y)
    norms = curve_fits[0]._norms[:, :255].mean(axis=1)
    assert norms[3] > 5 * np.delete(norms, 3).max()
    assert np.delete(norms, 3).min() > 0.01 * norms[3], "every feature keeps a part"


@pytest.mark.parametrize(("score", "kept"), [(9.0, 1.0), (4.0, 1.0), (2.0, 0.5), (0.0, 0.0), (-3.0, 0.0)])
@pytest.mark.parametrize("task", TASKS)
def test_curves_of_classes_shrink_without_evidence_and_their_noise_with_them(
    task, score, kept, curve_fits, no_rounds, monkeypatch
):
    models, parts = [], []
    for of_fit in (float("inf"), score):
        monkeypatch.setattr(curves, "evidence", lambda *arguments, of_fit=of_fit: of_fit)
        models.append(boost(task, *make(task, 1500), epsilon=5.0, random_state=0))
        parts.append(models[-1].forest_.steps.curve_noise)
    kept = 1.0 if task == "regression" else kept
    whole, shrunk = (model.forest_ for model in models)
    assert np.abs(shrunk.values - kept * whole.values).max() < 1e-5
    for first, second in zip(*parts, strict=True):
        assert second == pytest.approx(kept * first)
    assert np.array_equal(shrunk.code_weights, whole.code_weights)


# -- the same curves --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_order_of_records_changes_nothing(task):
    X, y = make(task, 2000)
    order = np.random.default_rng(0).permutation(len(X))
    settings = {"epsilon": 20.0, "random_state": 0}
    assert_same_forest(boost(task, X[order], y[order], **settings), boost(task, X, y, **settings))


@pytest.mark.parametrize("task", TASKS)
def test_little_information_gives_a_constant(task):
    X, y = make(task, 500)
    model = boost(task, X, y, epsilon=0.01, random_state=0)
    assert model.forest_.effects.terms == ()
    assert model.forest_.curves == model.forest_.rounds == []
    assert train.CONSTANT_NOTE in model.privacy_.notes
    larger = boost(task, X, y, epsilon=5.0, random_state=0)
    assert train.CONSTANT_NOTE not in larger.privacy_.notes
    assert len(larger.forest_.curves) == larger.domain_.n_features


@pytest.mark.parametrize(("signal", "is_constant"), [(24.9, True), (25.0, False)])
@pytest.mark.parametrize("task", TASKS)
def test_constant_is_below_the_stated_information(task, signal, is_constant, monkeypatch):
    monkeypatch.setattr(defaults, "information", lambda n_rows, mu_squared: signal)
    model = boost(task, *make(task, 500), random_state=0)
    assert (model.forest_.curves == []) == is_constant


def test_curve_separates_all_codes_with_the_values_of_training(curve_fits, no_rounds):
    X, y = make("regression", 2000)
    model = boost("regression", X, y, epsilon=5.0, random_state=0)
    (grid, _), (low, high) = curve_fits[0].result(), model.domain_.output_range
    for term in model.forest_.effects.terms:
        (j,), (segments,) = term.features, term.segments
        place = int(np.flatnonzero(grid.features == j)[0])
        of_training = grid.values[place, first_codes(segments), 0] / 2**24 * (high - low)
        difference = term.table[:, 0] - of_training
        assert np.ptp(difference) < 1e-6, "up to the mean"
