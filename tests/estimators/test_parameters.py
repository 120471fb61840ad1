"""One table of parameters: constructor, documentation, checks, model files and reports agree with it."""

import ast
import inspect
import math
import re
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
)
from diprime.estimators.parameters import (
    BOOSTING,
    BOOSTING_CLASSIFIER,
    FOREST,
    FOREST_CLASSIFIER,
    read_parameters,
    record_parameters,
    recorded,
)
from diprime.report import render
from tests.docstrings import read_defaults, read_sections
from tests.estimators.domains import NUMBER, YES_NO
from tests.small_data import DOMAINS, boost, fit, make

TABLES = {
    DiPriMeClassifier: FOREST_CLASSIFIER,
    DiPriMeRegressor: FOREST,
    DiPriMeBoostingClassifier: BOOSTING_CLASSIFIER,
    DiPriMeBoostingRegressor: BOOSTING,
}
BY_NAME = {parameter.name: parameter for parameter in (*FOREST_CLASSIFIER, *BOOSTING_CLASSIFIER)}
OF_BOOSTING = (BOOSTING, BOOSTING_CLASSIFIER)


# -- agreement --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", TABLES)
def test_the_constructor_has_the_parameters_and_defaults_of_the_table(estimator):
    arguments = inspect.signature(estimator).parameters
    assert list(arguments) == [parameter.name for parameter in TABLES[estimator]]
    for name, argument in arguments.items():
        assert argument.default is BY_NAME[name].default, name
    assert estimator().get_params() == {parameter.name: parameter.default for parameter in TABLES[estimator]}
    assert repr(estimator()) == f"{estimator.__name__}()"


@pytest.mark.parametrize("estimator", TABLES)
def test_the_documentation_has_the_parameters_and_defaults_of_the_table(estimator):
    documented = read_defaults(estimator)
    assert list(documented) == [parameter.name for parameter in TABLES[estimator]]
    assert documented.pop("domain") is None  # it has a default only for scikit-learn's sake, and must be given
    for name, default in documented.items():
        assert ast.literal_eval(default) == BY_NAME[name].default, name


@pytest.mark.parametrize("estimator", TABLES)
def test_model_files_and_reports_hold_the_recorded_parameters(estimator):
    model, names = fit_small(estimator), list(recorded(TABLES[estimator]))
    assert list(model._to_content().parameters) == names
    card = render(model).split('id="card"')[1]
    facts = re.findall(r"<dt>(.+?)</dt><dd>(.+?)</dd>", card)
    assert [name for name, _ in facts] == ["predicts", "trees", "records", "features", "domain", *names]
    assert dict(facts).items() >= {name: str(getattr(model, name)) for name in names}.items()


@pytest.mark.parametrize("estimator", TABLES)
def test_what_is_recorded_is_read_back(estimator):
    model, table = fit_small(estimator), TABLES[estimator]
    domain = model.domain_
    record = record_parameters(model.fitted_params_, table, domain)
    assert read_parameters(record, table, domain) == {name: getattr(model, name) for name in recorded(table)}
    is_boosted = table in OF_BOOSTING
    least = {"epsilon": "1/2", "delta": "1/8"} if is_boosted else {"epsilon": "1/2"}
    assert read_parameters(least, table, domain) == {
        **{name: parameter.default for name, parameter in recorded(table).items()},
        **({"epsilon": 0.5, "delta": 0.125} if is_boosted else {"epsilon": 0.5}),
    }
    for name in {"epsilon", "delta"} & record.keys():
        with pytest.raises(ValueError, match=f"^{name} is missing"):
            read_parameters({other: value for other, value in record.items() if other != name}, table, domain)
    with pytest.raises(ValueError, match="does not know"):
        read_parameters({**record, "mtry": 3}, table, domain)


@pytest.mark.parametrize("estimator", [DiPriMeClassifier, DiPriMeRegressor])
def test_every_setting_of_a_fit_is_a_parameter(estimator):
    settings = vars(estimator(domain=domain_of(estimator))._check_settings(4))
    assert settings.keys() == {*recorded(FOREST), "verbose", "policy"} - {"accounting"}, "accounting becomes a policy"


