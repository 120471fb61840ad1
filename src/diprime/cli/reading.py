"""Records in files, as batches for Python; importing this module imports no optional package."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Sequence
from typing import Any

from diprime.domain import Domain


def read_files(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    domain: Domain,
    *,
    target: str | None = None,
    groups: str | None = None,
) -> Iterable[tuple[Any, ...]]:
    r"""Return the records of CSV or Parquet files in batches, for ``fit_batches`` and all else that takes batches.

    Parameters
    ----------
    files : str, path or sequence of them
        The files, or patterns such as ``"data/*.parquet"``, whose files are sorted by name.
    domain : Domain
        The domain, by which the text of CSV files is read. Other columns are not read.
    target : str, optional
        The column of the target; by default, the one that the domain names, or else the only one that is no feature.
    groups : str, optional
        The column that says whose each record is.

    Returns
    -------
    batches : iterable of pairs (X, y), or of triples (X, y, groups)
        The batches. Each iteration reads the files again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from diprime import Categorical, Domain, Numeric
    >>> domain = Domain({"age": Numeric(17, 90)}, target=Categorical(["no", "yes"]), target_name="smokes")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for number in range(2):
    ...         _ = Path(folder, f"part{number}.csv").write_text("smokes,age\nyes,44\nno,71\n")
    ...     batches = read_files(f"{folder}/*.csv", domain)
    ...     sum(len(y) for X, y in batches)
    4
    """
    if importlib.util.find_spec("polars") is None:
        raise ImportError("Reading files needs polars; run pip install 'diprime[cli]'.")
    from diprime.cli.data_files import DataFile, person_columns, target_column
    from diprime.cli.record_files import RecordBatches, find_files

    paths = find_files([files] if isinstance(files, (str, os.PathLike)) else files)
    first = DataFile(paths[0])
    persons = person_columns(first, domain, groups)
    target = target_column(first, domain, persons, target)
    return RecordBatches(first, domain, target, lambda share: None, persons, others=paths[1:])
