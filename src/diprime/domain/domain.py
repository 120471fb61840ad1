"""`Domain`: public facts about a data set, and the encoding of its records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.resources import Threads
from diprime.domain.checking import CheckTally, DomainCheck, check_records, infer
from diprime.domain.columns import Array, read_table, read_target
from diprime.domain.encoding import (
    BLOCK_CODES,
    Codes,
    RowEncoding,
    RowReader,
    TargetLayout,
    Task,
    encode_classes,
    encode_numbers,
)
from diprime.domain.features import (
    TARGET_UNITS,
    Categorical,
    Coded,
    Feature,
    Numeric,
    Target,
    bounds,
    checked_markers,
    coded_features,
    is_linear,
    short,
)
from diprime.domain.files import (
    Origin,
    TextOrPath,
    check_size,
    parse_json,
    parse_toml,
    quota_per_column,
    read_dict,
    read_text,
    write_dict,
    write_toml,
)
from diprime.domain.learning import LearningPlan, features_of_columns, learn, undeclared_target
from diprime.domain.records import Collect, PersonDigests, new_key
from diprime.domain.values import MISSING_TEXTS
from diprime.privacy.measures import Epsilon, exact_delta, exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.privacy.session import Session, active_budgets, charges_stated

_OPTIONS = ("target_name", "missing", "origin")


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """The public facts about a data set: its features and its target.

    Parameters
    ----------
    features : mapping of str to Numeric, Integer, Date or Categorical
        Features in order, one per column. Data-frame columns are matched by name, and array columns by position.
        Undeclared features, written ``Numeric()``, ``Date()`` or ``Categorical()``, are learnt by `learn` or by the
        estimator.
    target : Numeric or Categorical
        Classes, or the range of a numeric target. The range must have a linear scale; for another scale, transform the
        target.
    target_name : str, optional
        Name of the target column, used when tables are read from files.
    missing : sequence of str, default=()
        Further texts for missing values, such as ``"?"``. In every domain, ``""``, ``"NA"``, ``"None"`` and the other
        texts that `pandas.read_csv` converts by default are missing. Outer spaces are ignored. A listed category is
        never missing.
    origin : Origin, optional
        Origin of the facts: declared, unless `infer`, `learn` or a file states otherwise. Files, pickles and models
        contain the origin, but comparisons of domains ignore it.

    Examples
    --------
    >>> domain = Domain(
    ...     {"age": Numeric(0, 255), "sex": Categorical(["F", "M"])},
    ...     target=Categorical(["no", "yes"]),
    ... )
    >>> domain.encode([[36.5, "M"], [None, "?"], [300, "F"]])
    array([[ 36,   1],
           [255, 254],
           [254,   0]], dtype=uint8)
    >>> domain.encode_target(["yes", "no", None])
    array([ 1,  0, -1], dtype=int32)
    >>> domain.task
    'classification'
    >>> Domain.from_toml(domain.to_toml()) == domain
    True
    """

    features: Mapping[str, Feature]
    target: Target
    target_name: str | None = field(default=None, kw_only=True)
    missing: Sequence[str] = field(default=(), kw_only=True)
    origin: Origin = field(default=Origin(), kw_only=True)

    def __post_init__(self) -> None:
        features = _checked_features(self.features)
        if not isinstance(self.target, Target):
            raise TypeError(f"target must be Numeric(low, high) or Categorical(classes), got {short(self.target)}.")
        if isinstance(self.target, Categorical) and self.target.n_buckets is not None:
            raise ValueError(
                "The target cannot use hash buckets, because its classes could not be recovered. List the classes."
            )
        if isinstance(self.target, Numeric) and not is_linear(self.target):
            raise ValueError(
                "The target cannot have edges or a log scale. Use Numeric(low, high), and transform the target itself."
            )
        if not (self.target_name is None or isinstance(self.target_name, str)):
            raise TypeError(f"target_name must be the name of a column, got {short(self.target_name)}.")
        if self.target_name in features:
            raise ValueError(f"target_name = {short(self.target_name)} is also a feature; name another column.")
        if not isinstance(self.origin, Origin):
            raise TypeError(
                f"origin must not be set, got {short(self.origin)}. Mark a checked draft with reviewed(...)."
            )
        object.__setattr__(self, "features", MappingProxyType(features))
        object.__setattr__(self, "missing", checked_markers(self.missing))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        # Mappings compare equal in any order, but the order of the features is the order of the columns of codes.
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return tuple(self.features.items()), self.target, self.target_name, tuple(self.missing)

    def __reduce__(self) -> tuple[Any, ...]:
        features, options = dict(self.features), {name: getattr(self, name) for name in _OPTIONS}
        return partial(Domain, features, self.target, **options), ()

    def __repr__(self) -> str:
        shown = [f"{name!r}: {feature!r}" for name, feature in list(self.features.items())[:10]]
        more = f", ... {len(self.features)} features" if len(self.features) > 10 else ""  # noqa: PLR2004 -- all shown
        name = "" if self.target_name is None else f", target_name={self.target_name!r}"
        missing = f", missing={list(self.missing)}" if self.missing else ""
        origin = "" if self.origin == Origin() else f", origin={self.origin!r}"
        return f"Domain({{{', '.join(shown)}{more}}}, target={self.target!r}{name}{missing}{origin})"

    @cached_property
    def missing_texts(self) -> frozenset[str]:
        """All text for missing values."""
        return MISSING_TEXTS.union(self.missing)

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.features)

    @cached_property
    def encoded_features(self) -> Mapping[str, Coded]:
        """Encoded features, on which models split, in order. A date has one for its order and one for each part."""
        return MappingProxyType(coded_features(self.features))

    @cached_property
    def encoded_feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features, in order."""
        return tuple(self.encoded_features)

    @property
    def n_features(self) -> int:
        """Number of encoded features."""
        return len(self.encoded_features)

    @property
    def is_complete(self) -> bool:
        """Whether all ranges and categories are declared or learnt."""
        return not (self.target.is_undeclared or any(feature.is_undeclared for feature in self.features.values()))

    @property
    def undeclared_features(self) -> tuple[str, ...]:
        """Names of the features without a range or categories."""
        return tuple(name for name, feature in self.features.items() if feature.is_undeclared)

    def _check_closed(self) -> None:
        if not self.is_complete:
            what = f"feature {self.undeclared_features[0]!r}" if self.undeclared_features else "the target"
            raise ValueError(
                f"The domain is incomplete: {what} has no range or categories. Declare them, learn them with "
                "Domain.learn, or pass the domain to an estimator, which learns them during fit."
            )

    @cached_property
    def is_categorical(self) -> npt.NDArray[np.bool_]:
        """Mask of the categorical encoded features."""
        return _frozen(np.array([isinstance(f, Categorical) for f in self.encoded_features.values()], dtype=np.bool_))

    @cached_property
    def n_codes(self) -> npt.NDArray[np.int64]:
        """Number of codes for the bins or categories of each encoded feature."""
        counts = [f.n_codes if isinstance(f, Categorical) else f.n_cells for f in self.encoded_features.values()]
        return _frozen(np.array(counts, dtype=np.int64))

    @property
    def task(self) -> Task:
        """Task: "classification" if the target is categorical, "regression" if it is numeric."""
        return "classification" if isinstance(self.target, Categorical) else "regression"

    @cached_property
    def layout(self) -> TargetLayout:
        """Representation of encoded targets as integers that can be added up."""
        self._check_closed()
        if isinstance(self.target, Categorical):
            return TargetLayout.of_classes(len(self.target.categories))
        return TargetLayout.of_number(TARGET_UNITS)

    @property
    def output_range(self) -> tuple[float, float]:
        """Range of the predictions: of probabilities, or of a numeric target."""
        return bounds(self.target) if isinstance(self.target, Numeric) else (0.0, 1.0)

    @cached_property
    def _row_encoding(self) -> RowEncoding:
        self._check_closed()
        return RowEncoding(self.features, self.missing_texts)

    def reader(self, X: Any) -> RowReader:
        """Match the columns of a table to the domain, and return a reader of codes that threads can share."""
        return self._row_encoding.reader(read_table(X))

    def encode(self, X: Any, *, n_threads: int = 1) -> Codes:
        """Encode records.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table of shape (n, n_columns)
            The records. At most one block of rows is copied at a time.
        n_threads : int, default=1
            Number of threads.

        Returns
        -------
        codes : ndarray of uint8, shape (n, n_features), C-ordered
            One column per encoded feature, with the index of the bin or category; 254 for an unlisted category and 255
            for a missing value.
        """
        reader = self.reader(X)
        out = np.empty((reader.n_rows, self.n_features), dtype=np.uint8)
        with Threads(n_threads if out.size >= BLOCK_CODES else 1) as threads:
            threads.run(lambda a, b: reader.read(a, b, out[a:b]), reader.n_rows)
        return out

    def encode_target(self, y: Any, *, n_threads: int = 1, mark_outside: bool = False) -> npt.NDArray[np.int32]:
        """Encode targets.

        Parameters
        ----------
        y : array, list, or pandas, polars or pyarrow column of shape (n,)
            The targets.
        n_threads : int, default=1
            Number of threads.
        mark_outside : bool, default=False
            Whether targets outside the domain get codes of their own. For an unlisted class, this is the number of
            classes. For a number outside the range, it is 4097 plus the code of the clipped number.

        Returns
        -------
        codes : ndarray of int32, shape (n,)
            For a categorical target, the index of the class, or -1 if it is missing or unlisted. For a numeric target,
            ``round(4096 * (y - low) / (high - low))``, halves to even, clipped to [0, 4096]; -1 for NaN.
        """
        self._check_closed()
        column = read_target(y)
        outside = self.layout.n_targets if mark_outside else None
        if isinstance(self.target, Categorical):
            unlisted = -1 if outside is None else outside
            return encode_classes(self.target, column, n_threads, self.missing_texts, unlisted)
        return encode_numbers(self.target, column, n_threads, outside or 0)

    def check(self, X: Any, y: Any = None, *, groups: Any = None) -> DomainCheck:
        """Count the values outside the domain. The result is **not private**: it is for the data holder only.

        Many such values may mean that the domain belongs to another table. Do not adapt the domain to the result beyond
        what is public knowledge.

        Parameters
        ----------
        X : table, array or source
            The records, as for the ``fit`` of an estimator.
        y : array, column or str, optional
            The targets, or the name of their column in X.
        groups : array, column or str, optional
            Person of each record, or the name of that column.

        Returns
        -------
        check : DomainCheck
            Number of rows, counts of each column, and number of records per person.

        Examples
        --------
        >>> domain = Domain({"age": Numeric(0, 110), "sex": Categorical(["F", "M"])}, Categorical(["no", "yes"]))
        >>> print(domain.check([[36, "F"], [-1, "X"], [None, "M"]], ["no", "yes", "maybe"]))
        3 rows, outside the domain:
        age: 1 below, 1 missing
        sex: 1 unlisted
        the target: 1 unlisted
        """
        from diprime.sources import as_source

        self._check_closed()
        source, roles = as_source(X, y, groups)
        missing = self.missing_texts
        digests = PersonDigests(new_key(), missing) if source.has_groups(roles, may_read=True) else None
        tally = CheckTally(dict(self.features), self.target, missing, digests)
        return check_records(partial(source.collect, domain=self, roles=roles), tally)

    @classmethod
    def infer(cls, X: Any, y: Any, task: Task, *, missing: Sequence[str] = ()) -> Domain:
        """Infer a domain from the data, which reveals their values: **not private**.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table
            The records. Floats become `Numeric` and integers `Integer` over the range of the finite values. Dates
            become `Date` with all parts in which they differ. Text, Booleans and dictionary-encoded columns become
            `Categorical`, with the categories of the dtype if it lists them (pandas ``category``, polars ``Enum``).
        y : array, list or column
            The targets, none of them missing or infinite.
        task : {"classification", "regression"}
            Whether the target is categorical or numeric.
        missing : sequence of str, default=()
            Further texts for missing values, such as ``"?"``. Neither these nor `missing_texts` become categories of a
            feature, unless the dtype lists them.

        Returns
        -------
        domain : Domain
            The domain. Features of arrays are named x0, x1, and so on. A model that uses the domain is not private,
            unless `reviewed` names a person who has checked the domain.
        """
        missing = checked_markers(missing)
        return cls(*infer(X, y, task, MISSING_TEXTS.union(missing)), missing=missing, origin=Origin("inferred"))

    @classmethod
    def learn(  # noqa: PLR0913 -- public facts, and the budget
        cls,
        X: Any,
        y: Any = None,
        epsilon: float = 0.1,
        *,
        delta: float = 0.0,
        features: Mapping[str, Feature] | None = None,
        target: Target | None = None,
        task: Task | None = None,
        target_name: str | None = None,
        missing: Sequence[str] = (),
        groups: Any = None,
        random_state: Any = None,
    ) -> Domain:
        """Learn the undeclared parts of a domain privately.

        The exponential mechanism chooses each range among intervals over all of float64. With a positive `delta`, the
        categories of text are the values whose noisy counts reach a threshold. Otherwise, a public hash function
        assigns the values to 254 buckets, which costs no privacy. If both the features and the target are undeclared,
        the target gets a third of the budget.

        A range requires many values other than 0, and rare categories are not found. The notes of the ledger,
        ``domain.origin.ledger.notes``, state the required numbers of records, which are public, and the features for
        which no range could be learnt. If there are too many categories for a model file, only the shortest are kept.

        diprime assumes that the names and dtypes of columns are public. Numbers become `Numeric`, dates `Date`, and
        Booleans and dtypes of categories `Categorical`. Declare other kinds in `features`, and all columns whose dtype
        may depend on single values: text, objects, nulls, and NumPy Booleans.

        Parameters
        ----------
        X : table, array or source
            The records, as for the ``fit`` of an estimator. They are read several times.
        y : array, column or str
            The targets, or the name of their column in X.
        epsilon : float, default=0.1
            Privacy budget. It is spent completely if a range is undeclared, or categories are undeclared and `delta` is
            positive; otherwise nothing is spent.
        delta : float, default=0.0
            Budget for learning categories. It should be far smaller than one divided by the number of records.
        features : mapping of str to Numeric, Integer, Date or Categorical, optional
            Features that are known, or whose kind is known: ``Numeric()``, ``Date()`` and ``Categorical()`` are learnt.
            Other features in this mapping cost no privacy.
        target : Numeric or Categorical, optional
            The target, if it is known. Learning classes requires a positive `delta`.
        task : {"classification", "regression"}, optional
            The task; required unless `target` is given.
        target_name : str, optional
            Name of the target column, used when tables are read from files.
        missing : sequence of str, default=()
            Further texts for missing values, such as ``"?"``.
        groups : array, column or str, optional
            Person of each record, or the name of that column. One random record of each person is used, so all
            records of a person are protected together.
        random_state : int, RandomState instance or None, default=None
            Seed for reproducible results. A seed voids the guarantee.

        Returns
        -------
        domain : Domain
            The domain. Its origin contains the ledger of its cost, which every model that uses the domain includes.

        Raises
        ------
        TypeError
            If the dtype of an undeclared column may depend on single values, or does not match its feature.
        ValueError
            If there are too few records to learn the range of the target, the range of any feature, or at least two
            classes. Released numbers show this, so the budget has been charged.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X, y = rng.normal(50, 10, size=(10_000, 1)), rng.uniform(size=10_000)
        >>> domain = Domain.learn(X, y, epsilon=1.0, target=Numeric(0, 1))
        >>> domain.features["x0"].low < 50 < domain.features["x0"].high
        True
        >>> domain.origin.ledger.total
        Fraction(1, 1)
        """
        from diprime.sources import as_source

        with charges_stated(is_budgeted=bool(active_budgets())):
            budget = exact_epsilon(epsilon), exact_delta(delta)
            known = _checked_features(features) if features else {}
            data, roles = as_source(X, y, groups)
            of_persons = data.has_groups(roles, may_read=True)
            found = features_of_columns(data.columns(roles), known)
            open_domain = cls(found, target or undeclared_target(task), target_name=target_name, missing=missing)
            plan, source = open_domain.learning_plan(*budget), RandomSource(random_state)
            if plan.charges:
                data = data.repeatable()
            collect = partial(data.collect, domain=open_domain, roles=roles)
            return open_domain.learnt(collect, plan, source, of_persons=bool(of_persons))

    def learning_plan(self, epsilon: Epsilon, delta: Fraction) -> LearningPlan:
        """Plan the releases that learn the undeclared parts. Their costs add up to the budget, or to zero."""
        if not self.is_complete:
            self.origin.check_learnable()
        plan = LearningPlan.make(self.features, self.target, epsilon, delta)
        n_columns = sum(charge.n_releases for charge in plan.categories.values())
        return replace(plan, quota=quota_per_column(self, n_columns))

    def learnt(self, collect: Collect, plan: LearningPlan, source: RandomSource, *, of_persons: bool = False) -> Domain:
        """Return the complete domain, learnt in its own session; see `complete`."""
        with Session.begin() as session:
            session.protect(people=of_persons)
            session.check(plan.request(is_seeded=source.seeded))
            return self.complete(collect, plan, source, session, of_persons=of_persons)

    def complete(
        self, collect: Collect, plan: LearningPlan, source: RandomSource, session: Session, *, of_persons: bool = False
    ) -> Domain:
        """Return the complete domain, learnt in a session from records and targets, which are read repeatedly."""
        features, target, ledger = learn(
            self.features, self.target, self.missing_texts, collect, plan, source, session, of_persons=of_persons
        )
        return replace(self, features=features, target=target, origin=self.origin.learnt(ledger))

    def reviewed(self, reviewer: str) -> Domain:
        """Return the same domain, marked as declared by a person who has checked that it is public knowledge.

        Parameters
        ----------
        reviewer : str
            Name of this person. The ledger and the report of every model that uses the domain contain it.

        Returns
        -------
        domain : Domain
            A copy with another origin.

        Examples
        --------
        >>> draft = Domain.infer([[17.0], [85.0]], ["no", "yes"], "classification")
        >>> print(draft.origin)
        inferred from the data
        >>> print(draft.reviewed("Jane Doe").origin)
        declared, reviewed by Jane Doe
        """
        return replace(self, origin=self.origin.reviewed(reviewer))

    def check_size(self) -> None:
        """Raise `ValueError` if the domain is too large to write a model that uses it to a file."""
        check_size(self)

    def to_toml(self) -> str:
        """Write the domain as TOML, which is easy to edit and which `from_toml` reads back exactly.

        Examples
        --------
        >>> print(Domain({"age": Numeric(17, 90)}, Categorical(["no", "yes"])).to_toml())
        [features.age]
        kind = "numeric"
        low = 17
        high = 90
        <BLANKLINE>
        [target]
        kind = "categorical"
        categories = ["no", "yes"]
        <BLANKLINE>
        """
        return write_toml(self)

    @classmethod
    def from_toml(cls, source: TextOrPath) -> Domain:
        """Read a domain from TOML.

        Parameters
        ----------
        source : str or path
            The content of the file or its path, as a `Path` or as a string that ends in ``.toml`` or ``.json``. A
            mistake in the content raises a `ValueError` that names the key.

        Returns
        -------
        domain : Domain
            The domain.
        """
        return cls.from_dict(parse_toml(read_text(source, "TOML")))

    def to_json(self) -> str:
        """Write the domain as JSON, which `from_json` reads back exactly."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, source: TextOrPath) -> Domain:
        """Read a domain from JSON, given as text or as a path, as in `from_toml`."""
        return cls.from_dict(parse_json(read_text(source, "JSON")))

    def to_dict(self) -> dict[str, Any]:
        """Return the domain as a dict of plain values, which `from_dict` reads back exactly."""
        return write_dict(self)

    @classmethod
    def from_dict(cls, content: Any) -> Domain:
        """Read a domain from the output of `to_dict`. A mistake raises a `ValueError` that names the key."""
        arguments = read_dict(content)
        try:
            return cls(**arguments)
        except ValueError as error:
            raise ValueError(f"target: {error}") from None


def _checked_features(features: Any) -> dict[str, Feature]:
    if not isinstance(features, Mapping):
        raise TypeError("features must be a dict of names and features, such as Numeric(...) or Categorical(...).")
    if not features:
        raise ValueError("features is empty. A domain needs at least one feature.")
    for name, feature in features.items():
        if not isinstance(name, str):
            raise TypeError(f"Feature names must be strings, got {short(name)}.")
        if not isinstance(feature, Feature):
            kinds = "Numeric(...), Integer(...), Date(...) or Categorical(...)"
            raise TypeError(f"Feature {name!r} must be {kinds}, got {short(feature)}.")
    coded_features(features)  # checks the names
    return dict(features)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