@pytest.mark.parametrize("estimator", [DiPriMeBoostingClassifier, DiPriMeBoostingRegressor])
def test_every_setting_of_a_boosted_fit_is_a_parameter(estimator):
    settings = vars(estimator(domain=domain_of(estimator))._check_settings(4))
    assert settings.keys() == {*recorded(BOOSTING), "verbose", "n_fits"}
    assert settings["n_fits"] == 1, "only a search divides the budget of a fit"


@pytest.mark.parametrize("table", [FOREST, FOREST_CLASSIFIER, BOOSTING, BOOSTING_CLASSIFIER])
def test_what_is_not_recorded_is_about_a_machine_or_a_secret_or_held_elsewhere(table):
    names = {parameter.name for parameter in table}
    assert names - recorded(table).keys() == {"domain", "n_jobs", "random_state", "verbose"}


@pytest.mark.parametrize("parameter", [p for p in BY_NAME.values() if p.name != "domain"], ids=lambda p: p.name)
def test_every_default_is_accepted(parameter):
    parameter.check(parameter.default)


@pytest.mark.parametrize("estimator", TABLES)
def test_the_documentation_names_every_parameter(estimator):
    sections = read_sections(estimator)
    assert list(sections) == ["Parameters", "Attributes", "Examples"]
    documented = re.findall(r"^(\w+) : ", sections["Parameters"], flags=re.MULTILINE)
    assert documented == list(inspect.signature(estimator).parameters)
    classifier = DiPriMeBoostingClassifier if TABLES[estimator] in OF_BOOSTING else DiPriMeClassifier
    shared = without_class_weight(read_sections(classifier)["Parameters"])
    assert without_class_weight(sections["Parameters"]) == shared  # it is written twice
    fitted = fit_small(estimator)
    documented = set(re.findall(r"^(\w+_) : ", sections["Attributes"], flags=re.MULTILINE))
    assert {name for name in vars(fitted) if name.endswith("_")} <= documented
    assert all(hasattr(fitted, name) for name in documented - {"feature_names_in_"})


def without_class_weight(text):
    return re.sub(r"^class_weight : .*\n(    .*\n)+", "", text, flags=re.MULTILINE)


def task_of(estimator):
    return "regression" if issubclass(estimator, RegressorMixin) else "classification"


def domain_of(estimator):
    return DOMAINS[task_of(estimator)]


def fit_small(estimator):
    task = task_of(estimator)
    return (boost if TABLES[estimator] in OF_BOOSTING else fit)(task, *make(task, 60))


# -- checks -----------------------------------------------------------------------------------------------------------

