"""Parameters of the estimators, each declared once as a dataclass field with its check and description.

Constructors, defaults, checks, model files, reports, private searches and the limits of command-line options follow
from the declarations. ``python -m tests.docstrings`` writes the ``Parameters`` sections of docstrings, and a test
compares them with the declarations.

To add a parameter, declare it below, add a field of the same name to `ForestSettings` or `BoostingSettings`, which gets
the checked value, and write the docstrings. Model files that lack the parameter then get its default.
"""

from __future__ import annotations

import inspect
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np
import numpy.typing as npt

from diprime._util import __version__
from diprime._util.resources import resolve_n_jobs
from diprime.domain import Categorical, Domain, Task
from diprime.domain.features import short
from diprime.domain.records import MAX_RECORDS
from diprime.forest import defaults
from diprime.forest.plan import Method
from diprime.model.trees import Forest
from diprime.privacy.measures import Epsilon, epsilon_from_text, exact_delta, exact_epsilon, exact_text
from diprime.privacy.randomness import RandomSource

MAX_ESTIMATORS = 65535  # tree indices have 16 bits
MAX_BALANCE = 1000
MAX_ROUNDS = 100_000
MAX_DELTA = 0.01  # a larger delta protects nobody
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-9, 1e9  # of a class: products with probabilities neither underflow nor overflow
ONE_FEATURE_METHODS = ("diprime", "random")

MaxFeatures = int | float | Literal["auto", "sqrt", "log2"] | None
ClassWeight = Mapping[Any, float] | Literal["balanced"] | None
Value = TypeVar("Value")
Check = Callable[[Any, str], Any]
"""Function of a value and the parameter's name that returns the setting, or raises an error with the name."""


# -- declarations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codec:
    """Conversion of a checked value to plain JSON data for model files, and back to a value that is still unchecked."""

    write: Callable[[Any, Domain], Any]
    read: Callable[[Any, Domain], Any] = lambda record, domain: record
    is_required: bool = False  # whether every file must contain the parameter


def _plain(value: Any, domain: Domain) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, numbers.Integral) else float(value)


PLAIN = Codec(_plain)


@dataclass(frozen=True)
class Parameter:
    """Declaration of a parameter, apart from its name, type and default."""

    check: Check
    doc: str  # description for docstrings; each line is a paragraph or a list item
    codec: Codec = PLAIN
    recorded: bool = True  # whether model files contain the parameter and reports show it
    of_model: bool = True  # whether ``fitted_params_`` contains it: not a seed or a setting of the machine
    searchable: bool = True  # whether a private search may select it


def parameter(default: Value, check: Check, doc: str, **details: Any) -> Value:
    """Return a dataclass field that declares a parameter.

    >>> @dataclass
    ... class Binned:
    ...     n_bins: int = parameter(5, integer(2, 255), "The number of bins.")
    >>> check_parameters(Binned(n_bins=7))
    {'n_bins': 7}
    >>> check_parameters(Binned(n_bins=1))
    Traceback (most recent call last):
    ValueError: n_bins must be an integer from 2 to 255, got 1.
    """
    return field(default=default, metadata={"parameter": Parameter(check, doc, **details)})


def parameters_of(estimator: Any) -> dict[str, Parameter]:
    """Return the parameters of an estimator or its class by name, in constructor order."""
    return {declared.name: declared.metadata["parameter"] for declared in fields(estimator)}


def recorded(estimator: Any) -> dict[str, Parameter]:
    """Return the recorded parameters of an estimator or its class by name."""
    return {name: declared for name, declared in parameters_of(estimator).items() if declared.recorded}


def check_parameters(estimator: Any) -> dict[str, Any]:
    """Check the recorded parameters of an estimator and return their settings by name."""
    return {name: declared.check(getattr(estimator, name), name) for name, declared in recorded(estimator).items()}


def settings_of(kind: Callable[..., Value], checked: Mapping[str, Any], **others: Any) -> Value:
    """Return the settings of a fit: checked parameters that have a field of the same name, and other values."""
    names = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in checked.items() if name in names}, **others)


# -- checks -----------------------------------------------------------------------------------------------------------


def unchecked(value: Any, name: str) -> Any:
    """Return a value that is checked elsewhere, together with other parameters."""
    return value


def unnamed(check: Callable[[Any], Any]) -> Check:
    """Return a check that ignores the parameter's name, because its messages already contain it."""
    return lambda value, name: check(value)


def choice(*choices: Any) -> Check:
    """Return a check that a value is one of the choices, including its type: 1 is not True."""

    def check(value: Any, name: str) -> Any:
        if isinstance(value, np.generic):  # a grid search over an array passes NumPy's types
            value = value.item()
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")

    return check


