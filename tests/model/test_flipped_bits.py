"""Model files with one flipped bit and a checksum that fits: they are refused, or hold a valid model."""

import hashlib

import numpy as np
import pytest

from diprime.estimators.models import to_model
from diprime.model.files import ModelFileError, to_bytes
from tests.small_data import TASKS, boost, fit, make

SHARE_OF_ARRAYS = 0.7
SMALL = {"max_depth": 2, "n_estimators": 2, "random_state": 0}
MODELS = {
    **{f"forest, {task}": (fit, task, SMALL) for task in TASKS},
    **{f"boosted, {task}": (boost, task, {"n_rounds": 3, "random_state": 0}) for task in TASKS},
    "forest with weights": (fit, "classification", {**SMALL, "class_weight": {"a": 3}}),
    "forest of shared rows": (fit, "classification", {**SMALL, "disjoint_rows": False}),
    "forest without noise": (fit, "classification", {**SMALL, "epsilon": float("inf")}),
}


def flipped(data, rng):
    """Return a file with one flipped bit after its magic, more often in the arrays, and with a fitting checksum."""
    content = bytearray(data[:-32])
    arrays = 16 + int.from_bytes(data[8:16], "little")
    place = rng.integers(arrays if rng.random() < SHARE_OF_ARRAYS else 8, len(content))
    content[place] ^= 1 << rng.integers(8)
    return bytes(content) + hashlib.sha256(content).digest()


def assert_valid(model, X):
    """Check all that holds for the predictions of any fitted model."""
    predicted = model.predict(X)
    if hasattr(model, "classes_"):
        shares = model.predict_proba(X)
        assert ((shares >= 0) & (shares <= 1)).all()
        assert shares.sum(axis=1) == pytest.approx(1, abs=1e-9)
        assert np.isin(predicted, model.classes_).all()
    else:
        low, high = model.domain_.output_range
        assert ((predicted >= low) & (predicted <= high)).all()
    importances = model.feature_importances_
    assert (importances >= 0).all()
    assert importances.sum() == pytest.approx(1, abs=1e-9) or not importances.any()
    assert model.privacy_.total <= model.privacy_.epsilon


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
@pytest.mark.parametrize("n_flips", [40, pytest.param(2000, marks=pytest.mark.audit)])
@pytest.mark.parametrize("name", MODELS)
def test_file_with_a_flipped_bit_is_refused_or_valid(name, n_flips):
    learn, task, parameters = MODELS[name]
    data = to_bytes(learn(task, *make(task, 500), **parameters)._to_content())
    rng, X, n_loaded = np.random.default_rng(0), make(task, 200, 1)[0], 0
    for _ in range(n_flips):
        try:
            model = to_model(flipped(data, rng), "model.diprime")
        except ModelFileError:
            continue
        assert_valid(model, X)
        n_loaded += 1
    assert 0 < n_loaded < n_flips


@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_probabilities_that_do_not_add_up_to_one_are_refused():
    data = to_bytes(fit("classification", *make("classification", 500), **SMALL)._to_content())
    model = to_model(data, "model.diprime")
    n_values = model.forest_.values.size
    content = bytearray(data[:-32])
    values = len(content) - 8 * (len(model.forest_.counts) + n_values)
    content[values : values + 8 * n_values] = np.full(n_values, 0.118 / 3).tobytes()
    with pytest.raises(ModelFileError, match=r"probabilities .*leaf "):
        to_model(bytes(content) + hashlib.sha256(content).digest(), "model.diprime")