BAD_VALUES = [
    ("epsilon", 0, ValueError, "epsilon must be a positive number, got 0; infinity means no privacy."),
    ("epsilon", -1.5, ValueError, "epsilon must be a positive number, got -1.5;"),
    ("epsilon", -math.inf, ValueError, "epsilon must be a positive number, got -inf;"),
    ("epsilon", Fraction(-1, 3), ValueError, "epsilon must be a positive number, got Fraction(-1, 3);"),
    ("epsilon", math.nan, ValueError, "epsilon must be a positive number, got nan;"),
    ("epsilon", "1", TypeError, "epsilon must be a positive number, got '1'."),
    ("epsilon", None, TypeError, "epsilon must be a positive number, got None."),
    ("epsilon", True, TypeError, "epsilon must be a positive number, got True."),
    (
        "method",
        "forest",
        ValueError,
        "method must be one of 'joint', 'diprime', 'diprime-exp', 'diprime-flip', 'random'",
    ),
    ("method", None, ValueError, "method must be one of"),
    ("accounting", "loose", ValueError, "accounting must be one of 'strict', 'paper', got 'loose'."),
    ("max_records_per_group", 0, ValueError, "max_records_per_group must be an integer from 1 to 100, got 0."),
    ("max_records_per_group", 2.0, ValueError, "max_records_per_group must be an integer from 1 to 100, got 2.0."),
    ("class_weight", "equal", ValueError, 'class_weight must be None, "balanced" or a dict of classes and weights'),
    ("class_weight", [1, 2], ValueError, 'class_weight must be None, "balanced" or a dict of classes and weights'),
    (
        "class_weight",
        {"a": 0},
        ValueError,
        "class_weight must have weights from 1e-09 to 1e+09, got 0 for the class 'a'.",
    ),
    ("class_weight", {"a": math.nan}, ValueError, "class_weight must have weights from 1e-09 to 1e+09, got nan"),
    ("class_weight", {"a": True}, ValueError, "class_weight must have weights from 1e-09 to 1e+09, got True"),
    ("partition", "yes", ValueError, "partition must be one of True, False, got 'yes'."),
    ("partition", 1, ValueError, "partition must be one of True, False, got 1."),
    ("partition", None, ValueError, "partition must be one of True, False, got None."),
    ("n_estimators", 0, ValueError, 'n_estimators must be "auto" or an integer from 1 to 65535, got 0.'),
    ("n_estimators", 10**6, ValueError, 'n_estimators must be "auto" or an integer from 1 to 65535, got 1000000.'),
    ("max_depth", 0, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got 0.'),
    ("max_depth", 100, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got 100.'),
    ("max_depth", 1.5, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got 1.5.'),
    ("max_depth", True, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got True.'),
    ("max_depth", None, ValueError, 'max_depth must be "auto" or an integer from 1 to 20, got None.'),
    ("max_depth", np.array([1, 2]), ValueError, 'max_depth must be "auto" or an integer from 1 to 20'),
    ("max_features", 0, ValueError, 'max_features must be "auto", "sqrt", "log2", None, an integer from 1 or a'),
    ("max_features", -1, ValueError, "max_features must be"),
    ("max_features", 1.5, ValueError, "max_features must be"),
    ("max_features", 0.0, ValueError, "max_features must be"),
    ("max_features", True, ValueError, "max_features must be"),
    ("max_features", "all", ValueError, "max_features must be"),
    ("split_share", 0, ValueError, 'split_share must be "auto" or a number strictly between 0 and 1, got 0.'),
    ("split_share", 1.0, ValueError, 'split_share must be "auto" or a number strictly between 0 and 1, got 1.0.'),
    ("split_share", math.nan, ValueError, 'split_share must be "auto" or a number strictly between 0 and 1, got nan.'),
    ("balance", -0.1, ValueError, 'balance must be "auto" or a number from 0 to 1000, got -0.1.'),
    ("balance", "some", ValueError, "balance must be \"auto\" or a number from 0 to 1000, got 'some'."),
    ("delta", 0, ValueError, "delta must be above 0, got 0: Gaussian noise needs it; a forest does not."),
    ("delta", -1e-6, ValueError, "delta must be a number from 0 to below 1, got -1e-06."),
    ("delta", 1, ValueError, "delta must be a number from 0 to below 1, got 1."),
    ("delta", math.nan, ValueError, "delta must be a number from 0 to below 1, got nan."),
    ("delta", None, TypeError, "delta must be a number from 0 to below 1, got None."),
    ("delta", True, TypeError, "delta must be a number from 0 to below 1, got True."),
    ("n_rounds", 0, ValueError, 'n_rounds must be "auto" or an integer from 1 to 100000, got 0.'),
    ("n_rounds", 10**6, ValueError, 'n_rounds must be "auto" or an integer from 1 to 100000, got 1000000.'),
    ("n_rounds", 2.0, ValueError, 'n_rounds must be "auto" or an integer from 1 to 100000, got 2.0.'),
    ("n_rounds", None, ValueError, 'n_rounds must be "auto" or an integer from 1 to 100000, got None.'),
    ("learning_rate", -0.1, ValueError, 'learning_rate must be "auto" or a number from 0 to 1, got -0.1.'),
    ("learning_rate", 1.5, ValueError, 'learning_rate must be "auto" or a number from 0 to 1, got 1.5.'),
    ("learning_rate", "fast", ValueError, "learning_rate must be \"auto\" or a number from 0 to 1, got 'fast'."),
    ("interactions", 1, ValueError, "interactions must be one of True, False, got 1."),
    ("interactions", "auto", ValueError, "interactions must be one of True, False, got 'auto'."),
    ("n_jobs", 0, ValueError, "n_jobs must not be 0; use None for all cores or a positive number of threads."),
    ("random_state", "seed", ValueError, "'seed' cannot be used to seed a numpy.random.RandomState instance"),
    ("domain", "auto", TypeError, "domain must be a Domain or 'infer', got a str; write Domain("),
    ("domain", {"a": (0, 1)}, TypeError, "domain must be a Domain or 'infer', got a dict; write Domain("),
]
BAD_IN_CONTEXT = [
    ("epsilon", 1e-15, ValueError, "epsilon is too small: the part of it that pays for noise must be at least 2^-40."),
    ("max_features", 4, ValueError, "max_features is 4, but there are only 3 features."),
    ("domain", None, ValueError, "DiPriMeClassifier needs to know what is public about the data: pass domain=Domain("),
    ("domain", NUMBER, ValueError, "DiPriMeClassifier needs a domain whose target is Categorical(…), got Numeric(…)."),
]


@pytest.mark.parametrize(("name", "value", "kind", "message"), BAD_VALUES)
def test_the_table_refuses_what_a_fit_refuses(name, value, kind, message):
    with pytest.raises(kind) as caught:
        BY_NAME[name].check(value)
    assert str(caught.value).startswith(message)


def test_every_parameter_but_verbose_has_values_that_it_refuses():
    assert {name for name, *_ in BAD_VALUES} == BY_NAME.keys() - {"verbose"}


@pytest.mark.parametrize(("name", "value", "kind", "message"), BAD_VALUES + BAD_IN_CONTEXT)
def test_a_bad_parameter_gets_one_clear_sentence(X, y, name, value, kind, message):
    estimator = (
        DiPriMeClassifier if name in inspect.signature(DiPriMeClassifier).parameters else DiPriMeBoostingClassifier
    )
    model = estimator(**{"domain": YES_NO, name: value})
    with pytest.raises(kind) as caught:
        model.fit(X, y)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_missing_domain_says_what_to_do(X, y):
    with pytest.raises(ValueError, match=r"domain='infer' to read it from the data, which is not private\.$"):
        DiPriMeRegressor().fit(X, X[:, 0])


def test_a_regressor_needs_a_number_for_its_target(X):
    with pytest.raises(ValueError, match=r"DiPriMeRegressor needs a domain whose target is Numeric\(…\), got Categ"):
        DiPriMeRegressor(domain=YES_NO).fit(X, X[:, 0])


@pytest.mark.parametrize("max_features", [2, 3, None, "sqrt", 0.7])
@pytest.mark.parametrize("method", ["diprime", "random"])
def test_methods_that_draw_one_feature_try_no_more(method, max_features):
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(9)}, Categorical([0, 1]))
    model = DiPriMeClassifier(domain=domain, method=method, max_features=max_features)
    with pytest.raises(ValueError, match=f'max_features must be 1 for method="{method}"'):
        model.fit(np.zeros((5, 9)), np.zeros(5))
    model.set_params(max_features=1).fit(np.zeros((5, 9)), np.zeros(5))


@pytest.mark.parametrize(
    ("max_features", "expected"),
    [("auto", 5), ("sqrt", 3), ("log2", 3), (None, 10), (4, 4), (np.int64(4), 4), (0.25, 2), (0.01, 1), (1.0, 10)],
)
def test_max_features_says_how_many_medians_are_paid_for(max_features, expected):
    domain = Domain({f"x{i}": Numeric(0, 1) for i in range(10)}, Categorical([0, 1]))
    model = DiPriMeClassifier(domain=domain, method="diprime-exp", max_features=max_features, max_depth=1)
    settings = model._check_settings(10)
    assert settings.max_features == expected
    model.fit(np.zeros((5, 10)), np.zeros(5))


def test_numbers_and_words_of_numpy_are_as_good_as_python_s(X, y):
    model = DiPriMeClassifier(
        np.float32(0.5),
        YES_NO,
        method=np.str_("diprime"),
        n_estimators=np.int16(2),
        max_depth=np.uint8(3),
        split_share=np.float64(0.5),
        partition=np.False_,
    ).fit(X, y)
    assert model.privacy_.total == Fraction(1, 2)
    assert model.forest_.depths.tolist() == [3, 3]


# -- copies -----------------------------------------------------------------------------------------------------------


def test_parameters_survive_get_params_and_clone():
    model = DiPriMeClassifier(0.5, YES_NO, method="diprime", max_depth=3, partition=False)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.domain is model.domain or copy.domain == model.domain
    assert repr(copy) == repr(model)
    assert (
        eval(repr(DiPriMeRegressor(2.0, max_depth=4))).get_params() == DiPriMeRegressor(2.0, max_depth=4).get_params()
    )
