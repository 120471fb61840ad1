"""Model files: what is saved comes back, and whatever else a file holds is one clear error."""

import copy
import hashlib
import json
import math
import os
import re
import struct
import zipfile
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import diprime
from diprime import Budget, Categorical, Charge, DiPriMeClassifier, Domain, Ledger, ModelFileError, Numeric, load, merge
from diprime.domain import Origin
from diprime.domain import files as domain_files
from diprime.estimators.parameters import recorded
from diprime.inspection.views import read_tree
from diprime.model import files
from diprime.model.files import MAX_BYTES, from_bytes, to_bytes
from diprime.model.trees import CHECK_BLOCK_SPLITS, Forest
from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind, VoidReason
from diprime.privacy.measures import GaussianDP, PureEpsilon
from tests.small_data import METHODS, TASKS, assert_same_forest, boost, fit, make


def saved(model, folder):
    path = folder / "model.diprime"
    model.save(path)
    return path


def small_model(task, **parameters):
    X, y = make(task, 300)
    return fit(task, X, y, **{"n_estimators": 2, "max_depth": 3, **parameters})


def assert_same_model(a, b):
    assert type(a) is type(b)
    assert_same_forest(a, b)
    assert a.domain_ == b.domain_
    assert a.privacy_ == b.privacy_
    fitted = [set(vars(m)) - set(m.get_params()) for m in (a, b)]
    assert fitted[0] == fitted[1]
    if hasattr(a, "classes_"):
        assert a.classes_.dtype == b.classes_.dtype
        assert a.classes_.tolist() == b.classes_.tolist()


# What is saved comes back --------------------------------------------------------------------------------------------


def test_a_model_is_never_saved_over_a_budget(tmp_path):
    budget = Budget.create(tmp_path / "model.diprime", 1)
    before = (tmp_path / "model.diprime").read_bytes()
    with pytest.raises(PermissionError, match=r"budget .*never"):
        saved(small_model("classification"), tmp_path)
    assert (tmp_path / "model.diprime").read_bytes() == before
    assert budget.remaining_epsilon() == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", TASKS)
def test_loaded_model_is_bit_identical(task, method, tmp_path):
    X, y = make(task, 500)
    model = fit(task, X, y, method=method, epsilon=Fraction(1, 3), split_share=0.25, max_features=1)
    back = load(saved(model, tmp_path))
    assert_same_model(model, back)
    assert np.array_equal(model.predict(X), back.predict(X))
    kept = {k: v for k, v in model.get_params().items() if k != "n_jobs"}
    assert {k: v for k, v in back.get_params().items() if k != "n_jobs"} == kept
    assert os.listdir(tmp_path) == ["model.diprime"]


@pytest.mark.parametrize("epsilon", [0.1, 1, np.float32(0.3), math.inf, Fraction(10**40, 3), 1e-9])
def test_epsilon_is_saved_exactly(epsilon, tmp_path):
    model = small_model("classification", epsilon=epsilon)
    back = load(saved(model, tmp_path))
    assert back.privacy_ == model.privacy_
    assert clone(back).fit(*make("classification", 50)).privacy_.epsilon == model.privacy_.epsilon


def test_merged_models_are_saved_and_loaded(tmp_path):
    merged = merge([small_model("regression"), small_model("regression", max_depth=5, epsilon=2)], disjoint=True)
    back = load(saved(merged, tmp_path))
    assert_same_model(merged, back)
    assert_same_model(merge([back, merged], disjoint=True), load(saved(merge([back, merged], disjoint=True), tmp_path)))


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def models_of_every_kind():
    boosted = boost("regression", *make("regression", 100))
    return small_model("classification"), boosted, merge([small_model("regression") for _ in range(2)], disjoint=True)


def test_file_with_another_digest_is_refused(tmp_path):
    for model in models_of_every_kind():
        path = saved(model, tmp_path)
        digest = digest_of(path)
        for same in (digest, digest.upper()):
            assert_same_model(model, load(path, sha256=same))
        for other in (digest[:-1] + ("1" if digest[-1] == "0" else "0"), "0" * 64):
            with pytest.raises(ModelFileError, match=rf"expected file: .*sha256 is {other}") as caught:
                load(path, sha256=other)
            assert str(path) in str(caught.value)
            assert digest in str(caught.value)


