"""Messages about wrong arguments name the public class."""

import inspect

import pytest

from diprime import DiPriMeBoostingRegressor, DiPriMeRegressor


@pytest.mark.parametrize("estimator", [DiPriMeRegressor, DiPriMeBoostingRegressor])
def test_a_wrong_argument_is_told_by_the_name_of_the_class(estimator):
    message = rf"^{estimator.__name__}.__init__\(\) got an unexpected keyword argument 'class_weight'"
    with pytest.raises(TypeError, match=message):
        estimator(1.0, class_weight="balanced")
    inherited = estimator.__bases__[-1]
    assert inspect.signature(estimator.__init__) == inspect.signature(inherited.__init__)
    assert inherited.__init__.__qualname__ == f"{inherited.__name__}.__init__"
    assert estimator(2.0).get_params()["epsilon"] == 2.0
