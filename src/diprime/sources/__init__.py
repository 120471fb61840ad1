"""Sources: objects that have rows, and how the rows are read. This module contains tables and batches in this process.

* :mod:`~diprime.sources.protocol`: the interface of sources.
* :mod:`~diprime.sources.arrow`: objects that stream Arrow data, such as database queries.
* :mod:`~diprime.sources.data_files`: CSV and Parquet files.
* :mod:`~diprime.sources.dask`, :mod:`~diprime.sources.spark`: tables on clusters, and predictions on them. Both contain
  ``executor``, the partitions of a fit, and ``workers``, the functions that workers run.

`as_source` recognises the records passed to ``fit`` and other functions. A new source needs a module here and a line in
`LOCAL_SOURCES` or, if its rows stay elsewhere, a package and a line in `BACKENDS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from diprime.domain import Domain
from diprime.domain.records import PersonDigests, Records, check_lengths, new_key
from diprime.execution.partition import LocalPartitions, Partition, SampledRecords
from diprime.sources.arrow import ArrowStream, is_stream
from diprime.sources.protocol import LocalSource, Roles, RunOptions, Source, check_names

__all__ = ["batches", "files"]

LOCAL_SOURCES: tuple[tuple[Callable[[Any], bool], Callable[[Any], LocalSource]], ...] = ((is_stream, ArrowStream),)
"""Functions that recognise objects whose rows are read in this process, and the corresponding sources."""


class Backend(Protocol):
    """Package for a library whose tables are not read into this process."""

    @property
    def open_source(self) -> Callable[[Any, Any, Any], tuple[Source, Roles]]:
        """Function that returns a table as a source."""

    @property
    def predict_partitions(self) -> Callable[[Any, Any, str], Any]:
        """Function that returns the predictions of a model's method on a table."""


def _dask() -> Backend:
    import diprime.sources.dask as backend

    return backend


def _spark() -> Backend:
    import diprime.sources.spark as backend

    return backend


BACKENDS: dict[str, tuple[Callable[[], Backend], str]] = {
    "dask": (_dask, "Dask tables require dask.dataframe and distributed. Run pip install 'diprime[dask]'."),
    "pyspark": (_spark, "Spark tables require pyspark, pandas and pyarrow. Run pip install 'diprime[spark]'."),
}
"""Backends by the names of their libraries, with the error if a library is not installed."""


def batches(iterable: Iterable[tuple[Any, ...]] | Any, *, scratch: str | os.PathLike[str] | None = None) -> LocalSource:
    """Return batches as a source for ``fit``, ``predict``, `private_score` and other functions of records.

    The model is the same as for one table with all batches. Each batch is encoded when it arrives, in one byte per
    value, and then dropped. A fit needs memory for a few batches, and for about twice the encoded data. With
    ``scratch``, the encoded data are on a disk instead.

    Parameters
    ----------
    iterable : iterable of pairs (X, y) or triples (X, y, groups), or stream of Arrow
        The records, their targets and the person of each record. The records of a person may be in several batches.
        The iterable is read once, so it may be a generator. If the domain is incomplete, learning it takes further
        passes. The domain cannot be inferred. In a stream, such as a DuckDB relation, ``y`` and ``groups`` name the
        columns of targets and people. A stream that can be read only once, such as a cursor, is copied if the domain is
        incomplete.

        If there may be no batches and ``max_records_per_group`` is 1, pass an empty batch with groups; without it,
        diprime cannot know that people are to be protected.
    scratch : str or path, optional
        A directory for the encoded data and the copy of a stream, on a disk with enough space. The files there have no
        name, no other user can open them, and they disappear when the fit or the process ends. Without it, these data
        are in memory.

    Returns
    -------
    source : source
        The batches, for example as ``model.fit(batches(chunks))``.

    Examples
    --------
    >>> import numpy as np
    >>> from diprime import Categorical, DiPriMeClassifier, Domain, Numeric
    >>> from diprime.sources import batches
    >>> domain = Domain({"age": Numeric(0, 10)}, target=Categorical(["no", "yes"]))
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(1000, 1))
    >>> chunks = ((X[i : i + 100], np.where(X[i : i + 100, 0] > 6, "yes", "no")) for i in range(0, 1000, 100))
    >>> DiPriMeClassifier(1.0, domain).fit(batches(chunks)).privacy_.total
    Fraction(1, 1)
    """
    return (ArrowStream if is_stream(iterable) else Batches)(iterable, _folder(scratch))


