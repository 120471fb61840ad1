"""The benchmarks' data: prepared by the protocol, downloaded once, and missed with a clear message."""

import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from benchmarks import download
from benchmarks.data import DatasetMissing, data_directory, load

# Rows, features, categorical ones and the trivial predictor's error, from the paper's protocol.
PROTOCOL = {
    "parkinsons": (5_875, 19, 1, 0.03785),
    "appliances": (19_735, 27, 1, 0.009181),
    "metro": (48_204, 8, 3, 0.07448),
    "turbine": (36_733, 10, 0, 0.03862),
    "banknote": (1_372, 4, 0, 0.4446),
    "credit": (30_000, 23, 3, 0.2212),
    "robot": (5_456, 24, 0, 0.4041),
    "puc": (98_001, 16, 4, 0.4834),
    # Not in the paper.
    "adult": (30_162, 13, 8, 0.2489),
    "abalone": (4_177, 8, 1, 0.01326),
}


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, content in files.items():
            z.writestr(f"folder/{name}", content)
    return buffer.getvalue()


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Return a directory without data, and forget where there may be some."""
    monkeypatch.delenv("DIPRIME_DATA", raising=False)
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def test_a_download_is_kept(empty, tmp_path):
    calls = []

    def fetch(url):
        calls.append(url)
        return zipped(**{"data_banknote_authentication.txt": "3.6,8.6,-2.8,-0.4,0\n-4.5,8.1,-2.4,-1.4,1\n"})

    first = load("banknote", empty, cache=tmp_path / "cache", fetch=fetch)
    second = load("banknote", empty, cache=tmp_path / "cache", fetch=fetch)
    assert calls == [f"{download.UCI}/267/banknote+authentication.zip"]
    assert (first.X.shape, first.y.tolist()) == ((2, 4), [0, 1])
    pd.testing.assert_frame_equal(first.X, second.X)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["banknote.parquet"]


def test_adult_has_the_complete_training_rows(empty, tmp_path, monkeypatch):
    texts = "{0}, Private, 7, HS-grad, {0}, Divorced, Sales, Wife, White, Male, {0}, {0}, {0}, {1}\n"
    training = texts.format(1, "Cuba, >50K") + texts.format(2, "?, <=50K") + texts.format(3, "Peru, <=50K")
    files = {"adult.data": training, "adult.test": "|1x3 Cross validator\n" + texts.format(4, "Iran, >50K.")}
    monkeypatch.setattr("benchmarks.data.ADULT_TRAINING_ROWS", 3)
    data = load("adult", empty, cache=tmp_path / "cache", fetch=lambda url: zipped(**files))
    assert data.X["native_country"].tolist() == ["Cuba", "Peru"]
    assert data.y.tolist() == [1, 0]
    assert "fnlwgt" not in data.X
    table = pd.read_parquet(tmp_path / "cache" / "adult.parquet")
    assert (table.shape, table["income"].tolist()[-1]) == ((4, 15), ">50K")


def test_data_directory_takes_precedence(empty, tmp_path):
    def no_network(url):
        raise AssertionError(url)

    flights = pd.DataFrame({c: [1.0, 2.0, None] for c in download.FLIGHT_COLUMNS.values()})
    flights.to_parquet(empty / "flight_nyc2013.parquet")
    data = load("flight", empty, cache=tmp_path / "cache", fetch=no_network)
    assert len(data.X) == 2
    assert "New York" in data.note


def test_missing_data_set_error_names_the_remedy(empty, tmp_path):
    def no_network(url):
        raise OSError("no route to host")

    with pytest.raises(DatasetMissing, match=r"banknote is not in .*empty.*no route to host.*--data or \$DIPRIME_DATA"):
        load("banknote", empty, cache=tmp_path / "cache", fetch=no_network)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(DatasetMissing, match=r"The archive holds no data_banknote"):
        load("banknote", empty, cache=tmp_path / "cache", fetch=lambda url: zipped(other="text"))
    with pytest.raises(ValueError, match="no data set 'iris'; there are parkinsons"):
        load("iris")


def test_progress_bar_counts_received_bytes(tmp_path, capsys):
    page = tmp_path / "page.bin"
    page.write_bytes(bytes(1000))
    assert download.fetch_with_progress(page.as_uri()) == bytes(1000)
    assert "page.bin: 100%" in capsys.readouterr().err


@pytest.mark.parametrize("name", PROTOCOL)
def test_real_tables_agree_with_the_protocol(name):
    directory = data_directory()
    if directory is None or not (directory / download.SOURCES[name].file).is_file():
        pytest.skip("the real data are not here: name their directory with $DIPRIME_DATA")
    data = load(name)
    if data.task == "regression":
        trivial = data.y.var()
    else:
        trivial = 1 - max(np.unique(data.y, return_counts=True)[1]) / len(data.y)
    n_rows, n_features, n_categorical, expected = PROTOCOL[name]
    assert (*data.X.shape, len(data.categorical)) == (n_rows, n_features, n_categorical)
    assert trivial == pytest.approx(expected, rel=5e-4)