def integer(low: int, high: int) -> Check:
    """Return a check for an integer from low to high."""

    def check(value: Any, name: str) -> int:
        if not _is_integer_from(value, low, high):
            raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}.")
        return int(value)

    return check


def auto_integer(low: int, high: int) -> Check:
    """Return a check for an integer from low to high, or ``"auto"``, which becomes None."""

    def check(value: Any, name: str) -> int | None:
        if _is_auto(value):
            return None
        if not _is_integer_from(value, low, high):
            raise ValueError(f'{name} must be "auto" or an integer from {low} to {high}, got {value!r}.')
        return int(value)

    return check


def auto_number(low: int, high: int, *, includes_ends: bool) -> Check:
    """Return a check for a number, which becomes the fraction of its digits, or ``"auto"``, which becomes None."""

    def check(value: Any, name: str) -> Fraction | None:
        if _is_auto(value):
            return None
        inside = _is_real(value) and low <= float(value) <= high
        if not inside or (not includes_ends and value in (low, high)):
            between = f"from {low} to {high}" if includes_ends else f"strictly between {low} and {high}"
            raise ValueError(f'{name} must be "auto" or a number {between}, got {value!r}.')
        return value if isinstance(value, Fraction) else Fraction(repr(float(value)))

    return check


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_integer_from(value: Any, low: int, high: int) -> bool:
    return _is_integer(value) and low <= int(value) <= high


def _check_max_features(value: Any) -> MaxFeatures:
    """Return the value if `count_features` accepts it."""
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


def check_max_records(value: Any) -> int:
    """Return the contribution bound: the maximum number of records used per person."""
    return cast("int", integer(1, MAX_RECORDS)(value, "max_records_per_group"))


def check_domain(value: Any) -> Domain | Literal["infer"]:
    """Return the value if it is a domain or ``"infer"``."""
    if isinstance(value, str) and value == "infer":
        return "infer"
    if not isinstance(value, Domain):
        raise TypeError(
            f"domain must be a Domain or 'infer', got a {type(value).__name__}. For example, pass "
            f"Domain({{'age': Numeric(17, 90), …}}, target=…)."
        )
    return value


def check_delta(value: Any) -> Fraction:
    """Return the delta of Gaussian noise as an exact fraction."""
    delta = exact_delta(value)
    if not delta:
        raise ValueError(
            f"delta must be above 0, got {value!r}. Gaussian noise requires a delta; for delta = 0, use a forest."
        )
    if delta > MAX_DELTA:
        raise ValueError(
            f"delta must be at most {MAX_DELTA}, got {value!r}. It should be far smaller than one divided by "
            "the number of people."
        )
    return delta


def check_class_weight(value: Any) -> ClassWeight:
    """Return None, ``"balanced"`` or a dict of class weights, whose keys are not checked against the domain."""
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


# -- epsilon, delta and class_weight in model files --------------------------------------------------------------------


def _number_from_text(text: str, name: str, exact: Callable[[object], Epsilon]) -> Epsilon:
    """Parse a number, as a float if that is exact."""
    number = exact(epsilon_from_text(text, name))
    as_float = float(number)
    return as_float if exact(as_float) == number else number


def _exact(name: str, exact: Callable[[object], Epsilon]) -> Codec:
    return Codec(
        lambda value, domain: exact_text(exact(value)), lambda text, domain: _number_from_text(text, name, exact), True
    )


def weights_by_class(class_weight: Mapping[Any, float], domain: Domain) -> npt.NDArray[np.float64]:
    """Return the class weights in the order of the domain; classes missing from the mapping have weight 1.

    Raise a `ValueError` for unknown classes, and for targets without declared classes: classes that will be learnt are
    private, so weights cannot be checked against them before the charge.

    >>> from diprime import Categorical, Numeric
    >>> weights_by_class({"ill": 5}, Domain({"age": Numeric(0, 100)}, target=Categorical(["well", "ill"])))
    array([1., 5.])
    """
    target = domain.target
    assert isinstance(target, Categorical)
    if target.is_undeclared:
        raise ValueError(
            "class_weight contains weights of classes, but the domain does not list its classes. List them, or "
            'use class_weight="balanced".'
        )
    unknown = [label for label in class_weight if label not in target.categories]
    if unknown:
        raise ValueError(f"class_weight contains {short(unknown[0])}, which is not a class of the domain.")
    return np.array([float(class_weight.get(category, 1)) for category in target.categories])


