"""Workers of a Dask cluster read the files: the model is that of this process, and errors are one sentence."""

import re
from dataclasses import replace
from datetime import date
from time import monotonic

import polars as pl
import pytest

from diprime import DiPriMeClassifier, DiPriMeRegressor, Numeric, load, sources
from diprime.domain import Domain
from diprime.model.files import to_bytes
from tests.cli.running import ok, python, refused

pytest.importorskip("distributed", reason="diprime[dask] is not installed")

from diprime.sources.dask import DaskFiles
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


def arguments(folder, client, data, *others):
    address = client.scheduler.address
    return ["fit", data, "-d", folder / "domain.toml", "-e", "1", "--dask", address, *others]


@pytest.mark.filterwarnings("ignore:This fit is not private. random_state:diprime.PrivacyWarning")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("groups", [None, "name"])
def test_model_is_that_of_this_process(client, folder, parts, kind, groups):
    """The range of a feature is unknown, and the records of a person are in several files."""
    declared = Domain.from_toml((folder / "domain.toml").read_text())
    domain = replace(declared, features={**declared.features, "age": Numeric()})
    files = sources.files(f"{parts}/*.{kind}")
    on_dask, here = (DiPriMeClassifier(epsilon=30, domain=domain, random_state=2) for _ in range(2))
    on_dask.fit(DaskFiles(client, files), groups=groups)
    here.fit(files, groups=groups)
    assert to_bytes(on_dask._to_content()) == to_bytes(here._to_content())


def test_fit_command_uses_the_cluster(client, folder, parts):
    output = parts / "model.diprime"
    assert "Written to" in ok(*arguments(folder, client, f"{parts}/*.parquet", "-o", output))
    assert load(output).privacy_.total == 1


def test_fit_command_connects_by_itself(client, folder, parts):
    """There is no client but the one that the command makes."""
    output = parts / "model.diprime"
    with python("-m", "diprime", *arguments(folder, client, f"{parts}/*.csv", "-o", output)) as process:
        assert "Written to" in process.stdout.read(), process.stderr.read()
    assert load(output).privacy_.total == 1


def test_scratch_is_refused(client, folder, parts):
    of_all = arguments(folder, client, parts / "people0.csv", "-o", parts / "m")
    refused(*of_all, "--scratch", parts, match=r"--dask .*--scratch")


def test_file_with_other_columns_in_the_middle(client, folder, parts):
    pl.DataFrame({"something": [1, 2]}).write_csv(parts / "people1.csv")
    refused(*arguments(folder, client, f"{parts}/*.csv", "-o", parts / "m"), match=r"people1\.csv lacks .*'age'")
    assert not (parts / "m").exists()


def test_damaged_file_in_the_middle(client, folder, parts):
    content = (parts / "people2.parquet").read_bytes()
    (parts / "people2.parquet").write_bytes(content[: len(content) // 2])
    refused(*arguments(folder, client, f"{parts}/*.parquet", "-o", parts / "m"), match=r"people2\.parquet .*Parquet: ")


def test_ids_of_different_types_in_files_are_refused(client, tmp_path):
    for i, one in enumerate([None, date(2020, 1, 1), "2020-01-01"]):
        pl.DataFrame({"x": [1, 2], "y": [1, 2], "who": [one] * 2}).write_parquet(tmp_path / f"{i}.parquet")
    model = DiPriMeRegressor(epsilon=1, domain=Domain({"x": Numeric(0, 9)}, Numeric(0, 9)))
    with pytest.raises(ValueError, match=r"1\.parquet: groups .*different types .*: dates and nulls"):
        model.fit(DaskFiles(client, sources.files(tmp_path / "*.parquet")), "y", groups="who")


@pytest.mark.parametrize(
    "address",
    ["tcp://127.0.0.1:1", *(pytest.param(name, marks=pytest.mark.audit) for name in ("there", "spoken://there:1"))],
)
def test_unreachable_scheduler_is_reported_in_one_sentence(folder, parts, address):
    """The command says so, and ends: clients that are not answered wait for a minute, and end with a traceback."""
    data = [parts / "people0.csv", "-d", folder / "domain.toml", "-e", "1", "-o", parts / "m"]
    begin = monotonic()
    with python("-m", "diprime", "fit", *data, "--dask", address) as process:
        error = process.stderr.read()
    assert monotonic() - begin < 45  # ten of them for a scheduler that is slow, and the rest for a machine that is
    assert process.returncode == 1
    assert re.fullmatch(rf"diprime: No Dask scheduler .*{re.escape(address)}\. .*\n", error), error
