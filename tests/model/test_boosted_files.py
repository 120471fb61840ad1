"""Model files of boosted models: what is saved comes back bit for bit, and whatever else a file holds is refused."""

import hashlib
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime import DiPriMeBoostingClassifier, DiPriMeBoostingRegressor, Ledger, load
from diprime._util.resources import Threads
from diprime.inspection.importances import additive_importances
from diprime.model.additive import AdditiveForest
from diprime.model.effects import features_of_trees
from diprime.model.files import ModelContent, ModelFileError, from_bytes, save_content, to_bytes
from tests.encoded_rows import EncodedRows
from tests.made_additive import DOMAINS, made_codes, made_forest, made_ledger
from tests.model.test_files import read_header, sealed, with_header

TARGETS = sorted(DOMAINS)
FIXTURES = Path(__file__).parents[1] / "fixtures" / "format-1" / "boosting"
ARRAYS = ("depths", "features", "masks", "values", "counts", "offset", "code_weights")
DIGESTS = {
    "number": "d77793786d6228b0",
    "three": "b62a92a67aef6c1e",
    "two": "d77793786d6228b0",
}
PARAMETERS = {"epsilon": "1", "n_rounds": 8}


CURVES = (0, 2, 3)  # of numbers, with many and with few bins, and of categories


def content_of(target, seed=0, **settings):
    """Return the content of a file with a model of curves and rounds."""
    settings = {"curves": CURVES, **settings}
    forest = made_forest(seed, DOMAINS[target], **settings)
    return ModelContent(PARAMETERS, DOMAINS[target], False, True, made_ledger(), forest)


def assert_same(a, b):
    for name in ARRAYS:
        first, second = getattr(a.forest, name), getattr(b.forest, name)
        assert (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes()), name
    assert a.forest.quantum == b.forest.quantum
    for name in ("code_noise", "n_records", "records_noise"):
        assert getattr(a.forest, name) == getattr(b.forest, name)
    assert a.forest.steps.sizes == b.forest.steps.sizes
    assert a.forest.steps.table.tobytes() == b.forest.steps.table.tobytes()
    assert [part.shape for part in a.forest.steps.curve_noise] == [part.shape for part in b.forest.steps.curve_noise]
    assert all(map(np.array_equal, a.forest.steps.curve_noise, b.forest.steps.curve_noise))
    assert a.forest.link == b.forest.link
    assert (a.parameters, a.domain, a.domain_inferred, a.columns_named, a.ledger) == (
        b.parameters, b.domain, b.domain_inferred, b.columns_named, b.ledger
    )  # fmt: skip


@given(seed=st.integers(0, 2**32 - 1), target=st.sampled_from(TARGETS), scale=st.sampled_from([1e-30, 1.0, 1e6]))
@settings(deadline=None, max_examples=30)
def test_loaded_boosted_model_is_bit_identical(seed, target, scale):
    content = content_of(target, seed, scale=scale)
    back = from_bytes(to_bytes(content))
    assert_same(content, back)
    rows = EncodedRows(made_codes(np.random.default_rng(0), DOMAINS[target], 20))
    with Threads(1) as threads:
        assert np.array_equal(back.forest.predict(rows, threads), content.forest.predict(rows, threads))


def test_merged_models_are_saved_and_loaded(tmp_path):
    content = content_of("two")
    forest = AdditiveForest.merge([content.forest, made_forest(1, DOMAINS["two"], curves=(1,))])
    assert forest.steps.is_curve.tolist() == [True] * 3 + [False] * 8 + [True] + [False] * 8
    merged = replace(content, forest=forest, ledger=Ledger.merge([made_ledger(1), made_ledger(2)]))
    save_content(merged, tmp_path / "model.diprime")
    assert_same(merged, from_bytes((tmp_path / "model.diprime").read_bytes()))


def digest(forest):
    return hashlib.sha256(b"".join(getattr(forest, name).tobytes() for name in ARRAYS)).hexdigest()[:16]


@pytest.mark.parametrize(("target", "expected"), DIGESTS.items())
def test_files_of_this_format_stay_readable(target, expected):
    content = from_bytes((FIXTURES / f"{target}.diprime").read_bytes())
    assert digest(content.forest) == expected
    assert (content.parameters, content.domain, content.ledger) == (PARAMETERS, DOMAINS[target], made_ledger())
    assert_same(content, from_bytes(to_bytes(content)))