def test_digest_covers_all_bytes_and_is_checked_before_parsing(tmp_path, monkeypatch):
    path = saved(small_model("classification"), tmp_path)
    digest = digest_of(path)
    data = bytearray(path.read_bytes())
    data[len(files.MAGIC) + 20] ^= 1
    data[-32:] = hashlib.sha256(data[:-32]).digest()  # the checksum of the file itself is right again
    path.write_bytes(data)
    monkeypatch.setattr(files, "from_bytes", lambda data: pytest.fail("It was parsed."))
    for content in (bytes(data), b"no model at all", b""):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=rf"expected file: .*sha256 is {digest}"):
            load(path, sha256=digest)


@pytest.mark.parametrize("given", ["", "0" * 63, "0" * 65, "g" * 64, "0" * 64 + "\n", b"0" * 64, 0, "٠" * 64])
def test_invalid_digest_is_refused_before_the_file_is_read(given, tmp_path):
    with pytest.raises(ValueError, match=r"sha256 .*64 hexadecimal"):
        load(tmp_path / "nothing", sha256=given)


def test_file_is_read_once_for_digest_and_model(tmp_path, monkeypatch):
    model = small_model("classification")
    path = saved(model, tmp_path)
    digest = digest_of(path)
    compare = files.hmac.compare_digest

    def swap(*digests):
        path.write_bytes(b"another file")
        return compare(*digests)

    monkeypatch.setattr(files.hmac, "compare_digest", swap)
    assert_same_model(model, load(path, sha256=digest))
    assert path.read_bytes() == b"another file"


