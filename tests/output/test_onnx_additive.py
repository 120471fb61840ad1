"""Exported boosted models in onnxruntime: scores, labels and predictions are bit-identical."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import Categorical, Domain
from diprime.output.onnx import onnx_inputs, to_onnx
from tests.made_additive import DOMAINS, FEATURES, as_model, made_forest, made_model, made_rows

pytest.importorskip("onnx", reason="onnx is not installed.")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed.")


def run(model, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    exported = to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(exported, options, ["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, onnx_inputs(model, X)), strict=True))


def assert_same(model, X):
    outputs = run(model, X)
    if model.domain_.task == "regression":
        assert outputs["prediction"].tobytes() == model.outputs(X)[:, 0].tobytes()
        return
    scores = model.scores(X)
    assert outputs["scores"].tobytes() == scores.tobytes()
    assert outputs["label"].tolist() == model.classes_[model.forest_.link.decide(scores)].tolist()
    assert outputs["probabilities"] == pytest.approx(model.outputs(X), rel=1e-12, abs=1e-300)
    assert outputs["probabilities"].shape == (len(X), len(model.classes_))


@given(
    seed=st.integers(0, 2**32 - 1),
    target=st.sampled_from(sorted(DOMAINS)),
    n_trees=st.integers(1, 20),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
@settings(deadline=None, max_examples=30)
def test_any_additive_forest_scores_the_same_after_export(seed, target, n_trees, scale):
    assert_same(made_model(target, seed, n_trees, scale=scale), made_rows(np.random.default_rng(seed), 15))


@pytest.mark.parametrize("n", [0, 1, 3000])
def test_any_number_of_rows_is_scored(n):
    assert_same(made_model("two", 0, 30), made_rows(np.random.default_rng(0), n))


@pytest.mark.parametrize("target", sorted(DOMAINS))
def test_a_model_without_effects_is_exported(target):
    model = made_model(target)
    model.forest_ = replace(model.forest_, values=model.forest_.values * 0)
    assert model.forest_.effects.terms == ()
    assert_same(model, made_rows(np.random.default_rng(0), 9))


@pytest.mark.parametrize("classes", [["only"], [3, 1], [True, False], [0.5, 2, -1]])
def test_classes_of_other_types_and_numbers(classes):
    domain = Domain(FEATURES, Categorical(classes))
    assert_same(as_model(made_forest(0, domain), domain), made_rows(np.random.default_rng(0), 50))
