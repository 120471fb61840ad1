import copy
import pickle

import pytest

from diprime.domain import TARGET_UNITS, Categorical, Date, Domain, Integer, Numeric
from diprime.domain.encoding import TargetLayout

YES_NO = Categorical(["no", "yes"])
MIXED = Domain(
    {
        "age": Numeric(0, 255),
        "income": Numeric(0, 1e6, scale="log"),
        "sex": Categorical(["F", "M"]),
        "kids": Categorical([0, 1, 2]),
        "group": Numeric(edges=[1.5, 2.5]),
        "flag": Categorical([False, True]),
    },
    target=YES_NO,
)


def test_domain_is_immutable_and_compared_by_value():
    assert MIXED.encoded_feature_names == ("age", "income", "sex", "kids", "group", "flag")
    assert MIXED.n_features == 6
    assert MIXED.is_categorical.tolist() == [False, False, True, True, False, True]
    assert MIXED.n_codes.tolist() == [255, 255, 2, 3, 3, 2]
    rows = [[36.5, 0.0, "M", 0, 1, True], [None] * 6]
    for other in (copy.deepcopy(MIXED), pickle.loads(pickle.dumps(MIXED))):
        assert other == MIXED
        assert hash(other) == hash(MIXED)
        assert other.encoded_feature_names == MIXED.encoded_feature_names
        assert other.encode(rows).tolist() == [[36, 0, 1, 0, 0, 1], [255] * 6]
    before = pickle.dumps(MIXED)
    MIXED.encode(rows)
    assert pickle.dumps(MIXED) == before  # cached properties are not pickled
    assert Domain(dict(reversed(MIXED.features.items())), YES_NO) != MIXED
    assert Domain(MIXED.features, Categorical(["yes", "no"])) != MIXED
    named = Domain(MIXED.features, YES_NO, target_name="answer")
    assert named != MIXED
    assert pickle.loads(pickle.dumps(named)) == named
    assert repr(named).endswith(", target_name='answer')")
    assert MIXED != 3
    with pytest.raises(TypeError):
        MIXED.features["age"] = Numeric(0, 1)
    with pytest.raises(AttributeError):
        MIXED.target = Numeric(0, 1)
    assert eval(repr(MIXED)) == MIXED


@pytest.mark.parametrize(
    ("features", "target", "words"),
    [
        ({}, YES_NO, "features .*empty"),
        ([Numeric(0, 1)], YES_NO, "features .*dict"),
        ({1: Numeric(0, 1)}, YES_NO, "Feature names .*got 1"),
        ({"a": (0, 1)}, YES_NO, r"'a' .*got \(0, 1\)"),
        ({"a": Numeric(0, 1)}, ["no"], r"target .*got \['no'\]"),
        ({"a": Numeric(0, 1)}, Numeric(0, 1, scale="log"), "target .*log scale"),
        ({"a": Numeric(0, 1)}, Numeric(edges=[0]), "target .*edges"),
        ({"a": Integer(0, 9)}, Integer(0, 9), r"target .*got Integer\(0, 9\)"),
        (
            {"a": Numeric(0, 1)},
            Date("2020-01-01", "2020-12-31"),
            r"target .*Numeric\(low, high\) or Categorical\(classes\), got Date",
        ),
    ],
)
def test_invalid_domains_raise_errors(features, target, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Domain(features, target)


@pytest.mark.parametrize(
    ("target", "task", "layout"),
    [
        (Categorical(["no"]), "classification", TargetLayout.of_classes(1)),
        (Categorical(range(5)), "classification", TargetLayout.of_classes(5)),
        (Numeric(-3, 8), "regression", TargetLayout.of_number(TARGET_UNITS)),
    ],
)
def test_target_determines_task_and_layout(target, task, layout):
    domain = Domain({"a": Numeric(0, 1)}, target)
    assert domain.task == task
    assert domain.layout == layout
    assert domain.layout.task == task
    assert domain.layout is domain.layout
    assert pickle.loads(pickle.dumps(domain)) == domain
    with pytest.raises(AttributeError):
        domain.task = "regression"


def test_too_many_classes_raise_in_layout_alone():
    domain = Domain({"a": Numeric(0, 1)}, Categorical(range(1001)))
    assert domain.task == "classification"
    with pytest.raises(ValueError, match=r"1001 classes, .*1000"):
        domain.layout
    assert Domain(domain.features, Categorical(range(1000))).layout.n_outputs == 1000