def test_column_names_are_saved(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = make("classification", 100)
    frame = pandas.DataFrame(X, columns=["level", "size", "kind", "side"])
    for data in (X, frame):
        model = fit("classification", data, y)
        back = load(saved(model, tmp_path))
        assert_same_model(model, back)
        assert np.array_equal(back.predict(data), model.predict(data))


@pytest.mark.parametrize("classes", [["b", "a"], [3, 1, 2], [True, False], ["x", 1, 2.5], [0.5, math.inf]])
def test_classes_of_any_plain_type_are_saved(classes, tmp_path):
    domain = Domain({"é": Numeric(0, 1), "☃": Categorical(classes)}, Categorical(classes), target_name="c l a s s")
    y = np.array([classes[i % len(classes)] for i in range(60)], dtype=object)
    X = np.column_stack([np.random.default_rng(0).random(60).astype(object), y[::-1]])
    model = DiPriMeClassifier(1.0, domain).fit(X, y)
    assert_same_model(model, load(saved(model, tmp_path)))


def test_an_inferred_domain_stays_not_private_when_fitted_again(tmp_path):
    X, y = make("classification", 100)
    with pytest.warns(diprime.PrivacyWarning):
        model = fit("classification", X, y, domain="infer")
    back = load(saved(model, tmp_path))
    assert back.privacy_ == model.privacy_
    assert back.domain == "infer"
    assert back.domain_.origin.kind == "inferred"


def test_file_with_incomplete_domain_is_refused():
    content = small_model("regression")._to_content()
    data = to_bytes(content)
    header = read_header(data)
    del header["domain"]["target"]["low"], header["domain"]["target"]["high"]
    with pytest.raises(ModelFileError, match=r"domain lacks ranges"):
        from_bytes(with_header(data, header))


def test_file_whose_ledger_omits_the_inferred_domain_is_refused():
    content = small_model("regression")._to_content()
    read = replace(content, domain=replace(content.domain, origin=Origin("inferred")))
    with pytest.raises(ModelFileError, match=r"domain .*inferred .*its ledger"):
        from_bytes(to_bytes(read))


def test_file_with_inferred_domain_marked_declared_is_refused():
    header = read_header(FILES["regression"])
    header["domain_inferred"] = True
    with pytest.raises(ModelFileError, match=r"domain .*inferred .*but it "):
        from_bytes(with_header(FILES["regression"], header))


def test_file_has_no_seed_and_no_settings_of_the_machine(tmp_path):
    X, y = make("classification", 100)
    with pytest.warns(diprime.PrivacyWarning):
        model = fit("classification", X, y, random_state=918273645, n_jobs=3, verbose=1)
    path = saved(model, tmp_path)
    header = read_header(path.read_bytes())
    assert "918273645" not in json.dumps(header)
    assert not {"random_state", "n_jobs", "verbose"} & set(header["parameters"])
    assert set(header) == {
        "format", "diprime", "model", "task", "parameters", "domain", "domain_inferred", "columns_named", "ledger",
        "depths",
    }  # fmt: skip
    assert header["diprime"] == diprime.__version__
    back = load(path)
    assert back.random_state is None
    assert back.privacy_.voided_by == (VoidReason.SEED_OF_MODEL,)
    assert to_bytes_of(model) == to_bytes_of(model)  # no time, no name, no chance


def test_unfitted_model_or_unsupported_classes_are_not_saved(tmp_path):
    path = tmp_path / "model.diprime"
    with pytest.raises(ValueError, match="not fitted"):
        DiPriMeClassifier().save(path)
    domain = Domain({"a": Numeric(0, 1)}, Categorical([(1, 2), (3, 4)]))
    y = np.empty(20, dtype=object)
    y[:] = [(1, 2)] * 20
    with pytest.raises(TypeError, match=r"target\.categories\[0\]"):
        DiPriMeClassifier(1.0, domain).fit(np.zeros((20, 1)), y).save(path)
    assert not path.exists()


def test_unsound_model_is_not_saved(tmp_path):
    model = small_model("regression")
    model.forest_ = replace(model.forest_, values=np.full_like(model.forest_.values, np.nan))
    with pytest.raises(ModelFileError, match=r"leaf's value .*range of"):
        model.save(tmp_path / "model.diprime")
    assert os.listdir(tmp_path) == []


# The format, written here without the library ------------------------------------------------------------------------


def file_of(header, features, masks, values, counts):
    """Return a file as the format says."""
    text = json.dumps(header).encode()
    data = b"DIPRIME\0" + struct.pack("<Q", len(text)) + text
    data += struct.pack(f"<{len(features)}i", *features)
    data += b"".join(bytes(mask) for mask in masks)
    data += struct.pack(f"<{len(values)}d", *values) + struct.pack(f"<{len(counts)}d", *counts)
    return data + hashlib.sha256(data).digest()


HEADER = {
    "format": 1,
    "diprime": "0.1.0",
    "model": "forest",
    "task": "classification",
    "parameters": {
        "epsilon": "1/2",
        "method": "joint",
        "n_estimators": "auto",
        "max_depth": 1,
        "max_features": None,
        "split_share": 0.5,
        "balance": "auto",
        "disjoint_rows": True,
    },
    "domain": {
        "features": {
            "age": {"kind": "numeric", "low": 0, "high": 255},
            "sex": {"kind": "categorical", "categories": ["F", "M"]},
        },
        "target": {"name": "answer", "kind": "categorical", "categories": ["yes", "no"]},
    },
    "domain_inferred": False,
    "columns_named": True,
    "ledger": {
        "epsilon": "1/2",
        "delta": "0",
        "total": "1/2",
        "accounting": "strict",
        "private": True,
        "charges": [
            {
                "kind": "leaf-sums",
                "mechanism": "discrete-laplace",
                "bound": {"kind": "l1-sensitivity", "n": 1, "units": 1},
                "epsilon": "1/2",
                "times": 1,
                "composition": "",
                "measure": "pure epsilon",
            }
        ],
        "waivers": [],
        "remarks": [],
        "merged": [],
    },
    "depths": [1, 1],
}
AGE_FROM_40 = [0] * 5 + [255] * 27  # codes 40 to 255 go right, and so do missing values
IS_M = [2] + [0] * 31
BODY = ([0, 1], [AGE_FROM_40, IS_M], [0.9, 0.1, 0.2, 0.8, 0.5, 0.5, 1.0, 0.0], [30.0, 10.0, -2.0, 22.0])


def test_the_format_is_read(tmp_path):
    path = tmp_path / "m.diprime"
    path.write_bytes(file_of(HEADER, *BODY))
    model = load(path)
    assert isinstance(model, DiPriMeClassifier)
    assert model.get_params() | {"domain": None} == {
        "epsilon": 0.5, "domain": None, "method": "joint", "n_estimators": "auto", "max_depth": 1,
        "max_features": None, "split_share": 0.5, "balance": "auto", "disjoint_rows": True,
        "class_weight": None, "max_records_per_group": 1, "n_jobs": None, "random_state": None, "verbose": 0,
    }  # fmt: skip
    sexes = Categorical(["F", "M"])
    answers = Categorical(["yes", "no"])
    assert model.domain_ == Domain({"age": Numeric(0, 255), "sex": sexes}, answers, target_name="answer")
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_names_in_.tolist() == ["age", "sex"]
    assert model.privacy_.total == Fraction(1, 2)
    assert model.privacy_.is_private
    weights = 40 / 60, 20 / 60
    young_man, old_woman = model.predict_proba(_frame([(39, "M"), (40, "F")]))
    assert young_man == pytest.approx([weights[0] * 0.9 + weights[1], weights[0] * 0.1])
    assert old_woman == pytest.approx([weights[0] * 0.2 + weights[1] * 0.5, weights[0] * 0.8 + weights[1] * 0.5])


def with_parameters(parameters):
    return file_of({**HEADER, "parameters": parameters}, *BODY)


@pytest.mark.parametrize("name", sorted(recorded(DiPriMeClassifier).keys() - {"epsilon", "class_weight"}))
def test_a_file_older_than_a_parameter_gets_its_default(tmp_path, name):
    parameters = {**HEADER["parameters"]}
    parameters.pop(name, None)  # that format is older than some of them
    (tmp_path / "old").write_bytes(with_parameters(parameters))
    back = load(tmp_path / "old")
    assert getattr(back, name) == getattr(DiPriMeClassifier(), name)
    assert all(getattr(back, other) == value for other, value in parameters.items() if other != "epsilon")
    assert_same_model(back, load(saved(back, tmp_path)))


def test_a_file_without_epsilon_is_refused(tmp_path):
    parameters = {**HEADER["parameters"]}
    parameters.pop("epsilon")
    (tmp_path / "made-up").write_bytes(with_parameters(parameters))
    with pytest.raises(ModelFileError, match=r"its parameters .*: epsilon is missing"):
        load(tmp_path / "made-up")


@pytest.mark.parametrize(("name", "shown"), [("depth_limit", "'depth_limit'"), ("x\n" * 99, r"'x\\nx.*\.\.\.")])
def test_a_file_with_a_parameter_of_a_later_version_is_refused(tmp_path, name, shown):
    (tmp_path / "new").write_bytes(with_parameters({**HEADER["parameters"], name: 3}))
    message = rf"its parameters .*: diprime .*parameter {shown}\. .*version\.$"
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "new")


