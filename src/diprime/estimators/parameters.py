"""The parameters of the estimators: one table that constructors, checks, model files and reports read.

To add a parameter, define it here, put it into `PARAMETERS`, and give it to the constructor, its docstring and
`Settings`. Model files that lack it then get its default.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from diprime._util.threads import resolve_n_jobs
from diprime._util.version import __version__
from diprime.domain import Categorical, Domain, Task
from diprime.domain.features import short
from diprime.domain.persons import MAX_RECORDS
from diprime.model.forest import Forest
from diprime.privacy.ledger import Accounting
from diprime.privacy.measures import Epsilon, epsilon_from_text, exact_delta, exact_epsilon, exact_text
from diprime.privacy.randomness import RandomSource
from diprime.training import defaults
from diprime.training.settings import Method

MAX_ESTIMATORS = 65535  # trees are numbered in 16 bits
MAX_BALANCE = 1000
MAX_ROUNDS = 100_000
MAX_DELTA = 0.01  # a larger one promises nothing to anybody
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-9, 1e9  # of a class: products with probabilities neither vanish nor overflow
ONE_FEATURE_METHODS = ("diprime", "random")

MaxFeatures = int | float | Literal["auto", "sqrt", "log2"] | None
ClassWeight = Literal["balanced"] | Mapping[Any, float] | None
Value = TypeVar("Value")
Setting = TypeVar("Setting")


@dataclass(frozen=True)
class Parameter(Generic[Value, Setting]):
    """A parameter of an estimator.

    Attributes
    ----------
    name : str
        Its name in the constructor.
    default : Value
        Its default in the constructor, and in model files that lack it.
    check : callable
        Takes a value and returns the setting that a fit uses, or raises a `ValueError` or `TypeError` whose message
        names the parameter.
    recorded : bool
        Whether model files hold the parameter and reports show it.

    Examples
    --------
    >>> n_bins = integer_parameter("n_bins", 5, low=2, high=255)
    >>> n_bins.check(7)
    7
    >>> n_bins.check(1)
    Traceback (most recent call last):
    ValueError: n_bins must be an integer from 2 to 255, got 1.
    """

    name: str
    default: Value
    check: Callable[[Any], Setting]
    recorded: bool = True


# -- kinds of parameters ----------------------------------------------------------------------------------------------


def choice_parameter(name: str, default: Value, choices: Sequence[Value]) -> Parameter[Value, Value]:
    """Return a parameter that is one of some choices, type included: 1 is not True."""

    def check(value: Any) -> Value:
        if isinstance(value, np.generic):  # a grid search over an array passes NumPy's types
            value = value.item()
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")

    return Parameter(name, default, check)


def integer_parameter(name: str, default: int, *, low: int, high: int) -> Parameter[int, int]:
    """Return a parameter that is an integer from low to high."""

    def check(value: Any) -> int:
        if not _is_integer_from(value, low, high):
            raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}.")
        return int(value)

    return Parameter(name, default, check)


def auto_integer_parameter(name: str, *, low: int, high: int) -> Parameter[int | Literal["auto"], int | None]:
    """Return a parameter that is an integer from low to high or ``"auto"``, for which the setting is None."""

    def check(value: Any) -> int | None:
        if _is_auto(value):
            return None
        if not _is_integer_from(value, low, high):
            raise ValueError(f'{name} must be "auto" or an integer from {low} to {high}, got {value!r}.')
        return int(value)

    return Parameter(name, "auto", check)


def auto_number_parameter(
    name: str, *, low: int, high: int, includes_ends: bool
) -> Parameter[float | Literal["auto"], Fraction | None]:
    """Return a parameter that is a number from low to high or ``"auto"``, for which the setting is None.

    The setting is the fraction that the digits of the number say, as for epsilon.
    """

    def check(value: Any) -> Fraction | None:
        if _is_auto(value):
            return None
        inside = _is_real(value) and low <= float(value) <= high
        if not inside or (not includes_ends and value in (low, high)):
            between = f"from {low} to {high}" if includes_ends else f"strictly between {low} and {high}"
            raise ValueError(f'{name} must be "auto" or a number {between}, got {value!r}.')
        return value if isinstance(value, Fraction) else Fraction(repr(float(value)))

    return Parameter(name, "auto", check)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_integer_from(value: Any, low: int, high: int) -> bool:
    return _is_integer(value) and low <= int(value) <= high


# -- domain and max_features ------------------------------------------------------------------------------------------


def _check_domain(value: Any) -> Domain | Literal["infer"]:
    if isinstance(value, str) and value == "infer":
        return "infer"
    if not isinstance(value, Domain):
        raise TypeError(
            f"domain must be a Domain or 'infer', got a {type(value).__name__}; "
            "write Domain({'age': Numeric(17, 90), …}, target=…)."
        )
    return value


def _check_delta(value: Any) -> Fraction:
    delta = exact_delta(value)
    if not delta:
        raise ValueError(f"delta must be above 0, got {value!r}: Gaussian noise needs it; a forest does not.")
    if delta > MAX_DELTA:
        raise ValueError(
            f"delta must be at most {MAX_DELTA}, got {value!r}: it should be far below one over the number of people."
        )
    return delta


def _check_max_features(value: Any) -> MaxFeatures:
    """Return a value that `count_features` understands."""
    if (
        value is None
        or (isinstance(value, str) and value in ("auto", "sqrt", "log2"))
        or (_is_integer(value) and value >= 1)
        or (_is_real(value) and not _is_integer(value) and 0 < value <= 1)
    ):
        return value  # type: ignore[no-any-return]
    raise ValueError(
        'max_features must be "auto", "sqrt", "log2", None, an integer from 1 or a fraction of the features '
        f"in (0, 1], got {value!r}."
    )


def count_features(max_features: MaxFeatures, method: Method, n_features: int, *, task: Task, same_rows: bool) -> int:
    """Return the number of features that a split is chosen from.

    Parameters
    ----------
    max_features : int, float, "sqrt", "log2", None or "auto"
        The checked parameter.
    method : str
        How splits are chosen.
    n_features : int
        The number of features of the domain.
    task : {"classification", "regression"}
        What is learnt.
    same_rows : bool
        Whether all trees learn from the same rows, without noise that makes them differ.

    Returns
    -------
    n : int
        From 1 to ``n_features``; 1 for a method that draws one feature at random.
    """
    if max_features is None:
        n = n_features
    elif max_features == "auto":
        n = defaults.max_features(method, n_features, classification=task == "classification", same_rows=same_rows)
    elif isinstance(max_features, str):
        n = max(1, int(math.sqrt(n_features) if max_features == "sqrt" else math.log2(n_features)))
    elif isinstance(max_features, numbers.Integral):
        n = int(max_features)
    else:
        n = max(1, int(max_features * n_features))
    if n > n_features:
        raise ValueError(f"max_features is {n}, but there are only {n_features} features.")
    if n > 1 and method in ONE_FEATURE_METHODS:
        raise ValueError(f'max_features must be 1 for method="{method}", which draws a feature at random.')
    return n


# -- class_weight -----------------------------------------------------------------------------------------------------


def _check_class_weight(value: Any) -> ClassWeight:
    """Return None, "balanced" or a mapping of classes to weights; which classes there are, the domain says."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return value  # type: ignore[return-value]
    if not isinstance(value, Mapping):
        raise ValueError(f'class_weight must be None, "balanced" or a dict of classes and weights, got {value!r}.')
    for label, weight in value.items():
        if not (_is_real(weight) and LEAST_WEIGHT <= weight <= LARGEST_WEIGHT):
            raise ValueError(
                f"class_weight must have weights from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}, got {weight!r} for the "
                f"class {short(label)}."
            )
    return {label: float(weight) for label, weight in value.items()}


