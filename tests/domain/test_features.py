import math
import pickle

import numpy as np
import pandas as pd
import pytest

from diprime.domain.codes import cells_per_unit, linear_thresholds, log_thresholds
from diprime.domain.features import Categorical, Numeric, bounds, int_if_whole, linear_formula, short

# -- Numeric ----------------------------------------------------------------------------------------------------------


def test_thresholds_follow_the_scale_or_the_edges():
    np.testing.assert_array_equal(Numeric(-3, 4).thresholds, linear_thresholds(-3, 4))
    np.testing.assert_array_equal(Numeric(0, 4, scale="log").thresholds, log_thresholds(0, 4))
    feature = Numeric(edges=np.array([0, 18, 65]))
    assert feature.edges == (0.0, 18.0, 65.0)
    assert feature.thresholds.tolist() == [0, 18, 65]
    assert feature.n_cells == 4
    assert Numeric(edges=range(254)).n_cells == Numeric(0, 1).n_cells == 255


def test_only_linear_scales_have_a_formula():
    assert linear_formula(Numeric(-3, 4)) == (-3.0, cells_per_unit(-3, 4))
    for other in (Numeric(1, 4, scale="log"), Numeric(1, 4, edges=[2]), Numeric(edges=[2]), Categorical([1])):
        assert linear_formula(other) is None
    assert bounds(Numeric(-3, 4, edges=[2])) == (-3.0, 4.0)


def test_minus_zero_is_zero():
    assert Numeric(-0.0, 1) == Numeric(0, 1)
    assert math.copysign(1, Numeric(-0.0, 1).low) == 1
    assert math.copysign(1, Numeric(edges=[-0.0]).edges[0]) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"low": 1, "high": 1}, "low = 1 is not below high = 1"),
        ({"low": 2, "high": 1}, "not below"),
        ({"low": math.nan, "high": 1}, "low = nan is not finite"),
        ({"low": 0, "high": math.inf}, "high = inf is not finite"),
        ({"low": 0, "high": 10**400}, "high = 1000.* is not a float64"),
        ({"low": 0, "high": 10**5000}, "high = a int is not a float64"),
        ({"low": "0", "high": 1}, "low = '0' is not a number"),
        ({"low": False, "high": True}, "low = False is not a number"),
        ({"low": [], "high": 1}, "low = .* is not a float64"),
        ({"low": -1e308, "high": 1e308}, "too wide"),
        ({"low": 0, "high": 5e-324}, "too narrow"),
        ({"low": 0}, "low and high are both needed"),
        ({"high": 0}, "low and high are both needed"),
        ({"low": 0, "high": 1, "scale": "sqrt"}, "scale = 'sqrt' is unknown"),
        ({"low": 0, "high": 1, "scale": []}, "is unknown"),
        ({"edges": []}, "edges has 0 numbers"),
        ({"edges": range(255)}, "edges has 255 numbers"),
        ({"edges": [0, 0]}, r"edges\[1\] = 0 is not above edges\[0\] = 0"),
        ({"edges": [0, math.nan]}, r"edges\[1\] = nan is not finite"),
        ({"edges": "123"}, "not a sequence"),
        ({"edges": 5}, "not a sequence"),
        ({"edges": [1, 2], "scale": "log"}, "both given"),
    ],
)
def test_invalid_numeric_raises_a_clear_error(arguments, words):
    with pytest.raises(ValueError, match=words) as caught:
        Numeric(**arguments)
    assert "\n" not in str(caught.value)


def test_numeric_is_immutable_and_compared_by_value():
    a, b = Numeric(0, 1), Numeric(0.0, 1.0)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Numeric(0, 1, scale="log")
    assert Numeric(edges=[1, 2]) != Numeric(edges=[1, 3])
    with pytest.raises(AttributeError):
        a.low = 3
    with pytest.raises(ValueError, match="read-only"):
        a.thresholds[0] = 3
    before = pickle.dumps(b)
    assert pickle.dumps(a) == before  # the cached thresholds of `a` are not pickled
    again = pickle.loads(before)
    assert again == a
    np.testing.assert_array_equal(again.thresholds, a.thresholds)
    assert eval(repr(Numeric(0, 1e6, scale="log"))) == Numeric(0, 1e6, scale="log")
    assert eval(repr(Numeric(edges=[0.5, 1]))) == Numeric(edges=[0.5, 1])


# -- Categorical ------------------------------------------------------------------------------------------------------


def test_levels_keep_their_order_and_are_plain_python_values():
    assert Categorical(["b", "a", 3, (1, 2)]).levels == ("b", "a", 3, (1, 2))
    assert all(type(v) is int for v in Categorical(np.array([3, 1])).levels)
    assert Categorical(["b", "a"]).n_codes == 2
    assert Categorical(range(600)).n_codes == 254


def test_categorical_is_immutable_and_compared_by_value():
    a, b = Categorical(["x", 1]), Categorical(("x", 1))
    assert a == b
    assert hash(a) == hash(b)
    assert a != Categorical([1, "x"])
    assert pickle.loads(pickle.dumps(a)) == a
    with pytest.raises(AttributeError):
        a.levels = ()


@pytest.mark.parametrize(
    ("levels", "error", "words"),
    [
        ([], ValueError, "empty"),
        (["a", None], ValueError, r"levels\[1\] = None means missing"),
        ([math.nan], ValueError, "means missing"),
        ([pd.NA], ValueError, "means missing"),
        (["a", "b", "a"], ValueError, r"levels\[2\] = 'a' repeats levels\[0\];"),
        ([True, 1], ValueError, r"levels\[1\] = 1 repeats levels\[0\] \(it equals True\)"),
        ("abc", ValueError, "not a list of levels"),
        (5, ValueError, "not a list of levels"),
        ({"a", "b"}, ValueError, "set"),
        ([[1]], TypeError, "not hashable"),
    ],
)
def test_invalid_levels_raise_a_clear_error(levels, error, words):
    with pytest.raises(error, match=words):
        Categorical(levels)


# -- messages ---------------------------------------------------------------------------------------------------------


def test_levels_that_are_not_in_a_list_are_explained():
    with pytest.raises(TypeError, match=r"levels as one list; write Categorical\(\['F', 'M'\]\)\.$"):
        Categorical("F", "M")
    with pytest.raises(TypeError, match=r"write Categorical\(\[0, 1, 2\]\)"):
        Categorical(0, 1, 2)


def test_values_in_messages_are_short():
    assert [repr(int_if_whole(v)) for v in (17.0, -3.0, 0.5, 1e300)] == ["17", "-3", "0.5", "1e+300"]
    assert short("a") == "'a'"
    assert len(short("a" * 1000)) == 60
    assert short(10**5000) == "a int"
