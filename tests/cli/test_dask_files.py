"""Workers of a Dask cluster read the files: the model is that of this process, and errors are one sentence."""

from time import monotonic

import polars as pl
import pytest

from diprime import DiPriMeClassifier, load
from diprime.domain import Domain
from diprime.model.files import to_bytes
from diprime.reading import read_files
from tests.cli.running import ok, python, refused

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.cli.dask_files import DaskFiles
from tests.dask_clusters import cluster

pytestmark = pytest.mark.filterwarnings(
    # A cluster that is closed leaves sockets to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(scope="module")
def client():
    with cluster(2, protocol="tcp") as client:
        yield client


@pytest.fixture
def parts(folder, tmp_path):
    """Return a folder with the people in three files, in CSV and in Parquet; one of the files has no rows."""
    people = pl.read_parquet(folder / "people.parquet")
    for number, part in enumerate([people[:1000], people[:0], people[1000:]]):
        part.write_parquet(tmp_path / f"people{number}.parquet")
        part.write_csv(tmp_path / f"people{number}.csv")
    return tmp_path


def arguments(folder, client, data, *others):
    address = client.scheduler.address
    return ["fit", data, "-d", folder / "domain.toml", "-e", "1", "--dask", address, *others]


@pytest.mark.filterwarnings("ignore:This fit is not private. random_state:diprime.PrivacyWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_model_is_that_of_this_process(client, folder, parts, kind):
    domain = Domain.from_toml((folder / "domain.toml").read_text())
    paths = sorted(parts.glob(f"*.{kind}"))
    on_dask, here = (DiPriMeClassifier(epsilon=3, domain=domain, random_state=2) for _ in range(2))
    on_dask._fit_distributed(DaskFiles(client, paths, domain.target_name, domain.columns))
    here.fit_batches(read_files(paths, domain))
    assert to_bytes(on_dask._to_content()) == to_bytes(here._to_content())


def test_the_command(client, folder, parts):
    output = parts / "model.diprime"
    assert "Written to" in ok(*arguments(folder, client, f"{parts}/*.parquet", "-o", output))
    assert load(output).privacy_.total == 1


def test_the_command_in_a_shell(client, folder, parts):
    """There is no client but the one that the command makes."""
    output = parts / "model.diprime"
    with python("-m", "diprime", *arguments(folder, client, f"{parts}/*.csv", "-o", output)) as process:
        assert "Written to" in process.stdout.read(), process.stderr.read()
    assert load(output).privacy_.total == 1


def test_persons_and_scratch_are_refused(client, folder, parts):
    of_all = arguments(folder, client, parts / "people0.csv", "-o", parts / "m")
    assert "--dask cannot have --scratch" in refused(*of_all, "--scratch", parts)
    column = pl.read_csv(parts / "people0.csv").with_columns(pl.lit("Jane").alias("who"))
    column.write_csv(parts / "people0.csv")
    assert "--dask cannot have --person" in refused(*of_all, "--person", "who")


def test_a_file_with_other_columns_in_the_middle(client, folder, parts):
    pl.DataFrame({"something": [1, 2]}).write_csv(parts / "people1.csv")
    error = refused(*arguments(folder, client, f"{parts}/*.csv", "-o", parts / "m"))
    assert "people1.csv lacks the columns" in error
    assert not (parts / "m").exists()


def test_a_damaged_file_in_the_middle(client, folder, parts):
    content = (parts / "people2.parquet").read_bytes()
    (parts / "people2.parquet").write_bytes(content[: len(content) // 2])
    error = refused(*arguments(folder, client, f"{parts}/*.parquet", "-o", parts / "m"))
    assert "people2.parquet cannot be read as Parquet" in error


def test_files_without_rows(client, folder, parts):
    assert "has no rows" in refused(*arguments(folder, client, parts / "people1.csv", "-o", parts / "m"))


@pytest.mark.parametrize("address", ["there", "tcp://127.0.0.1:1", "spoken://there:1"])
def test_no_scheduler(folder, parts, address):
    """The command says so, and ends: clients that are not answered wait for a minute, and end with a traceback."""
    data = [parts / "people0.csv", "-d", folder / "domain.toml", "-e", "1", "-o", parts / "m"]
    begin = monotonic()
    with python("-m", "diprime", "fit", *data, "--dask", address) as process:
        error = process.stderr.read()
    assert monotonic() - begin < 45  # ten of them for a scheduler that is slow, and the rest for a machine that is
    sentence = f"diprime: No Dask scheduler answers at {address}; give its address, such as tcp://host:8786.\n"
    assert (process.returncode, error) == (1, sentence)