def weights_by_class(class_weight: Mapping[Any, float], domain: Domain) -> npt.NDArray[np.float64]:
    """Return the weight of each class, in the order of the domain; classes that are not in the mapping weigh one.

    Raise a ValueError if the mapping has what is not a class. An open target has no classes yet: those that will be
    learnt are private until they are paid for, so none can be checked before.

    Examples
    --------
    >>> from diprime import Categorical, Numeric
    >>> weights_by_class({"ill": 5}, Domain({"age": Numeric(0, 100)}, target=Categorical(["well", "ill"])))
    array([1., 5.])
    """
    target = domain.target
    assert isinstance(target, Categorical)
    if target.is_open:
        raise ValueError(
            'class_weight has weights of classes, which the domain does not list; list them, or give "balanced".'
        )
    unknown = [label for label in class_weight if label not in target.levels]
    if unknown:
        raise ValueError(f"class_weight has a weight for {short(unknown[0])}, which is not a class of the domain.")
    return np.array([float(class_weight.get(level, 1)) for level in target.levels])


def class_weight_from(weights: Any, domain: Domain) -> dict[Any, float]:
    """Return a mapping of classes from the list that a model file holds; refuse everything else."""
    levels = domain.target.levels if isinstance(domain.target, Categorical) else ()
    if not isinstance(weights, list) or len(weights) != len(levels):
        raise ValueError("class_weight does not have one weight for each class.")
    return dict(zip(levels, weights, strict=True))


