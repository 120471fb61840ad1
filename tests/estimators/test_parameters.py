"""Parameters are declared once: constructors, docstrings, checks, files and reports agree with the declarations."""

import inspect
import math
import re
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import NotFittedError

from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeBoostingRegressor,
    DiPriMeClassifier,
    DiPriMeRegressor,
    Domain,
    Numeric,
    PrivateSearch,
)
from diprime.estimators.parameters import (
    check_parameters,
    integer,
    parameter,
    parameters_of,
    read_parameters,
    record_parameters,
    recorded,
)
from diprime.report import render
from tests.docstrings import WRITTEN, declared_section, read_sections
from tests.estimators.domains import NUMBER, YES_NO
from tests.small_data import DOMAINS, boost, fit, make

ALL = (DiPriMeClassifier, DiPriMeRegressor, DiPriMeBoostingClassifier, DiPriMeBoostingRegressor)
BOOSTED = (DiPriMeBoostingClassifier, DiPriMeBoostingRegressor)
BY_NAME = parameters_of(DiPriMeClassifier) | parameters_of(DiPriMeBoostingClassifier)


# -- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ALL)
def test_constructor_has_the_declared_parameters_and_defaults(estimator):
    arguments = inspect.signature(estimator).parameters
    assert list(arguments) == list(parameters_of(estimator))
    assert estimator().get_params() == {name: argument.default for name, argument in arguments.items()}
    positional = [name for name, argument in arguments.items() if argument.kind is argument.POSITIONAL_OR_KEYWORD]
    assert positional == ["epsilon", "domain"]
    assert repr(estimator()) == f"{estimator.__name__}()"


@pytest.mark.parametrize(
    ("estimator", "argument"),
    [
        *((estimator, "mtry") for estimator in [*ALL, PrivateSearch]),
        *((estimator, "class_weight") for estimator in [DiPriMeRegressor, DiPriMeBoostingRegressor]),
    ],
)
def test_unknown_argument_error_names_the_class(estimator, argument):
    message = rf"^{estimator.__name__}\.__init__\(\) .*'{argument}'"
    with pytest.raises(TypeError, match=message):
        estimator(**{argument: None})


@pytest.mark.parametrize("estimator", WRITTEN)
def test_docstrings_have_the_declared_parameters(estimator):
    message = "run python -m tests.docstrings"
    assert read_sections(estimator)["Parameters"] == declared_section(estimator), message


@pytest.mark.parametrize("estimator", ALL)
def test_model_files_and_reports_hold_the_recorded_parameters(estimator):
    model, names = fit_small(estimator), list(recorded(estimator))
    assert list(model._to_content().parameters) == names
    card = render(model).split('id="card"')[1]
    facts = re.findall(r"<dt>(.+?)</dt><dd>(.+?)</dd>", card)
    trees = ["curves", "rounds"] if estimator in BOOSTED else ["trees"]
    assert [name for name, _ in facts] == ["predicts", *trees, "records", "features", "domain", *names]
    assert dict(facts).items() >= {name: str(getattr(model, name)) for name in names}.items()


@pytest.mark.parametrize("estimator", ALL)
def test_recorded_parameters_are_read_back(estimator):
    model = fit_small(estimator)
    domain = model.domain_
    record = record_parameters(model, domain)
    assert read_parameters(record, estimator, domain) == {name: getattr(model, name) for name in recorded(estimator)}
    least = {"epsilon": "1/2", "delta": "1/8"} if estimator in BOOSTED else {"epsilon": "1/2"}
    halves = {"epsilon": 0.5, "delta": 0.125} if estimator in BOOSTED else {"epsilon": 0.5}
    assert read_parameters(least, estimator, domain) == halves
    for name in {"epsilon", "delta"} & record.keys():
        with pytest.raises(ValueError, match=f"^{name} is missing"):
            read_parameters({other: value for other, value in record.items() if other != name}, estimator, domain)
    with pytest.raises(ValueError, match=r"parameter 'mtry'"):
        read_parameters({**record, "mtry": 3}, estimator, domain)


@dataclass(eq=False, repr=False, kw_only=True)
class ToyClassifier(DiPriMeClassifier):
    """A forest with one more parameter, which its fit does not use."""

    n_toys: int = parameter(3, integer(1, 9), "The number of toys.")