def _frame(rows):
    return pytest.importorskip("pandas").DataFrame(rows, columns=["age", "sex"])


@pytest.mark.parametrize("version", [-1, 0, 2, 3])
def test_other_format_is_refused_with_remedy(version, tmp_path):
    (tmp_path / "m").write_bytes(file_of({**HEADER, "format": version}, *BODY))
    expected = rf"has format {version}, .*diprime {re.escape(diprime.__version__)} .*format 1\."
    with pytest.raises(ModelFileError, match=expected) as caught:
        load(tmp_path / "m")
    assert str(caught.value).startswith(f"{tmp_path / 'm'} ")


# Whatever else a file holds is one clear error -----------------------------------------------------------------------


def read_header(data):
    length = int.from_bytes(data[8:16], "little")
    return json.loads(data[16 : 16 + length])


def with_header(data, header):
    """Return a model file with another header, a valid checksum and the same body."""
    length = int.from_bytes(data[8:16], "little")
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return sealed(data[:8] + len(text).to_bytes(8, "little") + text + data[16 + length : -32])


def sealed(data):
    return data + hashlib.sha256(data).digest()


def to_bytes_of(model):
    return to_bytes(model._to_content())


FILES = {task: to_bytes_of(small_model(task)) for task in TASKS}


def assert_sound_or_refused(data, path):
    """Load a file that may hold anything: either it is refused in one sentence, or the model works."""
    path.write_bytes(data)
    message = None
    try:
        model = load(path)
    except ModelFileError as error:
        message = str(error)
    if message is not None:
        assert "\n" not in message
        assert message.startswith(f"{path} ")
        return None
    n = model.domain_.n_features
    X = np.random.default_rng(0).normal(size=(20, n)).astype(object)  # which suits text categories too
    outputs = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    assert np.isfinite(outputs).all()
    assert np.isfinite(model.feature_importances_).all()
    assert model.apply(X).min() >= 0
    assert str(model.privacy_)
    read_tree(model, 0)
    return model


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "model.diprime"