# -- the table --------------------------------------------------------------------------------------------------------

EPSILON: Parameter[float, Epsilon] = Parameter("epsilon", 1.0, exact_epsilon)
# Model files and reports hold the domain of the fit, which is more than the parameter says if that is "infer".
DOMAIN: Parameter[Domain | Literal["infer"] | None, Domain | Literal["infer"]] = Parameter(
    "domain", None, _check_domain, recorded=False
)
METHOD: Parameter[Method, Method] = choice_parameter("method", "joint", get_args(Method))
N_ESTIMATORS = auto_integer_parameter("n_estimators", low=1, high=MAX_ESTIMATORS)
MAX_DEPTH = auto_integer_parameter("max_depth", low=1, high=Forest.MAX_DEPTH)
MAX_FEATURES: Parameter[MaxFeatures, MaxFeatures] = Parameter("max_features", "auto", _check_max_features)
SPLIT_SHARE = auto_number_parameter("split_share", low=0, high=1, includes_ends=False)
BALANCE = auto_number_parameter("balance", low=0, high=MAX_BALANCE, includes_ends=True)
DELTA: Parameter[float, Fraction] = Parameter("delta", 1e-6, _check_delta)
N_ROUNDS = auto_integer_parameter("n_rounds", low=1, high=MAX_ROUNDS)
LEARNING_RATE = auto_number_parameter("learning_rate", low=0, high=1, includes_ends=True)
INTERACTIONS = choice_parameter("interactions", True, (True, False))
MAX_RECORDS_PER_GROUP = integer_parameter("max_records_per_group", 1, low=1, high=MAX_RECORDS)
CLASS_WEIGHT: Parameter[ClassWeight, ClassWeight] = Parameter("class_weight", None, _check_class_weight)
PARTITION = choice_parameter("partition", True, (True, False))
ACCOUNTING: Parameter[Accounting, Accounting] = choice_parameter("accounting", "strict", get_args(Accounting))
# The number of threads suits one machine, not the model: the next one may have other cores.
N_JOBS: Parameter[int | None, int] = Parameter("n_jobs", None, resolve_n_jobs, recorded=False)
# Whoever knows the seed can subtract the noise from the model. The ledger tells that there was one.
RANDOM_STATE: Parameter[Any, RandomSource] = Parameter("random_state", None, RandomSource, recorded=False)
# A progress bar is for the person who watches the fit.
VERBOSE: Parameter[int, bool] = Parameter("verbose", 0, bool, recorded=False)


def _with_class_weight(parameters: tuple[Parameter[Any, Any], ...]) -> tuple[Parameter[Any, Any], ...]:
    """Return the parameters of a classifier: those of the regressor, and class_weight before those of persons."""
    at = parameters.index(MAX_RECORDS_PER_GROUP)
    return (*parameters[:at], CLASS_WEIGHT, *parameters[at:])


