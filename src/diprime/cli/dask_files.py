"""Files that the workers of a Dask cluster read, for ``diprime fit --dask``; it needs the extra ``diprime[dask]``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from diprime.cli.data_files import DataFile, InputError, NoRowsError
from diprime.cli.record_files import RecordBatches
from diprime.domain import Domain
from diprime.engines.batches import encode_batches
from diprime.engines.partition import Partition, Partitions
from diprime.engines.remote import MistakeError, Sealed, guarded

DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Let the workers of a Dask cluster read the files and fit; give the scheduler's address, as tcp://host:8786.",
    ),
]

_CONNECT_SECONDS = 10


class DaskFiles:
    """Files as partitions on a Dask cluster: a worker reads and encodes a file, and keeps its codes.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    paths : sequence of Path
        CSV or Parquet files, which all workers find at the same place.
    target : str
        The column of the target.
    columns : sequence of str
        The columns of the features.

    Attributes
    ----------
    no_rows : DataFrame
        The table of the first file without its rows.
    """

    def __init__(self, client: Any, paths: Sequence[Path], target: str, columns: Sequence[str]) -> None:
        self._client = client
        self._paths = [path.absolute() for path in paths]
        self._target = target
        first = DataFile(paths[0])
        first.check_columns(columns)
        self.no_rows = first.no_rows().select(columns)

    @contextmanager
    def partitions(self, domain: Domain, *, shown: bool) -> Iterator[Partitions]:
        """Let workers read and encode the files."""
        from diprime.engines.dask_executor import encode_on_workers

        n = len(self._paths)
        arguments = [Sealed(path) for path in self._paths], [Sealed(domain)] * n, [Sealed(self._target)] * n
        with closing(encode_on_workers(self._client, read_file, *arguments, shown=shown)) as encoded:
            if not any(encoded.placed.sizes):
                raise InputError(f"{self._paths[0]} has no rows.")
            yield encoded


@guarded
def read_file(path: Path, domain: Domain, target: str) -> Partition:
    """Read and encode a file on a worker; one without rows is an empty partition."""
    try:
        batches = RecordBatches(DataFile(path), domain, target, lambda share: None)
        return encode_batches(_of_any_number(batches), domain, 1).parts[0]
    except InputError as error:
        raise MistakeError(str(error)) from None
    except OSError:
        raise MistakeError(
            f"{path} cannot be read by a worker of the Dask cluster; all workers need the files at the same place."
        ) from None


def _of_any_number(batches: RecordBatches) -> Iterator[tuple[Any, ...]]:
    try:
        yield from batches
    except NoRowsError:
        return


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Yield a client of the cluster whose scheduler is at an address; errors of the cluster are those of input."""
    try:
        from distributed import Client, Security
    except ImportError:
        raise InputError("--dask needs dask and distributed; pip install 'diprime[dask]'.") from None
    security = Security()  # as Dask is configured
    try:
        asyncio.run(_knock(address, security))
        client = Client(address, security=security, set_as_default=False)
    except Exception:  # noqa: BLE001 -- each way of connecting has errors of its own
        raise InputError(
            f"No Dask scheduler answers at {address}; give its address, such as tcp://host:8786."
        ) from None
    with client:
        try:
            yield client
        except RuntimeError as error:
            raise InputError(str(error)) from None


async def _knock(address: str, security: Any) -> None:
    """Raise an error if nobody answers at an address: a client that was not answered takes a minute to end."""
    from distributed.comm import connect

    of_security = security.get_connection_args("client")
    comm = await connect(address, timeout=_CONNECT_SECONDS, **of_security)
    await comm.close()


def check_options(persons: Sequence[str], scratch: Path | None) -> None:
    """Raise an error if options do not go with a cluster."""
    if persons:
        raise InputError("--dask cannot have --person, because the records of each person are chosen in one process.")
    if scratch is not None:
        raise InputError("--dask cannot have --scratch: the codes of the records are in the memory of the workers.")
