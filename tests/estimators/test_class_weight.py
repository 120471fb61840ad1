"""Weights of classes: what they change, that they cost nothing, and everything that has to know of them."""

import numpy as np
import pytest

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Numeric,
    PrivateSearch,
    load,
    merge,
)
from diprime.export import onnx_inputs, to_onnx
from diprime.model.files import ModelFileError, save_content
from diprime.report import render
from tests.small_data import PAPER, boost, fit

FEATURES = {"x": Numeric(0, 10), "z": Numeric(0, 10)}
RARE = Domain(FEATURES, Categorical(["well", "ill", "odd"]))  # not in the order of the alphabet
TWO = Domain(FEATURES, Categorical(["well", "ill"]))
WEIGHTS = {"ill": 8, "odd": 0.5}
seeded = pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
both = pytest.mark.parametrize("fitted", [fit, boost])


def made(domain, n=4000, seed=0):
    """Return rows of which one in twenty is ill: mostly where x is above 8, and nowhere more than half of them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 10, (n, 2))
    ill = rng.random(n) < np.where(X[:, 0] > 8, 0.25, 0.01)
    y = np.where(ill, "ill", "well").astype(object)
    if len(domain.target.categories) > 2:
        y[(X[:, 1] > 9) & (rng.random(n) < 0.4)] = "odd"
    return X, y


def models(fitted, domain, class_weight, **parameters):
    """Return the same seeded fit with and without weights."""
    X, y = made(domain)
    parameters = {"domain": domain, "random_state": 3, "epsilon": 5.0, **parameters}
    return tuple(fitted("classification", X, y, class_weight=w, **parameters) for w in (class_weight, None))


# -- what they do -----------------------------------------------------------------------------------------------------


@seeded
@both
@pytest.mark.parametrize("domain", [TWO, RARE])
@pytest.mark.parametrize("class_weight", ["balanced", {"ill": 30}])
def test_class_weights_raise_the_recall_of_a_rare_class(fitted, domain, class_weight):
    weighted, plain = models(fitted, domain, class_weight, epsilon=20.0)
    X, y = made(domain, seed=1)
    ill = y == "ill"
    recall = {model: (model.predict(X[ill]) == "ill").mean() for model in (weighted, plain)}
    assert recall[weighted] > 0.75
    assert recall[plain] < 0.3
    assert weighted.predict_proba(X).sum(axis=1) == pytest.approx(1)


@seeded
@pytest.mark.parametrize("domain", [TWO, RARE])
def test_boosting_multiplies_odds_by_weights(domain):
    weighted, plain = models(boost, domain, WEIGHTS if domain is RARE else {"ill": 8})
    X, _ = made(domain)
    odds = [np.log(model.predict_proba(X)) for model in (weighted, plain)]
    logs = np.log([{"well": 1, **WEIGHTS}[label] for label in weighted.classes_])
    difference = odds[0] - odds[1] - logs
    assert np.ptp(difference, axis=1).max() < 1e-9


@seeded
@pytest.mark.parametrize("domain", [TWO, RARE])
def test_balanced_boosting_starts_from_equal_classes(domain):
    weighted, plain = models(boost, domain, "balanced")
    y = made(domain)[1]
    logs = np.log([(y == label).mean() for label in weighted.classes_])
    start = logs[1:] - logs[0] if len(logs) == 2 else logs - logs.mean()
    assert plain.forest_.offset - weighted.forest_.offset == pytest.approx(start, abs=0.2)
    assert np.abs(start).max() > 1


@seeded
@both
@pytest.mark.parametrize("class_weight", ["balanced", WEIGHTS])
def test_weights_change_no_release_and_no_charge(fitted, class_weight):
    weighted, plain = models(fitted, RARE, class_weight)
    for name in ("depths", "features", "masks", "counts"):
        assert np.array_equal(getattr(weighted.forest_, name), getattr(plain.forest_, name)), name
    assert weighted.privacy_ == plain.privacy_
    if fitted is boost:
        assert weighted.forest_.values == pytest.approx(plain.forest_.values, abs=1e-9)


# -- mistakes ---------------------------------------------------------------------------------------------------------


@both
def test_weights_of_unknown_classes_are_refused(fitted):
    X, y = made(TWO, 50)
    with pytest.raises(ValueError, match=r"^class_weight .*'sick'"):
        fitted("classification", X, y, domain=TWO, class_weight={"sick": 2})
    undeclared_target = Domain(FEATURES, Categorical())
    with pytest.raises(ValueError, match=r"^class_weight .*domain .*classes\..*balanced"):
        fitted("classification", X, y, domain=undeclared_target, class_weight={"ill": 2})


def test_published_accounting_has_no_weights():
    with pytest.raises(ValueError, match=r"^class_weight .*None: .*paper"):
        fit("classification", *made(TWO, 50), domain=TWO, class_weight="balanced", estimators=PAPER)


@both
def test_models_of_different_weights_are_not_merged(fitted):
    X, y = made(RARE, 100)
    plain, balanced = (fitted("classification", X, y, domain=RARE, class_weight=w) for w in (None, "balanced"))
    with pytest.raises(ValueError, match="different class_weight"):
        merge([plain, balanced], disjoint=True)
    assert merge([balanced, balanced], disjoint=True).class_weight == "balanced"


@both
def test_full_weights_of_a_file_equal_those_of_the_fit(fitted, tmp_path):
    X, y = made(RARE, 100)
    some, other = (fitted("classification", X, y, domain=RARE, class_weight={"ill": w}) for w in (3, 4))
    some.save(tmp_path / "model.diprime")
    merged = merge([some, load(tmp_path / "model.diprime")], disjoint=True)
    assert merged.forest_.n_trees == 2 * some.forest_.n_trees
    with pytest.raises(ValueError, match="different class_weight"):
        merge([other, load(tmp_path / "model.diprime")], disjoint=True)


def test_search_accepts_weights_but_does_not_choose_them():
    model = DiPriMeClassifier(domain=RARE, class_weight="balanced", max_depth=2)
    with pytest.raises(ValueError, match="select class_weight"):
        PrivateSearch(model, {"class_weight": [None, "balanced"]})._check_settings(2)
    search = PrivateSearch(model, {"balance": [0, 1]}, epsilon=3.0).fit(*made(RARE))
    assert search.best_estimator_.fitted_params_["class_weight"] == "balanced"


# -- files, reports and other programs --------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("class_weight", ["balanced", WEIGHTS])
def test_files_and_reports_state_the_weights(fitted, class_weight, tmp_path):
    X, y = made(RARE, 300)
    model = fitted("classification", X, y, domain=RARE, class_weight=class_weight)
    page = render(model)
    assert ("ill: 8, odd: 0.5" if class_weight is WEIGHTS else "balanced") in page
    model.save(tmp_path / "model.diprime")
    copy = load(tmp_path / "model.diprime")
    weights = {"well": 1.0, "ill": 8.0, "odd": 0.5} if class_weight is WEIGHTS else class_weight
    assert copy.class_weight == copy.fitted_params_["class_weight"] == weights
    assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
    if fitted is fit:
        assert "Estimates are weighted by class_weight" in page


@both
@pytest.mark.parametrize(
    "weights", [{"sick": 2.0}, {"ill": 2.0}, [1.0, 2.0], [1.0, 2.0, 0.0], [1.0, 2.0, "3"], 7, "equal"]
)
def test_files_with_impossible_weights_are_refused(fitted, weights, tmp_path):
    content = fitted("classification", *made(RARE, 100), domain=RARE, class_weight="balanced")._to_content()
    content.parameters["class_weight"] = weights
    save_content(content, tmp_path / "model.diprime")
    with pytest.raises(ModelFileError, match=r"its parameters .*: class_weight"):
        load(tmp_path / "model.diprime")


@both
def test_onnx_model_applies_weights(fitted):
    runtime = pytest.importorskip("onnxruntime")
    X, y = made(RARE, 500)
    model = fitted("classification", X, y, domain=RARE, class_weight="balanced")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    label, probabilities = session.run(["label", "probabilities"], onnx_inputs(model, X))
    assert np.array_equal(label, model.predict(X))
    assert probabilities == pytest.approx(model.predict_proba(X))


@both
def test_class_weights_apply_to_people(fitted):
    X, y = made(RARE)
    model = (DiPriMeClassifier if fitted is fit else DiPriMeBoostingClassifier)(
        20.0, RARE, max_records_per_group=4, class_weight="balanced"
    )
    model.fit(X, y, groups=np.arange(len(y)) // 2)
    ill = y == "ill"
    assert (model.predict(X[ill]) == "ill").mean() > 0.6
    assert model.privacy_.total == 20