FOREST: tuple[Parameter[Any, Any], ...] = (
    EPSILON,
    DOMAIN,
    METHOD,
    N_ESTIMATORS,
    MAX_DEPTH,
    MAX_FEATURES,
    SPLIT_SHARE,
    BALANCE,
    PARTITION,
    ACCOUNTING,
    MAX_RECORDS_PER_GROUP,
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
)
"""The parameters of `DiPriMeRegressor`, in the order of its constructor."""
FOREST_CLASSIFIER = _with_class_weight(FOREST)
"""The parameters of `DiPriMeClassifier`, in the order of its constructor."""
BOOSTING: tuple[Parameter[Any, Any], ...] = (
    EPSILON,
    DOMAIN,
    DELTA,
    N_ROUNDS,
    LEARNING_RATE,
    INTERACTIONS,
    MAX_RECORDS_PER_GROUP,
    N_JOBS,
    RANDOM_STATE,
    VERBOSE,
)
"""The parameters of `DiPriMeBoostingRegressor`, in the order of its constructor."""
BOOSTING_CLASSIFIER = _with_class_weight(BOOSTING)
"""The parameters of `DiPriMeBoostingClassifier`, in the order of its constructor."""

NOT_OF_THE_MODEL = frozenset({"n_jobs", "random_state", "verbose"})
"""Parameters that belong to one machine, and the seed, with which the noise could be subtracted."""


def recorded(parameters: Sequence[Parameter[Any, Any]]) -> Mapping[str, Parameter[Any, Any]]:
    """Return the parameters that model files hold and reports show, by name."""
    return {parameter.name: parameter for parameter in parameters if parameter.recorded}


# -- model files ------------------------------------------------------------------------------------------------------


def record_parameters(
    fitted_params: Mapping[str, Any], parameters: Sequence[Parameter[Any, Any]], domain: Domain
) -> dict[str, Any]:
    """Return the recorded parameters of a fit, which have been checked, as plain data for JSON.

    Weights of classes are a list, in the order of the classes of the domain.
    """
    return {name: _plain(name, fitted_params[name], domain) for name in recorded(parameters)}


def _plain(name: str, value: Any, domain: Domain) -> Any:
    if name == EPSILON.name:
        return exact_text(exact_epsilon(value))
    if name == DELTA.name:
        return exact_text(exact_delta(value))
    if isinstance(value, Mapping):  # of classes, which need not be text as the keys of JSON's objects are
        return weights_by_class(value, domain).tolist()
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def read_parameters(
    record: Mapping[str, Any], parameters: Sequence[Parameter[Any, Any]], domain: Domain
) -> dict[str, Any]:
    """Return the constructor's arguments for what `record_parameters` of this or an older version has written.

    Parameters
    ----------
    record : dict
        Plain data from a model file. A missing parameter gets its default: the file is older than the parameter.
        Epsilon and delta have always been there, and no default can stand for them.
    parameters : sequence of Parameter
        The parameters of the estimator.
    domain : Domain
        The domain of the fit.

    Returns
    -------
    arguments : dict
        One for each recorded parameter. Their values have yet to be checked.

    Raises
    ------
    ValueError
        If a parameter is unknown. A newer version has written the file, and only that version knows what it means.
    """
    known = recorded(parameters)
    unknown = sorted(record.keys() - known.keys())
    if unknown:
        raise ValueError(f"diprime {__version__} does not know {short(unknown[0])}; a newer version may.")
    arguments = {name: record.get(name, parameter.default) for name, parameter in known.items()}
    for name, exact in ((EPSILON.name, exact_epsilon), (DELTA.name, exact_delta)):
        if name in known:
            if name not in record:
                raise ValueError(f"{name} is missing.")
            arguments[name] = _number_from_text(record[name], name, exact)
    class_weight = arguments.get(CLASS_WEIGHT.name)
    if isinstance(class_weight, (list, dict)):
        arguments[CLASS_WEIGHT.name] = class_weight_from(class_weight, domain)
    return arguments


def _number_from_text(text: str, name: str, exact: Callable[[object], Epsilon]) -> Epsilon:
    """Return the number that a text stands for: as a float if that is exact."""
    number = exact(epsilon_from_text(text, name))
    as_float = float(number)
    return as_float if exact(as_float) == number else number