def files(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, scratch: str | os.PathLike[str] | None = None
) -> Source:
    r"""Return CSV or Parquet files as a source for ``fit``, `private_score` and other functions of records.

    The files are read in batches, as if they were one table, and again for each pass over the records. The domain
    defines the values of text in CSV files. Columns that are neither features nor the target nor groups are not read.

    Parameters
    ----------
    paths : str, path or sequence of them
        The files, or patterns such as ``"data/*.parquet"``, whose files are sorted by name.
    scratch : str or path, optional
        A directory for the encoded data, as for `batches`.

    Returns
    -------
    source : source
        The files. The target is the column that ``y`` names. Without ``y``, it is the column that the domain names or,
        if the domain names none, the only column that is not a feature.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from diprime import Categorical, DiPriMeClassifier, Domain, Numeric
    >>> from diprime.sources import files
    >>> domain = Domain({"age": Numeric(17, 90)}, target=Categorical(["no", "yes"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for number in range(2):
    ...         _ = Path(folder, f"part{number}.csv").write_text("smokes,age\nyes,44\nno,71\n")
    ...     model = DiPriMeClassifier(1.0, domain).fit(files(f"{folder}/*.csv"), "smokes")
    >>> model.privacy_.total
    Fraction(1, 1)
    """
    try:
        from diprime.sources.data_files import Files, find_files
    except ImportError:
        raise ImportError("Reading files requires pyarrow. Run pip install 'diprime[cli]'.") from None
    return Files(find_files([paths] if isinstance(paths, (str, os.PathLike)) else paths), _folder(scratch))


def as_source(X: Any, y: Any = None, groups: Any = None) -> tuple[Source, Roles]:
    """Return the source of records, and the columns of targets and groups, without reading rows."""
    local = _local_source(X)
    if local is not None or isinstance(X, Source):
        return local or X, _names_only(X, y, groups)
    libraries = {_library_of(values) for values in (X, y, groups)}
    for library in BACKENDS:
        if library in libraries:
            return _backend(library).open_source(X, y, groups)
    return table_of_columns(X, y, groups)


def predictor_of(X: Any) -> Callable[[Any, Any, str], Any] | None:
    """Return a function that predicts the records of a source, or None for a table in this process."""
    local = _local_source(X)
    if local is not None:
        return lambda _, model, method: predict_batches(local, model, method)
    library = _library_of(X)
    return _backend(library).predict_partitions if library in BACKENDS else None


def _local_source(X: Any) -> LocalSource | None:
    """Return a source of rows that this process reads in batches, or None for a single table and for rows elsewhere."""
    if isinstance(X, LocalSource):
        return X
    if _library_of(X) in BACKENDS:  # Spark 4 tables can also stream Arrow into this process
        return None
    return next((source(X) for recognises, source in LOCAL_SOURCES if recognises(X)), None)


def _folder(scratch: str | os.PathLike[str] | None) -> Path | None:
    return None if scratch is None else Path(scratch)


def _library_of(values: Any) -> str:
    """Return the name of the library that defines the type of a value."""
    return type(values).__module__.partition(".")[0]


def _backend(library: str) -> Backend:
    load, missing = BACKENDS[library]
    try:
        return load()
    except ImportError:
        raise ImportError(missing) from None


def _names_only(X: Any, y: Any, groups: Any) -> Roles:
    """Return the roles of named columns, and refuse columns themselves, which do not belong to a source."""
    for name, value in (("y", y), ("groups", groups)):
        if not (value is None or isinstance(value, str)):
            raise TypeError(
                f"X is a {type(X).__name__}, so {name} must be the name of its column in X, got a "
                f"{type(value).__name__}."
            )
    roles = Roles(y, groups)
    if isinstance(X, Batches) and roles != Roles():
        raise TypeError("X contains batches of pairs (X, y) or triples (X, y, groups). Do not pass y and groups.")
    return roles


N_DIMENSIONS = 2  # of a table
BATCH_SIZES = (2, 3)
"""A batch has records and targets, and possibly groups."""
ONCE = (
    "The domain is incomplete, and learning it requires several passes over the batches. Pass a list "
    "or another re-iterable object, or call Domain.learn first."
)