def test_declaration_is_enough_for_constructors_checks_files_reports_and_searches(X, y):
    model = ToyClassifier(domain=YES_NO, max_depth=1, n_toys=5).fit(X, y)
    assert clone(model).get_params()["n_toys"] == model.fitted_params_["n_toys"] == 5
    record = record_parameters(model, model.domain_)
    assert read_parameters(record, ToyClassifier, model.domain_)["n_toys"] == 5
    assert "<dt>n_toys</dt><dd>5</dd>" in render(model)
    with pytest.raises(ValueError, match=r"^n_toys .*1 to 9, got 0\.$"):
        model.set_params(n_toys=0).fit(X, y)
    search = PrivateSearch(ToyClassifier(domain=YES_NO, max_depth=1), {"n_toys": [1, 2]}, epsilon=3.0).fit(X, y)
    assert search.best_params_ in ({"n_toys": 1}, {"n_toys": 2})


def assert_checked(settings, model, derived):
    """Compare settings with the checked parameters, apart from those that a fit derives."""
    checked = check_parameters(model)
    names = settings.keys() & checked.keys() - derived
    assert {name: settings[name] for name in names} == {name: checked[name] for name in names}


@pytest.mark.parametrize("estimator", [DiPriMeClassifier, DiPriMeRegressor])
def test_every_setting_of_a_fit_is_a_parameter(estimator):
    model = estimator(domain=domain_of(estimator), max_records_per_group=7)
    settings = vars(model._check_settings(4))
    assert settings.keys() == {*recorded(DiPriMeRegressor), "verbose", "policy"}, "add it to ForestSettings"
    assert_checked(settings, model, derived={"max_features"})


@pytest.mark.parametrize("estimator", [DiPriMeBoostingClassifier, DiPriMeBoostingRegressor])
def test_every_setting_of_a_boosted_fit_is_a_parameter(estimator):
    model = estimator(domain=domain_of(estimator), max_records_per_group=7)
    settings = vars(model._check_settings(4))
    assert settings.keys() == {*recorded(DiPriMeBoostingRegressor), "verbose", "n_fits"}, "add it to BoostingSettings"
    assert_checked(settings, model, derived={"n_rounds", "learning_rate"})
    assert settings["n_fits"] == 1, "only a search divides the budget of a fit"


@pytest.mark.parametrize("estimator", ALL)
def test_only_machine_seed_and_domain_parameters_are_not_recorded(estimator):
    declared = parameters_of(estimator)
    assert declared.keys() - recorded(estimator).keys() == {"domain", "n_jobs", "random_state", "verbose"}
    assert {name for name in declared if not declared[name].of_model} == {"n_jobs", "random_state", "verbose"}
    assert fit_small(estimator).fitted_params_.keys() == declared.keys() - {"n_jobs", "random_state", "verbose"}


@pytest.mark.parametrize("estimator", ALL)
def test_docstrings_list_every_attribute(estimator):
    sections = read_sections(estimator)
    assert list(sections) == ["Parameters", "Attributes", "Examples"]
    fitted = fit_small(estimator)
    documented = set(re.findall(r"^(\w+_) : ", sections["Attributes"], flags=re.MULTILINE))
    assert {name for name in vars(fitted) if name.endswith("_")} <= documented
    assert all(hasattr(fitted, name) for name in documented - {"feature_names_in_"})


def task_of(estimator):
    return "regression" if issubclass(estimator, RegressorMixin) else "classification"


def domain_of(estimator):
    return DOMAINS[task_of(estimator)]


def fit_small(estimator):
    task = task_of(estimator)
    return (boost if estimator in BOOSTED else fit)(task, *make(task, 60))


# -- checks -----------------------------------------------------------------------------------------------------------