@given(st.sampled_from(TASKS), st.data())
@settings(deadline=None, max_examples=150)
def test_a_flipped_byte_is_noticed(scratch, task, data):
    content = bytearray(FILES[task])
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert assert_sound_or_refused(bytes(content), scratch) is None


@given(st.sampled_from(TASKS), st.data())
@settings(deadline=None, max_examples=100)
def test_a_truncated_or_longer_file_is_noticed(scratch, task, data):
    content = FILES[task]
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    assert assert_sound_or_refused(cut, scratch) is None
    assert assert_sound_or_refused(content + data.draw(st.binary(min_size=1, max_size=100)), scratch) is None


@given(st.sampled_from(TASKS), st.data())
@settings(deadline=None, max_examples=200)
def test_flipped_bytes_under_a_valid_checksum_are_refused_or_sound(scratch, task, data):
    content = bytearray(FILES[task][:-32])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert_sound_or_refused(sealed(bytes(content)), scratch)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["inf", "1/0", "0", "-1", "1e999999999", "9" * 3000, "auto", "infer", "__class__", "paper"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from(TASKS), st.data())
@settings(deadline=None, max_examples=300)
def test_changed_metadata_are_refused_or_sound(scratch, task, data):
    header = read_header(FILES[task])
    *path, last = data.draw(st.sampled_from([p for p in places(header) if p]))
    parent = header
    for key in path:
        parent = parent[key]
    change = data.draw(st.sampled_from(["replace", "remove", "add"]))
    if change == "replace":
        parent[last] = data.draw(json_values)
    elif change == "remove":
        del parent[last]
    elif isinstance(parent, dict):
        parent[data.draw(st.text(max_size=5))] = data.draw(json_values)
    else:
        parent.append(data.draw(json_values))
    assert_sound_or_refused(with_header(FILES[task], header), scratch)


def set_in(header, path, value):
    header = copy.deepcopy(header)
    *above, last = path
    inner = header
    for key in above:
        inner = inner[key]
    inner[last] = value
    return header


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (["format"], True, "state .*format"),
        (["format"], "1", "state .*format"),
        (["task"], "regression", "task"),
        (["depths"], [], "its number .*trees"),
        (["depths"], [63, 1], "depths .*trees .*integers"),
        (["depths"], [-1], "depths .*trees .*integers"),
        (["depths"], [1.0, 1], "depths .*trees .*integers"),
        (["depths"], [20] * 10**5, "lengths .*arrays"),
        (["depths"], [1], "lengths .*arrays"),
        (["depths"], [1] * (2**17 + 1), "its number .*trees"),
        (["domain", "features", "age", "low"], 300, "its domain .*age: low .*low=300"),
        (["domain", "target", "categories"], ["yes", "no", "perhaps"], "lengths .*arrays"),
        (["domain", "target", "name"], 3, "target.name"),
        (["domain", "target", "name"], "age", "its domain .*'age' .*feature"),
        (["parameters", "epsilon"], "0", "its parameters .*: "),
        (["parameters", "epsilon"], "1e999999999", "its parameters .*: "),
        (["parameters", "epsilon"], 1, "its parameters .*: "),
        (["parameters", "method"], "os.system", "its parameters .*: "),
        (["parameters", "random_state"], 1, "its parameters .*: "),
        (["ledger", "epsilon"], "1e999999999", "its ledger .*: "),
        (["ledger", "epsilon"], "1/0", "its ledger .*: "),
        (["ledger", "total"], "1/4", "total and private .*charges"),
        (["ledger", "charges", 0, "kind"], "splits", "cost .*leaves"),
        (["ledger", "private"], False, "total and private .*charges"),
        (["ledger", "accounting"], "none", "accounting"),
        (["ledger", "waivers"], ["a seed"], "unknown VoidReason"),
        (["ledger", "waivers"], [["seed-of-model"]], "unknown VoidReason"),
        (["ledger", "charges", 0, "bound", "kind"], "a bound", "unknown BoundKind"),
        (["ledger", "charges", 0, "bound", "units"], 0, "impossible number"),
        (["ledger", "charges", 0, "bound", "n"], 2**128, "impossible number"),
        (["ledger", "charges", 0, "bound"], "L1 sensitivity 1", "bound"),
        (["ledger", "charges", 0, "mechanism"], "laplace", "unknown Mechanism"),
        (["ledger", "charges", 0, "times"], 10**12, "impossible number .*releases"),
        (["ledger", "charges", 0, "times"], True, "times"),
        (["ledger", "charges", 0, "times"], 0, "cost .*leaves|total and private .*charges"),
        (["ledger", "epsilon"], "9" * 400, "cost .*large or .*small"),
        (["ledger", "charges", 0, "epsilon"], "1/" + "9" * 400, "cost .*large or .*small"),
        (["parameters", "epsilon"], "9" * 400, "its parameters .*: epsilon .*1e-200 to 1e200"),
        (["parameters", "epsilon"], "7", "epsilon .*match .*ledger"),
        (["parameters", "accounting"], "paper", "parameter 'accounting'"),
        (["parameters", "max_records_per_group"], 2, "max_records_per_group .*match .*ledger"),
        (["ledger", "charges", 0, "callback"], "x", "unknown fields"),
        (["surprise"], 1, "unknown entries"),
    ],
)
def test_header_errors_state_the_reason(tmp_path, path, value, reason):
    data = file_of(set_in(HEADER, path, value), *BODY)
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError, match=reason):
        load(tmp_path / "m")