def test_fixture_has_the_documented_layout():
    """The body is taken apart here without the reader."""
    data = (FIXTURES / "two.diprime").read_bytes()
    length = int.from_bytes(data[8:16], "little")
    header, body = json.loads(data[16 : 16 + length]), data[16 + length : -32]
    assert (header["format"], header["model"], header["task"]) == (1, "boosting", "classification")
    n_leaves = sum(2**depth for depth in header["depths"])
    n_splits = n_leaves - len(header["depths"])
    tail = np.frombuffer(body[n_splits * 36 + n_leaves * 16 :], dtype="<f8")
    steps = 1281 + 5 * len(header["depths"])
    forest = from_bytes((FIXTURES / "two.diprime").read_bytes()).forest
    assert tail[0] == forest.offset[0]
    assert np.array_equal(tail[1:1281].reshape(5, 256), forest.code_weights)
    assert np.array_equal(tail[1281:steps].reshape(-1, 5), forest.steps.table)
    assert header["parts_of_curve_noise"] == [3, 3, 1]
    assert np.array_equal(tail[steps:].reshape(-1, 256), np.concatenate(forest.steps.curve_noise))
    for name in ("code_noise", "n_records", "records_noise"):
        assert header[name] == getattr(forest, name)
    assert header["trees_of_fits"] == list(forest.steps.sizes)
    assert 2.0 ** header["quantum_exponent"] == forest.quantum


@pytest.mark.parametrize("target", TARGETS)
def test_a_boosted_model_becomes_an_estimator_of_its_kind(target, tmp_path):
    ledger = replace(made_ledger(), delta=Fraction(1, 10**6))
    content = replace(content_of(target), parameters={**PARAMETERS, "delta": "1/1000000"}, ledger=ledger)
    save_content(content, tmp_path / "model.diprime")
    model = load(tmp_path / "model.diprime")
    assert type(model) is (DiPriMeBoostingRegressor if target == "number" else DiPriMeBoostingClassifier)
    assert (model.epsilon, model.delta, model.n_rounds, model.learning_rate) == (1.0, 1e-6, 8, "auto")
    assert model.domain_ == DOMAINS[target]


def test_a_boosted_model_without_a_delta_is_refused(tmp_path):
    save_content(content_of("two"), tmp_path / "model.diprime")
    with pytest.raises(ModelFileError, match="delta is missing"):
        load(tmp_path / "model.diprime")


# Whatever else a file holds is one clear error -----------------------------------------------------------------------

OWN_ENTRIES = "quantum_exponent", "code_noise", "n_records", "records_noise", "trees_of_fits", "parts_of_curve_noise"
IMPOSSIBLE = math.nan, math.inf, -math.inf, 1e101
WITHOUT = dict.fromkeys(OWN_ENTRIES)
FILES = {target: to_bytes(content_of(target)) for target in TARGETS}


def changed(data, **entries):
    header = {k: v for k, v in {**read_header(data), **entries}.items() if v is not None}
    return with_header(data, header)


def assert_sound_or_refused(data):
    message = None
    try:
        content = from_bytes(data)
    except ModelFileError as error:
        message = str(error)
    if message is not None:
        assert "\n" not in message
        return
    rows = EncodedRows(np.random.default_rng(0).integers(0, 256, (20, content.domain.n_features)).astype(np.uint8))
    with Threads(1) as threads:
        assert np.isfinite(content.forest.predict(rows, threads)).all()
    assert np.isfinite(additive_importances(content.forest, content.domain.encoded_feature_names).shares).all()