BAD_VALUES = [
    ("epsilon", 0, ValueError, r"^epsilon .*positive .*infinity .*got 0\.$"),
    ("epsilon", -1.5, ValueError, r"^epsilon .*positive .*infinity .*got -1\.5\.$"),
    ("epsilon", -math.inf, ValueError, r"^epsilon .*positive .*infinity .*got -inf\.$"),
    ("epsilon", Fraction(-1, 3), ValueError, r"^epsilon .*positive .*infinity .*got Fraction\(-1, 3\)\.$"),
    ("epsilon", math.nan, ValueError, r"^epsilon .*positive .*infinity .*got nan\.$"),
    ("epsilon", "1", TypeError, r"^epsilon .*positive .*got '1'\.$"),
    ("epsilon", None, TypeError, r"^epsilon .*positive .*got None\.$"),
    ("epsilon", True, TypeError, r"^epsilon .*positive .*got True\.$"),
    ("method", "forest", ValueError, r"^method .*'joint', 'diprime', .*'random', got 'forest'"),
    ("method", None, ValueError, r"^method .*'random', got None"),
    ("max_records_per_group", 0, ValueError, r"^max_records_per_group .*integer .*1 to 100, got 0\.$"),
    ("max_records_per_group", 2.0, ValueError, r"^max_records_per_group .*integer .*1 to 100, got 2\.0\.$"),
    ("class_weight", "equal", ValueError, r"^class_weight .*\bNone, \"balanced\" .*dict .*got 'equal'"),
    ("class_weight", [1, 2], ValueError, r"^class_weight .*\bNone, \"balanced\" .*dict .*got \[1, 2\]"),
    ("class_weight", {"a": 0}, ValueError, r"^class_weight .*1e-09 to 1e\+09, got 0 .*'a'\.$"),
    ("class_weight", {"a": math.nan}, ValueError, r"^class_weight .*1e-09 to 1e\+09, got nan .*'a'\.$"),
    ("class_weight", {"a": True}, ValueError, r"^class_weight .*1e-09 to 1e\+09, got True .*'a'\.$"),
    ("disjoint_rows", "yes", ValueError, r"^disjoint_rows .*True, False, got 'yes'\.$"),
    ("disjoint_rows", 1, ValueError, r"^disjoint_rows .*True, False, got 1\.$"),
    ("disjoint_rows", None, ValueError, r"^disjoint_rows .*True, False, got None\.$"),
    ("n_estimators", 0, ValueError, r'^n_estimators .*"auto" .*integer .*1 to 65535, got 0\.$'),
    ("n_estimators", 10**6, ValueError, r'^n_estimators .*"auto" .*integer .*1 to 65535, got 1000000\.$'),
    ("max_depth", -1, ValueError, r'^max_depth .*"auto" .*integer .*0 to 20, got -1\.$'),
    ("max_depth", 100, ValueError, r'^max_depth .*"auto" .*integer .*0 to 20, got 100\.$'),
    ("max_depth", 1.5, ValueError, r'^max_depth .*"auto" .*integer .*0 to 20, got 1\.5\.$'),
    ("max_depth", True, ValueError, r'^max_depth .*"auto" .*integer .*0 to 20, got True\.$'),
    ("max_depth", None, ValueError, r'^max_depth .*"auto" .*integer .*0 to 20, got None\.$'),
    ("max_depth", np.array([1, 2]), ValueError, r'^max_depth .*"auto" .*integer .*0 to 20, got array'),
    ("max_features", 0, ValueError, r'^max_features .*"auto", "sqrt", "log2", None, .*integer .*got 0\.$'),
    ("max_features", -1, ValueError, r"^max_features .*got -1\.$"),
    ("max_features", 1.5, ValueError, r"^max_features .*got 1\.5\.$"),
    ("max_features", 0.0, ValueError, r"^max_features .*got 0\.0\.$"),
    ("max_features", True, ValueError, r"^max_features .*got True\.$"),
    ("max_features", "all", ValueError, r"^max_features .*got 'all'\.$"),
    ("split_share", 0, ValueError, r'^split_share .*"auto" .*between 0 and 1, got 0\.$'),
    ("split_share", 1.0, ValueError, r'^split_share .*"auto" .*between 0 and 1, got 1\.0\.$'),
    ("split_share", math.nan, ValueError, r'^split_share .*"auto" .*between 0 and 1, got nan\.$'),
    ("balance", -0.1, ValueError, r'^balance .*"auto" .*0 to 1000, got -0\.1\.$'),
    ("balance", "some", ValueError, r"^balance .*\"auto\" .*0 to 1000, got 'some'\.$"),
    ("delta", 0, ValueError, r"^delta .*above 0, got 0\. .*delta = 0, .*forest\.$"),
    ("delta", -1e-6, ValueError, r"^delta .*0 to below 1, got -1e-06\.$"),
    ("delta", 1, ValueError, r"^delta .*0 to below 1, got 1\.$"),
    ("delta", math.nan, ValueError, r"^delta .*0 to below 1, got nan\.$"),
    ("delta", None, TypeError, r"^delta .*0 to below 1, got None\.$"),
    ("delta", True, TypeError, r"^delta .*0 to below 1, got True\.$"),
    ("n_rounds", 0, ValueError, r'^n_rounds .*"auto" .*integer .*1 to 100000, got 0\.$'),
    ("n_rounds", 10**6, ValueError, r'^n_rounds .*"auto" .*integer .*1 to 100000, got 1000000\.$'),
    ("n_rounds", 2.0, ValueError, r'^n_rounds .*"auto" .*integer .*1 to 100000, got 2\.0\.$'),
    ("n_rounds", None, ValueError, r'^n_rounds .*"auto" .*integer .*1 to 100000, got None\.$'),
    ("learning_rate", -0.1, ValueError, r'^learning_rate .*"auto" .*0 to 1, got -0\.1\.$'),
    ("learning_rate", 1.5, ValueError, r'^learning_rate .*"auto" .*0 to 1, got 1\.5\.$'),
    ("learning_rate", "fast", ValueError, r"^learning_rate .*\"auto\" .*0 to 1, got 'fast'\.$"),
    ("interactions", 1, ValueError, r"^interactions .*True, False, got 1\.$"),
    ("interactions", "auto", ValueError, r"^interactions .*True, False, got 'auto'\.$"),
    ("n_jobs", 0, ValueError, r"^n_jobs .*0; .*None "),
    ("random_state", "seed", ValueError, r"^'seed' .*RandomState"),
    ("domain", "auto", TypeError, r"^domain .*Domain or 'infer', got a str\. .*Domain\("),
    ("domain", {"a": (0, 1)}, TypeError, r"^domain .*Domain or 'infer', got a dict\. .*Domain\("),
]
BAD_IN_CONTEXT = [
    ("epsilon", 1e-15, ValueError, r"^epsilon .*too small: .*2\^-40\."),
    ("max_features", 4, ValueError, r"^max_features .*4, .*3 features\.$"),
    ("domain", None, ValueError, r"^DiPriMeClassifier .*domain: .*domain=Domain\("),
    ("domain", NUMBER, ValueError, r"^DiPriMeClassifier .*domain .*target .*Categorical, got Numeric\.$"),
]