def class_weight_from(weights: Any, domain: Domain) -> dict[Any, float]:
    """Return class weights as a dict, given the list in a model file, or raise a `ValueError`."""
    categories = domain.target.categories if isinstance(domain.target, Categorical) else ()
    if not isinstance(weights, list) or len(weights) != len(categories):
        raise ValueError("class_weight must have one weight for each class.")
    return dict(zip(categories, weights, strict=True))


def _write_class_weight(value: Any, domain: Domain) -> Any:
    """Return the weights as a list in the order of the domain, because JSON keys are text and classes need not be."""
    return weights_by_class(value, domain).tolist() if isinstance(value, Mapping) else value


def _read_class_weight(record: Any, domain: Domain) -> Any:
    return class_weight_from(record, domain) if isinstance(record, (list, dict)) else record


# -- parameters -------------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class BudgetParameters:
    """First parameters of all estimators."""

    epsilon: float = parameter(
        1.0,
        unnamed(exact_epsilon),
        "Privacy budget of the whole fit, for adding or removing one record. If ``groups`` is passed to "
        '``fit``, the budget is for adding or removing one person with all their records. ``float("inf")`` '
        "trains without noise.",
        codec=_exact("epsilon", exact_epsilon),
        searchable=False,
    )
    domain: Domain | Literal["infer"] | None = parameter(
        None,
        unnamed(check_domain),
        "Public facts about the data: ranges, categories and classes. Undeclared ranges and categories, "
        "written ``Numeric()``, ``Date()`` and ``Categorical()``, are learnt privately with a tenth of the "
        'budget. ``"infer"`` takes all of them from the data, which voids the guarantee and issues a '
        "warning.",
        recorded=False,  # files and reports contain the domain of the fit instead
        searchable=False,
    )