@pytest.mark.parametrize(
    ("part", "at", "value", "reason"),
    [
        (0, 0, 2, "split .*feature .*domain"),
        (0, 1, -1, "split .*feature .*domain"),
        (0, 1, 2**31 - 1, "split .*feature .*domain"),
        (1, 0, [1] + [0] * 31, "numeric feature .*threshold"),
        (2, 3, math.nan, "leaf's value .*range of"),
        (2, 3, math.inf, "leaf's value .*range of"),
        (2, 3, -0.01, "leaf's value .*range of"),
        (2, 3, 1e300, "leaf's value .*range of"),
        (3, 0, math.nan, "leaf's number .*records"),
        (3, 0, -math.inf, "leaf's number .*records"),
        (3, 0, 1e17, "leaf's number .*records"),
    ],
)
def test_impossible_arrays_of_forests_are_refused(part, at, value, reason):
    body = [list(array) for array in BODY]
    body[part][at] = value
    with pytest.raises(ModelFileError, match=reason):
        from_bytes(file_of(HEADER, *body))


def test_every_block_of_splits_is_checked():
    domain = Domain({"a": Numeric(0, 1)}, Numeric(0, 1))
    n_splits = 2 * CHECK_BLOCK_SPLITS - 1
    masks = np.zeros((n_splits, 32), dtype=np.uint8)
    arrays = np.zeros(n_splits, dtype=np.int32), masks, np.zeros((n_splits + 1, 1)), np.zeros(n_splits + 1)
    forest = Forest(np.array([15]), *arrays)
    forest.check(domain)
    masks[-1, 0] = 1
    with pytest.raises(ValueError, match=r"numeric feature .*threshold"):
        forest.check(domain)


@pytest.mark.parametrize("cost", ["1/2", "inf"])
def test_leaves_without_a_charge_are_refused(cost):
    """What nobody paid for has no noise of known size: the ledger adds up without it, but nothing can be shown."""
    header = copy.deepcopy(HEADER)
    charge = header["ledger"]["charges"][0]
    header["ledger"]["charges"] = [{**charge, "kind": "splits"}, {**charge, "times": 0, "epsilon": cost}]
    with pytest.raises(ModelFileError, match=r"cost .*leaves"):
        from_bytes(file_of(header, *BODY))