def test_every_parameter_but_verbose_has_invalid_values():
    assert {name for name, *_ in BAD_VALUES} == BY_NAME.keys() - {"verbose"}, "add invalid values to BAD_VALUES"


@pytest.mark.parametrize(("name", "value", "kind", "message"), BAD_VALUES + BAD_IN_CONTEXT)
def test_fit_refuses_invalid_parameters_with_one_sentence(X, y, name, value, kind, message):
    estimator = (
        DiPriMeClassifier if name in inspect.signature(DiPriMeClassifier).parameters else DiPriMeBoostingClassifier
    )
    model = estimator(**{"domain": YES_NO, name: value})
    with pytest.raises(kind, match=message) as caught:
        model.fit(X, y)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_missing_domain_is_refused(X, y):
    with pytest.raises(ValueError, match=r"^DiPriMeRegressor .*domain='infer' .*not private\.$"):
        DiPriMeRegressor().fit(X, X[:, 0])


def test_regressor_refuses_categorical_targets(X):
    with pytest.raises(ValueError, match=r"^DiPriMeRegressor .*target .*Numeric, got Categorical"):
        DiPriMeRegressor(domain=YES_NO).fit(X, X[:, 0])


@pytest.mark.parametrize("max_features", [2, 3, None, "sqrt", 0.7])
@pytest.mark.parametrize("method", ["diprime", "random"])
def test_methods_of_one_feature_refuse_more(method, max_features):
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(9)}, Categorical([0, 1]))
    model = DiPriMeClassifier(domain=domain, method=method, max_features=max_features)
    with pytest.raises(ValueError, match=rf'^max_features .*1 for method="{method}"'):
        model.fit(np.zeros((5, 9)), np.zeros(5))
    model.set_params(max_features=1).fit(np.zeros((5, 9)), np.zeros(5))


@pytest.mark.parametrize(
    ("max_features", "expected"),
    [("auto", 5), ("sqrt", 3), ("log2", 3), (None, 10), (4, 4), (np.int64(4), 4), (0.25, 2), (0.01, 1), (1.0, 10)],
)
def test_max_features_is_the_number_of_charged_medians(max_features, expected):
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(10)}, Categorical([0, 1]))
    model = DiPriMeClassifier(domain=domain, method="diprime-exp", max_features=max_features, max_depth=1)
    settings = model._check_settings(10)
    assert settings.max_features == expected
    model.fit(np.zeros((5, 10)), np.zeros(5))


def test_numpy_scalars_are_accepted(X, y):
    model = DiPriMeClassifier(
        np.float32(0.5),
        YES_NO,
        method=np.str_("diprime"),
        n_estimators=np.int16(2),
        max_depth=np.uint8(3),
        split_share=np.float64(0.5),
        disjoint_rows=np.False_,
    ).fit(X, y)
    assert model.privacy_.total == Fraction(1, 2)
    assert model.forest_.depths.tolist() == [3, 3]


# -- copies -----------------------------------------------------------------------------------------------------------


def test_parameters_survive_get_params_and_clone():
    model = DiPriMeClassifier(0.5, YES_NO, method="diprime", max_depth=3, disjoint_rows=False)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.domain is model.domain or copy.domain == model.domain
    assert repr(copy) == repr(model)
    assert (
        eval(repr(DiPriMeRegressor(2.0, max_depth=4))).get_params() == DiPriMeRegressor(2.0, max_depth=4).get_params()
    )