class Table(LocalSource):
    """Table whose features are encoded when a fit needs them, and not stored."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def columns(self, roles: Roles) -> Any:
        """Return the table of the features itself."""
        return self._records.X

    def whole(self) -> Records:
        """Return all records."""
        return self._records

    def records(self, domain: Domain, roles: Roles) -> Iterable[Records]:
        """Return all records in one batch."""
        return [self._records]

    @contextmanager
    def encode(self, domain: Domain, roles: Roles, options: RunOptions) -> Iterator[LocalPartitions]:
        """Encode targets and groups. The features stay as they are."""
        X, y, groups = self._records
        rows = domain.reader(X)
        target = domain.encode_target(y, n_threads=options.n_threads, mark_outside=options.mark_outside)
        persons = None if groups is None else PersonDigests(new_key(), domain.missing_texts).encode(groups)
        check_lengths(rows.n_rows, target, persons)
        yield LocalPartitions([Partition(rows, SampledRecords(target, persons=persons))])


def table_of_columns(X: Any, y: Any, groups: Any) -> tuple[Table, Roles]:
    """Return a table whose targets and groups are given as columns, or by name in a data frame."""
    named = Roles(*(name if isinstance(name, str) else None for name in (y, groups)))
    frame = nw.from_native(X, eager_only=True, pass_through=True) if named != Roles() else None
    if isinstance(frame, nw.DataFrame):
        check_names(frame.columns, named)
        y = y if named.target is None else frame.get_column(named.target).to_native()
        groups = groups if named.groups is None else frame.get_column(named.groups).to_native()
        X = frame.drop(*(name for name in named if name is not None)).to_native()
    return Table(Records(X, y, groups)), Roles("y", None if groups is None else "groups")


class Batches(LocalSource):
    """Batches of records, (X, y) or (X, y, groups), which can be read as often as their iterable."""

    def __init__(self, batches: Iterable[tuple[Any, ...]], scratch: Path | None = None) -> None:
        self.scratch = scratch
        self._batches = batches
        self._columns: Any = None
        self._first: list[Records] = []  # the first batch of a generator, if it has been read

    @property
    def _is_read_once(self) -> bool:
        return iter(self._batches) is self._batches

    def columns(self, roles: Roles) -> Any:
        """Return the first batch without its rows, if it has been read."""
        return self._columns

    def has_groups(self, roles: Roles, *, may_read: bool) -> bool | None:
        """Return whether the first batch has groups, or None if there is none or it may not be read."""
        if not may_read:
            return None
        first = list(islice(self.records(), 1))
        if self._is_read_once:
            self._first = first
        return first[0].groups is not None if first else None

    def repeatable(self) -> Batches:
        """Return the batches; raise `ValueError` if they can be read only once, as those of a generator."""
        if self._is_read_once:
            raise ValueError(ONCE)
        return self

    def records(self, domain: Domain | None = None, roles: Roles = Roles()) -> Iterator[Records]:  # noqa: B008 -- immutable
        """Yield the records of each batch."""
        first, self._first = self._first, []
        self._columns = None
        for records in chain(first, map(self._checked, self._batches)):
            if self._columns is None:
                self._columns = _without_rows(records.X)
            yield records

    def _checked(self, batch: Any) -> Records:
        if not isinstance(batch, (tuple, list)) or len(batch) not in BATCH_SIZES:
            raise TypeError(
                "batches must yield pairs (X, y) or triples (X, y, groups), but this "
                f"{type(self._batches).__name__} yields a {type(batch).__name__}. For a single table, pass [(X, y)]."
            )
        return Records(*batch)


def _without_rows(X: Any) -> Any:
    """Return a table with the same columns and without rows, or None if it is neither a data frame nor an array."""
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.head(0).to_native()
    return X[:0] if isinstance(X, np.ndarray) and X.ndim == N_DIMENSIONS else None


def predict_batches(X: LocalSource, model: Any, method: str) -> Any:
    """Return the predictions of a method on all batches as one array."""
    check_is_fitted(model)
    predicted = [getattr(model, method)(rows) for rows in X.features(model.domain_)]
    nothing = X.columns(Roles())
    if not predicted and nothing is None:
        raise ValueError("X has no batches. Pass at least one, with or without rows.")
    return np.concatenate(predicted or [getattr(model, method)(nothing)])