def test_headers_that_would_fill_the_memory_are_refused():
    domain = {**HEADER["domain"], "surprise": [[]] * 1000}
    data = file_of({**HEADER, "domain": domain}, *BODY)
    for limit in ("MAX_BYTES", "MAX_VALUES"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(domain_files, limit, 900)
            patch.setattr(files, limit.replace("MAX", "MORE"), 100)
            with pytest.raises(ModelFileError, match=r"header .*too large"):
                from_bytes(data)
    with pytest.raises(ModelFileError, match="unknown key 'surprise'"):
        from_bytes(data)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-be"])
def test_a_header_is_utf_8(encoding):
    header = json.dumps(HEADER).encode(encoding)
    body = file_of({}, *BODY)[len(files.MAGIC) + 8 + len(b"{}") : -32]
    with pytest.raises(ModelFileError, match="valid JSON"):
        from_bytes(sealed(files.MAGIC + len(header).to_bytes(8, "little") + header + body))


def nested(depth):
    ledger = copy.deepcopy(HEADER["ledger"])
    for _ in range(depth):
        ledger = {**HEADER["ledger"], "merged": [ledger]}
    return ledger


def coprime_charges(n):
    charge = HEADER["ledger"]["charges"][0]
    return [{**charge, "epsilon": f"{10**899}/{10**900 + 2 * i + 1}"} for i in range(n)]


@pytest.mark.parametrize(
    ("ledger", "reason"),
    [
        (nested(60), "nested"),
        ({**nested(0), "charges": coprime_charges(3000)}, "common denominator"),
        ({**nested(0), "epsilon": "9" * 100_000}, "epsilon .*not a fraction"),
    ],
)
def test_ledgers_that_are_slow_to_add_up_are_refused(ledger, reason):
    data = file_of({**HEADER, "ledger": ledger}, *BODY)
    with pytest.raises(ModelFileError, match=reason):
        from_bytes(data)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[1, 2",
        b"[" * 100_000,
        b'{"format": 1, "format": 1}',
        b'{"format": ' + b"9" * 100_000 + b"}",
        b"\xff\xfe\x00",
        b'{"format": NaN}',
    ],
)
def test_a_header_that_is_no_object_is_refused(text):
    with pytest.raises(ModelFileError, match="valid model: "):
        from_bytes(with_header(FILES["regression"], text))


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**6])
def test_a_header_longer_than_the_file_is_refused(length):
    data = FILES["regression"][:-32]
    with pytest.raises(ModelFileError, match=r"header .*longer"):
        from_bytes(sealed(data[:8] + length.to_bytes(8, "little") + data[16:]))


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "not-a-model"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("zeros", bytes(10**7))
    with pytest.raises(ModelFileError, match=r"diprime model\."):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"diprime model\."):
        load(path)
    with pytest.raises(ModelFileError, match=r"not a file\.$"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with path.open("wb") as sparse:
        sparse.truncate(MAX_BYTES + 1)
    with pytest.raises(ModelFileError, match=r"larger .*model"):
        load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match=r"not a file\.$"):
        load(tmp_path / "pipe")


@pytest.mark.parametrize(
    "kinds", [(ReleaseKind.LEAF_SUMS,), (ReleaseKind.LEAF_SUMS, ReleaseKind.CODE_SUMS), (ReleaseKind.CODE_SUMS,)]
)
def test_leaves_that_are_not_charged_in_pure_epsilon_are_refused(kinds):
    """Their noise would not be known; a ledger may hold other charges in Gaussian DP."""
    bound, gaussian = Bound(BoundKind.NONE), GaussianDP(Fraction(1, 10))
    charges = [Charge(kind, Mechanism.ROUNDED_GAUSSIAN, bound, gaussian) for kind in kinds]
    ledger = Ledger(math.inf, charges=charges, delta=1e-6)
    with pytest.raises(ValueError, match=r"cost .*leaves"):
        files._read_ledger(ledger.to_dict(), ReleaseKind.LEAF_SUMS)
    if ReleaseKind.LEAF_SUMS not in kinds:
        cost = PureEpsilon(Fraction(1, 10))
        leaves = Charge(ReleaseKind.LEAF_SUMS, Mechanism.DISCRETE_LAPLACE, bound, cost)
        ledger = Ledger(math.inf, charges=[*charges, leaves], delta=1e-6)
        assert files._read_ledger(ledger.to_dict(), ReleaseKind.LEAF_SUMS) == ledger