@dataclass(eq=False, repr=False, kw_only=True)
class ForestParameters(BudgetParameters):
    """Parameters of growing a forest."""

    method: Method = parameter(
        "joint",
        choice(*get_args(Method)),
        'How splits are chosen:\n- ``"joint"``: by one private selection among all features and '
        'thresholds.\n- ``"diprime"``: near the private median of a random feature.\n- ``"diprime-exp"``: '
        "by the exponential mechanism, among the private medians of ``max_features`` features.\n- "
        '``"diprime-flip"``: as ``"diprime-exp"``, but by permute-and-flip.\n- ``"random"``: at random, '
        "which leaves all of ``epsilon`` for the leaves.",
    )
    n_estimators: int | Literal["auto"] = parameter(
        "auto",
        auto_integer(1, MAX_ESTIMATORS),
        'Number of trees. ``"auto"`` chooses it from ``epsilon`` and private record counts.',
    )
    max_depth: int | Literal["auto"] = parameter(
        "auto",
        auto_integer(0, Forest.MAX_DEPTH),
        'Depth of every tree. ``"auto"`` chooses it from ``epsilon`` and private record counts. A tree of depth 0 '
        "predicts the same for all rows.",
    )
    max_features: int | float | Literal["auto", "sqrt", "log2"] | None = parameter(
        "auto",
        unnamed(_check_max_features),
        "Number of features considered at each node, drawn at random: an integer, a fraction of all "
        'features, or None for all features. ``"auto"`` means all features for ``"joint"``, one for '
        '``"diprime"`` and ``"random"``, and five for the other methods.',
    )
    split_share: float | Literal["auto"] = parameter(
        "auto",
        auto_number(0, 1, includes_ends=False),
        'Fraction of the budget of the trees that is spent on splits; the leaves get the rest. ``"auto"`` '
        'means 0.5 or, for ``"joint"``, 0.7. For ``"joint"``, it is smaller if the number of records times '
        "epsilon is below 300.",
    )
    balance: float | Literal["auto"] = parameter(
        "auto",
        auto_number(0, MAX_BALANCE, includes_ends=True),
        'Penalty λ of ``"joint"`` for unbalanced splits: the cost of each row by which the smaller child '
        "falls short of a public minimum, relative to a squared error of 1.",
    )
    disjoint_rows: bool = parameter(
        True,
        choice(True, False),
        "Whether the trees learn from disjoint subsets of the rows, each with the whole budget. If False, "
        'every tree learns from all rows, with an equal share of the budget. ``"joint"`` with '
        "``epsilon=inf`` is then an ordinary random forest: every tree learns from a random subsample and, "
        'for classification, ``max_features="auto"`` means the square root of the number of features. In '
        'this case, ``n_estimators="auto"`` means 30. ``max_depth="auto"`` means the base-2 logarithm of '
        "the number of rows, up to 16, or less if the leaves of all trees would contain more than 16 "
        "million sums.",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class BoostingParameters(BudgetParameters):
    """Parameters of boosting rounds."""

    delta: float = parameter(
        1e-6,
        unnamed(check_delta),
        "Delta of the guarantee: the fit is (epsilon, delta)-differentially private. It should be far "
        "smaller than one divided by the number of people.",
        codec=_exact("delta", exact_delta),
        searchable=False,
    )
    n_rounds: int | Literal["auto"] = parameter(
        "auto",
        auto_integer(1, MAX_ROUNDS),
        'Number of rounds. ``"auto"`` means 400, or 1000 if epsilon is so large that there is little '
        "noise. If the number of records times epsilon is small, there are no rounds, and the model is a sum "
        "of curves or a constant.",
    )
    learning_rate: float | Literal["auto"] = parameter(
        "auto",
        auto_number(0, 1, includes_ends=True),
        'Shrinkage applied to each Newton step. ``"auto"`` means 100 divided by the number of rounds, but '
        "at least 0.15 and at most 0.5.",
    )
    interactions: bool = parameter(
        True,
        choice(True, False),
        "Whether most rounds split on two features at once: 90 % of them for classes, and 60 % for numeric "
        "targets. If False, the model is a sum of functions of single features.",
    )


@dataclass(eq=False, repr=False, kw_only=True)
class ClassWeightParameter:
    """Parameter of classifiers only."""

    class_weight: Mapping[Any, float] | Literal["balanced"] | None = parameter(
        None,
        unnamed(check_class_weight),
        "Weights of the classes in predictions. Classes missing from the dict have weight 1. "
        '``"balanced"`` gives all classes the same total weight. Weights are applied to released values, '
        "so they cost no privacy.",
        codec=Codec(_write_class_weight, _read_class_weight),
        searchable=False,  # a search selects by unweighted errors
    )


@dataclass(eq=False, repr=False, kw_only=True)
class RunParameters:
    """Last parameters of forests and boosting: the contribution bound, and how a fit runs."""

    max_records_per_group: int = parameter(
        1,
        integer(1, MAX_RECORDS),
        "Contribution bound: maximum number of records used per person. If a person has more, a random "
        "sample is used. The records of a person share a fixed total weight, so a larger value adds no "
        "noise, but splits are chosen with coarser resolution. Used only with ``groups``.",
        searchable=False,
    )
    n_jobs: int | None = parameter(
        None,
        unnamed(resolve_n_jobs),
        "Number of threads. None means one per core. The fitted model does not depend on it.",
        recorded=False,
        of_model=False,  # another machine may have a different number of cores
        searchable=False,
    )
    random_state: int | np.random.RandomState | None = parameter(
        None,
        unnamed(RandomSource),
        "Seed for reproducible fits. A seed voids the guarantee, because anyone who knows it can remove "
        "the noise. None takes random bits from the operating system.",
        recorded=False,
        of_model=False,  # the noise could be subtracted from the model; the ledger states that there was a seed
        searchable=False,
    )
    verbose: int = parameter(
        0,
        unnamed(bool),
        "Whether to show a progress bar during long fits.",
        recorded=False,
        of_model=False,
        searchable=False,
    )


# -- max_features -----------------------------------------------------------------------------------------------------


def count_features(max_features: MaxFeatures, method: Method, n_features: int, *, task: Task, same_rows: bool) -> int:
    """Return the number of features considered at each split, given the checked parameter.

    ``same_rows`` means that all trees learn from the same rows without noise, so only features make them differ.
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
        raise ValueError(f"max_features is {n}, but the domain has only {n_features} features.")
    if n > 1 and method in ONE_FEATURE_METHODS:
        raise ValueError(f'max_features must be 1 for method="{method}", which draws a feature at random.')
    return n


# -- model files ------------------------------------------------------------------------------------------------------


def record_parameters(estimator: Any, domain: Domain) -> dict[str, Any]:
    """Return the recorded parameters of a fitted estimator as plain JSON data."""
    fitted = estimator.fitted_params_
    return {name: declared.codec.write(fitted[name], domain) for name, declared in recorded(estimator).items()}


def read_parameters(record: Mapping[str, Any], estimator: type, domain: Domain) -> dict[str, Any]:
    """Return unchecked constructor arguments, given the output of `record_parameters` of this or an older version.

    A parameter that an older file lacks gets its default. An unknown parameter comes from a newer version and raises a
    `ValueError`.
    """
    known = recorded(estimator)
    unknown = sorted(record.keys() - known.keys())
    if unknown:
        raise ValueError(
            f"diprime {__version__} does not support the parameter {short(unknown[0])}. Install a newer version."
        )
    for name, declared in known.items():
        if declared.codec.is_required and name not in record:
            raise ValueError(f"{name} is missing.")
    return {name: known[name].codec.read(value, domain) for name, value in record.items()}
