"""`Domain`: the public facts about a data set, and the encoding of its records.

The encoding of a record depends on the domain and on that record alone. Numbers outside their range are clamped,
unknown levels and missing values have codes of their own, and errors are about shapes, names and dtypes. Only
`Domain.infer`, which is not private, and `Domain.learn`, which is, derive facts from the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from diprime._util.threads import Threads
from diprime.domain.checking import DomainCheck, PersonCheck, check_column, check_table
from diprime.domain.codes import MISSING, OTHER, TARGET_UNITS
from diprime.domain.encoding import BLOCK_CODES, Codes, RowEncoding, RowReader, encode_classes, encode_numbers
from diprime.domain.features import Categorical, Numeric, bounds, is_linear, short
from diprime.domain.files import Facts, Source, read_dict, read_json, read_toml, write_dict, write_json, write_toml
from diprime.domain.inference import infer
from diprime.domain.kinds import Coded, Feature, Target, coded_features
from diprime.domain.learning import Batches, LearningPlan, is_open, learn, open_features, open_target
from diprime.domain.origin import Origin
from diprime.domain.persons import PersonIndex
from diprime.domain.sizes import check_size, room_of_levels
from diprime.domain.tables import Array, read_table, read_target
from diprime.domain.target_layout import TargetLayout, Task
from diprime.privacy.measures import Epsilon, exact_delta, exact_epsilon
from diprime.privacy.randomness import RandomSource
from diprime.privacy.spending import Spendable

__all__ = ["MISSING", "OTHER", "TARGET_UNITS", "Categorical", "Domain", "Numeric", "RowReader"]


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """The public facts about a data set: its features and its target.

    Parameters
    ----------
    features : mapping of str to Numeric, Integer, Date or Categorical
        The features, in order, one for each column. Columns of data frames are matched by name, columns of arrays by
        position. A domain with ``Numeric()`` or ``Categorical()`` is open: `learn`, or the estimator that is given it,
        learns the rest.
    target : Numeric or Categorical
        The classes, or the range of a numeric target. The range must have a linear scale; for any other, transform the
        target.
    target_name : str, optional
        The column that holds the target, for programs that read tables from files.
    origin : Origin, optional
        Where these facts come from: declared, unless `infer`, `learn` or a file says otherwise. Files, pickles and
        models carry it, and a model whose domain was read from the data is not private. Domains that differ in nothing
        else are equal.

    Attributes
    ----------
    columns : tuple of str
        The names of the columns: the keys of `features`.
    coded : mapping of str to Numeric, Integer, Date, DatePart or Categorical
        The features that records are coded as, which models split on. They are the declared ones, except that a `Date`
        gives one for its order, if it has a range, and one for each of its parts, such as ``when.hour``.
    names : tuple of str
        The names of the coded features.
    n_features : int
        The number of coded features.
    is_categorical : ndarray of bool
        Which coded features are categorical.
    n_codes : ndarray of int
        The number of codes of each coded feature's cells or levels, without those of unknown and missing values.
    task : {"classification", "regression"}
        What is learnt: "classification" if the target is categorical, "regression" if it is numeric.
    output_range : tuple of float
        The range of what a model predicts: 0 to 1 for probabilities of classes, or the range of a numeric target.
    layout : TargetLayout
        How encoded targets are represented as integers that can be added up.

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
    origin: Origin = field(default=Origin(), kw_only=True)

    def __post_init__(self) -> None:
        features = _checked_features(self.features)
        if not isinstance(self.target, Target):
            raise TypeError(f"target is {short(self.target)}; give Numeric(low, high) or Categorical(classes).")
        if isinstance(self.target, Categorical) and self.target.buckets is not None:
            raise ValueError("target has buckets, whose classes nobody could tell; list the classes.")
        if isinstance(self.target, Numeric) and not is_linear(self.target):
            raise ValueError(
                "target has edges or a log scale; give Numeric(low, high) and transform the target itself."
            )
        if not (self.target_name is None or isinstance(self.target_name, str)):
            raise TypeError(f"target_name is {short(self.target_name)}; give the name of a column.")
        if self.target_name in features:
            raise ValueError(f"target_name = {short(self.target_name)} is also a feature; name another column.")
        if not isinstance(self.origin, Origin):
            raise TypeError(f"origin is {short(self.origin)}; leave it out, and mark a checked draft by reviewed(...).")
        object.__setattr__(self, "features", MappingProxyType(features))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        # Mappings ignore order, but the order of the features is the order of the columns of codes.
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return tuple(self.features.items()), self.target, self.target_name

    def __reduce__(self) -> tuple[Any, ...]:
        return _make_domain, (dict(self.features), self.target, self.target_name, self.origin)

    def __repr__(self) -> str:
        shown = [f"{name!r}: {feature!r}" for name, feature in list(self.features.items())[:10]]
        more = f", ... {len(self.features)} features" if len(self.features) > 10 else ""  # noqa: PLR2004 -- all shown
        name = "" if self.target_name is None else f", target_name={self.target_name!r}"
        origin = "" if self.origin == Origin() else f", origin={self.origin!r}"
        return f"Domain({{{', '.join(shown)}{more}}}, target={self.target!r}{name}{origin})"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.features)

    @cached_property
    def coded(self) -> Mapping[str, Coded]:
        """The features that records are coded as, in order."""
        return MappingProxyType(coded_features(self.features))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the coded features, in order."""
        return tuple(self.coded)

    @property
    def n_features(self) -> int:
        """The number of coded features."""
        return len(self.coded)

    @property
    def is_open(self) -> bool:
        """Whether a range or levels are still to be learnt."""
        return is_open(self.features, self.target)

    @property
    def open_features(self) -> tuple[str, ...]:
        """The names of the features whose range or levels are still to be learnt."""
        return tuple(name for name, feature in self.features.items() if feature.is_open)

    def _check_closed(self) -> None:
        if self.is_open:
            what = f"feature {self.open_features[0]!r}" if self.open_features else "the target"
            raise ValueError(
                f"The domain is open: {what} has no range or levels; give them, learn them privately with "
                "Domain.learn, or let an estimator do so in its fit."
            )

    @cached_property
    def is_categorical(self) -> npt.NDArray[np.bool_]:
        """Which coded features are categorical."""
        return _frozen(np.array([isinstance(f, Categorical) for f in self.coded.values()], dtype=np.bool_))

    @cached_property
    def n_codes(self) -> npt.NDArray[np.int64]:
        """The number of codes of each coded feature's cells or levels."""
        counts = [f.n_codes if isinstance(f, Categorical) else f.n_cells for f in self.coded.values()]
        return _frozen(np.array(counts, dtype=np.int64))

    @property
    def task(self) -> Task:
        """What is learnt: "classification" if the target is categorical, "regression" if it is numeric."""
        return "classification" if isinstance(self.target, Categorical) else "regression"

    @cached_property
    def layout(self) -> TargetLayout:
        """How encoded targets are represented as integers that can be added up."""
        self._check_closed()
        if isinstance(self.target, Categorical):
            return TargetLayout.of_classes(len(self.target.levels))
        return TargetLayout.of_number(TARGET_UNITS)

    @property
    def output_range(self) -> tuple[float, float]:
        """The range of what a model predicts: probabilities of classes, or the range of a numeric target."""
        return bounds(self.target) if isinstance(self.target, Numeric) else (0.0, 1.0)

    @cached_property
    def _row_encoding(self) -> RowEncoding:
        self._check_closed()
        return RowEncoding(self.features)

    # -- encoding -----------------------------------------------------------------------------------------------------

    def reader(self, X: Any) -> RowReader:
        """Match the columns of a table to the domain, and return a reader that encodes its rows a block at a time.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table of shape (n, n_columns)
            The records.

        Returns
        -------
        reader : RowReader
            The reader; threads can share it.
        """
        return self._row_encoding.reader(read_table(X))

    def encode(self, X: Any, *, n_threads: int = 1) -> Codes:
        """Encode records.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table of shape (n, n_columns)
            The records. At most a block of rows is copied at a time.
        n_threads : int, default=1
            The number of threads.

        Returns
        -------
        codes : ndarray of uint8, shape (n, n_features), C-ordered
            Indices of cells and levels, as defined by the thresholds of numbers and dates and by `Categorical.levels`;
            254 for a value that is not a level, 255 for a missing value. There is a column for each coded feature.
        """
        reader = self.reader(X)
        out = np.empty((reader.n_rows, self.n_features), dtype=np.uint8)
        with Threads(n_threads if out.size >= BLOCK_CODES else 1) as threads:
            threads.run(lambda a, b: reader.read(a, b, out[a:b]), reader.n_rows)
        return out

    def encode_target(self, y: Any, *, n_threads: int = 1) -> npt.NDArray[np.int32]:
        """Encode targets.

        Parameters
        ----------
        y : array, list, or pandas, polars or pyarrow column of shape (n,)
            The targets.
        n_threads : int, default=1
            The number of threads.

        Returns
        -------
        codes : ndarray of int32, shape (n,)
            For a categorical target the index of the class, -1 if it is missing or unknown. For a numeric target
            ``round(4096 * (y - low) / (high - low))``, halves to even, clamped to [0, 4096]; -1 for NaN.
        """
        self._check_closed()
        column = read_target(y)
        if isinstance(self.target, Categorical):
            return encode_classes(self.target, column, n_threads)
        return encode_numbers(self.target, column, n_threads)

    def check(self, X: Any, y: Any = None, *, groups: Any = None) -> DomainCheck:
        """Count the values outside the domain, which is **not private**: the answer is for the holder of the data.

        Nothing is wrong with such values: numbers are clamped to their range, and levels that are not listed have a
        code of their own, as missing values have. Many of them may mean that the domain is not that of the table. Do
        not fit the domain to the answer more closely than public knowledge does.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table of shape (n, n_columns)
            The records.
        y : array, list or column of shape (n,), optional
            The targets.
        groups : array or column of shape (n,), optional
            The person of each record.

        Returns
        -------
        check : DomainCheck
            The number of rows, the counts of each column, and how many records persons have.

        Examples
        --------
        >>> domain = Domain({"age": Numeric(0, 110), "sex": Categorical(["F", "M"])}, Categorical(["no", "yes"]))
        >>> print(domain.check([[36, "F"], [-1, "X"], [None, "M"]], ["no", "yes", "maybe"]))
        3 rows, outside of the domain:
        age: 1 below, 1 missing
        sex: 1 unlisted
        the target: 1 unlisted
        """
        self._check_closed()
        table = read_table(X)
        target = None if y is None else check_column(read_target(y), self.target, "y")
        persons = None if groups is None else PersonCheck(PersonIndex().encode(groups))
        return DomainCheck(table.n_rows, check_table(self.features, table), target, persons)

    # -- inference ----------------------------------------------------------------------------------------------------

    @classmethod
    def infer(cls, X: Any, y: Any, task: Task) -> Domain:
        """Infer a domain from the data, whose values it reveals: **not private**.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table
            The records. Floats become `Numeric` and integers `Integer` over the range of the finite values. Dates
            become `Date` with all parts in which they differ. Text, Booleans and dictionary-encoded columns become
            `Categorical`, with the levels of the dtype if it has levels (pandas ``category``, polars ``Enum``).
        y : array, list or column
            The targets; none may be missing or infinite.
        task : {"classification", "regression"}
            Whether the target is categorical or numeric.

        Returns
        -------
        domain : Domain
            The domain; features of arrays are named x0, x1, and so on. Its origin says that it was read from the data:
            no model that uses it is private, unless somebody has checked it and says so by `reviewed`.
        """
        return cls(*infer(X, y, task), origin=Origin("read"))

    @classmethod
    def learn(  # noqa: PLR0913 -- what is public, and what it may cost
        cls,
        X: Any,
        y: Any,
        epsilon: float = 0.1,
        *,
        delta: float = 0.0,
        features: Mapping[str, Feature] | None = None,
        target: Target | None = None,
        task: Task | None = None,
        target_name: str | None = None,
        groups: Any = None,
        random_state: Any = None,
    ) -> Domain:
        """Learn a domain privately, as far as it is not known.

        Ranges are chosen by the exponential mechanism among intervals over all of float64. Levels of text are those
        whose counts, with noise, reach a threshold if `delta` is positive; otherwise a public hash function spreads the
        values over 254 buckets, which costs nothing. Of levels that would be too many for a model file, only the
        shortest are kept. Names and dtypes of columns are taken to be public; columns of
        objects are taken for text, also if they hold dates, unless `features` says ``Numeric()`` or ``Date(...)``.

        Parameters
        ----------
        X : array, list of lists, or pandas, polars or pyarrow table
            The records.
        y : array, list or column
            The targets.
        epsilon : float, default=0.1
            The budget. All of it is spent if a range, or levels with a delta, are open; else nothing is.
        delta : float, default=0.0
            The budget of levels, which should be far below one over the number of records.
        features : mapping of str to Numeric or Categorical, optional
            What is known. These features cost nothing, unless they are open: ``Numeric()`` or ``Categorical()``.
        target : Numeric or Categorical, optional
            The target, if it is known. Classes can be learnt with a positive `delta` only.
        task : {"classification", "regression"}, optional
            What is learnt, if `target` is not given. It may be left out if `y` holds text, Booleans or floats.
        target_name : str, optional
            The column that holds the target, for programs that read tables from files.
        groups : array or column of shape (n,), optional
            The person of each record, where persons have several: one record of each, drawn at random, is used, so that
            all records of a person are protected together.
        random_state : int, RandomState instance or None, default=None
            A seed makes the result reproducible, and therefore not private.

        Returns
        -------
        domain : Domain
            The domain. Its origin has the ledger of what it cost, which every model that uses it includes.

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
        budget = exact_epsilon(epsilon), exact_delta(delta)
        known = _checked_features(features) if features else {}
        open_domain = cls(open_features(X, known), target or open_target(y, task), target_name=target_name)
        batch = (X, y) if groups is None else (X, y, groups)
        plan, source = open_domain.learning_plan(*budget), RandomSource(random_state)
        return open_domain.closed(lambda: [batch], plan, source, of_persons=groups is not None)

    def learning_plan(self, epsilon: Epsilon, delta: Fraction) -> LearningPlan:
        """Plan the releases that learn what is open, which add up to the budget or are none."""
        if self.is_open:
            self.origin.check_learnable()
        plan = LearningPlan.make(self.features, self.target, epsilon, delta)
        n_columns = 0 if plan.levels is None else plan.levels.times
        return replace(plan, room=room_of_levels(self._facts, n_columns))

    def closed(
        self,
        batches: Batches,
        plan: LearningPlan,
        source: RandomSource,
        budgets: Sequence[Spendable] = (),
        *,
        of_persons: bool = False,
    ) -> Domain:
        """Return the domain with what is open learnt from batches of records and targets, which are read repeatedly.

        It is charged to the budgets in force, and to ``budgets`` besides. If it is learnt from persons, each batch says
        whose the records are.
        """
        features, target, ledger = learn(
            self.features, self.target, batches, plan, source, budgets, of_persons=of_persons
        )
        return replace(self, features=features, target=target, origin=self.origin.learnt(ledger))

    def reviewed(self, reviewer: str) -> Domain:
        """Return the same domain as declared by somebody who has checked that it is public knowledge.

        Parameters
        ----------
        reviewer : str
            Who has checked it. The ledger and the report of every model that uses the domain name them.

        Returns
        -------
        domain : Domain
            A copy with another origin.

        Examples
        --------
        >>> draft = Domain.infer([[17.0], [85.0]], ["no", "yes"], "classification")
        >>> print(draft.origin)
        read from the data
        >>> print(draft.reviewed("Jane Doe").origin)
        declared, reviewed by Jane Doe
        """
        return replace(self, origin=self.origin.reviewed(reviewer))

    def check_size(self) -> None:
        """Raise `ValueError` if the domain is so large that a model that uses it could not be written to a file."""
        check_size(self._facts)

    # -- files --------------------------------------------------------------------------------------------------------

    def to_toml(self) -> str:
        """Write the domain as TOML, which is easy to edit by hand.

        Returns
        -------
        text : str
            One table for each feature, in order, and one for the target, after the origin if that is worth a line.
            `from_toml` reads it back exactly.

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
        levels = ["no", "yes"]
        <BLANKLINE>
        """
        return write_toml(self._facts)

    @classmethod
    def from_toml(cls, source: Source) -> Domain:
        """Read what `to_toml` writes.

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
        return cls._from_facts(read_toml(source))

    def to_json(self) -> str:
        """Write the domain as JSON.

        Returns
        -------
        text : str
            The same content as `to_toml`. `from_json` reads it back exactly.
        """
        return write_json(self._facts)

    @classmethod
    def from_json(cls, source: Source) -> Domain:
        """Read what `to_json` writes.

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
        return cls._from_facts(read_json(source))

    def to_dict(self) -> dict[str, Any]:
        """Return the domain as a dict of plain values.

        Returns
        -------
        content : dict
            What `to_json` writes. `from_dict` reads it back exactly.
        """
        return write_dict(self._facts)

    @classmethod
    def from_dict(cls, content: Any) -> Domain:
        """Read what `to_dict` returns.

        Parameters
        ----------
        content : dict
            The content. A mistake in it raises a `ValueError` that names the key.

        Returns
        -------
        domain : Domain
            The domain.
        """
        return cls._from_facts(read_dict(content))

    @property
    def _facts(self) -> Facts:
        return self.features, self.target, self.target_name, self.origin

    @classmethod
    def _from_facts(cls, facts: Facts) -> Domain:
        features, target, target_name, origin = facts
        try:
            return cls(features, target, target_name=target_name, origin=origin)
        except ValueError as error:
            raise ValueError(f"target: {error}") from None


def _checked_features(features: Any) -> dict[str, Feature]:
    if not isinstance(features, Mapping):
        raise TypeError("features is not a mapping; give a dict of names to Numeric(...) or Categorical(...).")
    if not features:
        raise ValueError("features is empty; a domain has at least one feature.")
    for name, feature in features.items():
        if not isinstance(name, str):
            raise TypeError(f"The feature name {short(name)} is not a string; name the features with strings.")
        if not isinstance(feature, Feature):
            kinds = "Numeric(...), Integer(...), Date(...) or Categorical(...)"
            raise TypeError(f"Feature {name!r} is {short(feature)}; give {kinds}.")
    coded_features(features)  # checks their names
    return dict(features)


def _make_domain(features: dict[str, Feature], target: Target, target_name: str | None, origin: Origin) -> Domain:
    return Domain(features, target, target_name=target_name, origin=origin)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array