@given(st.sampled_from(TARGETS), st.data())
@settings(deadline=None, max_examples=40)
def test_flipped_bytes_under_a_valid_checksum_are_refused_or_sound(target, data):
    content = bytearray(FILES[target][:-32])
    body = 16 + int.from_bytes(content[8:16], "little")
    start = data.draw(st.sampled_from([8, body]))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(start, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert_sound_or_refused(sealed(bytes(content)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stride", [51, pytest.param(15, marks=pytest.mark.audit)])
def test_steps_of_any_size_are_refused_or_sound(target, stride):
    """Powers of large noise must not overflow."""
    n_noise = 256 * sum(read_header(FILES[target])["parts_of_curve_noise"])
    # The last step, and the first number of the noise of each curve.
    places = [n_noise + column for column in range(1, 6)] + [n_noise, 256]
    for place, exponent in itertools.product(places, range(0, 256, stride)):
        content = bytearray(FILES[target][:-32])
        content[7 - 8 * place] = exponent  # the highest byte of a number
        assert_sound_or_refused(sealed(bytes(content)))


def test_curves_that_no_fit_could_have_are_refused():
    content = content_of("two")
    forest, steps = content.forest, content.forest.steps
    order, swapped = [0, 1, 3, 2, *range(4, 11)], steps.table.copy()
    is_pair = [len(features) == 2 for features in features_of_trees(forest)]
    n_curves = is_pair.index(True) + 1
    of_pair, with_rate = steps.table.copy(), steps.table.copy()
    swapped[:], of_pair[:n_curves], with_rate[0, 3] = steps.table[order], 0, 1.0
    of_age, of_part, of_kind = steps.curve_noise
    cases = [
        (replace(steps, table=swapped), "curve .*follows a round"),
        (replace(steps, table=with_rate), "longer than a Newton step"),
        (replace(steps, curve_noise=(of_age, of_part)), "noise .*curve"),
        (replace(steps, table=of_pair, curve_noise=(of_kind,) * n_curves), "curve .*several features"),
        (replace(steps, curve_noise=(of_age, of_part, of_part)), "noise of .*shape"),
        (replace(steps, curve_noise=(of_age, of_part, of_kind[:0])), "noise of .*shape"),
        *((replace(steps, curve_noise=(of_age + wrong, of_part, of_kind)), "noise .*curve") for wrong in IMPOSSIBLE),
    ]
    for wrong, reason in cases:
        with pytest.raises(ModelFileError, match=reason):
            from_bytes(to_bytes(replace(content, forest=replace(forest, steps=wrong))))


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"model": None}, "state .*kind"),
        ({"model": "neural network"}, "state .*kind"),
        ({"model": ["boosting"]}, "valid model: "),
        ({"model": "forest"}, "unknown entries"),
        ({"model": "forest", **WITHOUT}, "lengths .*arrays"),
        ({"quantum_exponent": None}, "quantum_exponent is missing"),
        ({"quantum_exponent": 1.0}, "quantum_exponent .*wrong type"),
        ({"quantum_exponent": True}, "quantum_exponent .*wrong type"),
        ({"quantum_exponent": 10**9}, "quantum .*large or .*small"),
        ({"quantum_exponent": -(10**9)}, "quantum .*large or .*small"),
        ({"quantum_exponent": 0}, "multiple .*quantum"),
        ({"code_noise": None}, "code_noise is missing"),
        ({"code_noise": -1.0}, "noise .*numbers .*records "),
        ({"records_noise": -1.0}, "noise .*numbers .*records "),
        ({"n_records": 1e17}, "the number .*records is "),
        ({"trees_of_fits": []}, "trees .*fits .*add up"),
        ({"trees_of_fits": [12, -1]}, "trees .*fits .*add up"),
        ({"trees_of_fits": [11.0]}, "trees .*fits .*integers"),
        ({"parts_of_curve_noise": None}, "parts_of_curve_noise is missing"),
        ({"parts_of_curve_noise": {"0": 3}}, "parts_of_curve_noise .*wrong type"),
        ({"parts_of_curve_noise": [3.0, 3, 1]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [3, 3, True]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [3, 3, "1"]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [3, 3, None]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [[3], 3, 1]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [-1, 7, 1]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [257, 3, 1]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [10**400]}, "parts .*noise .*integers"),
        ({"parts_of_curve_noise": [3, 3, 2]}, "lengths .*arrays"),
        ({"parts_of_curve_noise": [256] * 1000}, "lengths .*arrays"),
        ({"parts_of_curve_noise": [7]}, "noise .*curve"),
        ({"parts_of_curve_noise": [3, 3, 1, 0]}, "noise .*curve"),
        ({"quantum_exponent": -200}, "leaves .*too large"),
        ({"format": 2}, "has format 2, .*diprime"),
        ({"task": "regression"}, "its task .*target"),
        ({"depths": [1]}, "lengths .*arrays"),
        ({"surprise": 1}, "unknown entries"),
    ],
)
def test_header_errors_state_the_reason(entries, reason):
    with pytest.raises(ModelFileError, match=reason):
        from_bytes(changed(FILES["two"], **entries))


def test_ledger_without_a_charge_for_rounds_is_refused():
    ledger = read_header(FILES["two"])["ledger"]
    ledger["charges"][0]["kind"] = "leaf-sums"
    with pytest.raises(ModelFileError, match=r"cost .*leaves"):
        from_bytes(changed(FILES["two"], ledger=ledger))


def test_a_tree_on_three_features_is_refused():
    content = content_of("two", n_trees=1, curves=())
    forest = content.forest
    three = replace(
        forest,
        depths=np.array([2]),
        features=np.array([0, 1, 2], dtype=np.int32),
        masks=np.packbits(np.arange(256) > np.array([[0], [0], [0]]), axis=1, bitorder="little"),
        values=np.zeros((4, 1)),
        counts=np.zeros(4),
    )
    with pytest.raises(ModelFileError, match="more than 2 features"):
        from_bytes(to_bytes(replace(content, forest=three)))
