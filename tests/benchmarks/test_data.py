"""The benchmarks' data: prepared by the protocol, downloaded once, and missed with a clear message."""

import gzip
import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest

from benchmarks import download
from benchmarks.data import MULTICLASS, NAMES, DatasetMissing, data_directory, load
from diprime import Categorical, Numeric

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
}


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, content in files.items():
            z.writestr(f"folder/{name}", content)
    return buffer.getvalue()


def parquet(table):
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def made_up_pages():
    """Return small pages in the shape of the real ones, by address."""
    rng = np.random.default_rng(0)
    uci, openml = download.UCI, download.OPENML
    voice = ",".join(f"v{i}" for i in range(16))
    numbers = ",".join("0.5" for _ in range(16))
    rooms = ",".join(f"T{i},RH_{i}" for i in range(1, 10))
    degrees = ",".join(['"20.5"'] * 18)
    flights = pd.DataFrame(
        {
            "Year": 2008,
            "DayOfWeek": [1, 2, 3],
            "Month": 1,
            "DayofMonth": [5, 6, 7],
            "DepTime": [517.0, 533.0, np.nan],
            "ArrTime": [830.0, 850.0, 900.0],
            "ArrDelay": [11.0, -20.0, 3.0],
            "AirTime": [227.0, 160.0, 99.0],
            "Distance": [1400.0, 1416.0, 90.0],
        }
    )
    credit = pd.DataFrame(
        rng.integers(1, 9, size=(6, 24)), columns=[*(f"x{i}" for i in range(1, 24)), "y"], dtype="float64"
    )
    credit["y"] = [0, 1] * 3
    higgs = pd.DataFrame(rng.random((4, 29)), columns=["class", *(f"f{i}" for i in range(28))])
    higgs["class"] = ["0", "1", "1", "0"]
    higgs.loc[3, "f5"] = np.nan
    sensors = ",".join(["0.438"] * 24)
    other_sensors = ",".join(["1.5"] * 24)
    har = "user;gender;age;how_tall_in_meters;weight;body_mass_index;" + ";".join(
        f"{axis}{i}" for i in range(1, 5) for axis in "xyz"
    )
    pages = {
        f"{uci}/189/parkinsons+telemonitoring.zip": zipped(
            **{
                "parkinsons_updrs.data": f"subject#,age,sex,test_time,motor_UPDRS,total_UPDRS,{voice}\n"
                f"1,72,0,5.6,28.2,20.0,{numbers}\n2,58,1,6.6,20.0,40.0,{numbers.replace('0.5', '0.7')}\n"
            }
        ),
        f"{uci}/374/appliances+energy+prediction.zip": zipped(
            **{
                "energydata_complete.csv": f'"date","Appliances","lights",{rooms},"rv1","rv2"\n'
                f'"2016-01-11 17:00:00","60","30",{degrees},"1","1"\n'
                f'"2016-05-27 18:00:00","160","0",{degrees.replace("20", "25")},"2","2"\n'
            }
        ),
        f"{uci}/492/metro+interstate+traffic+volume.zip": zipped(
            **{
                "Metro_Interstate_Traffic_Volume.csv.gz": gzip.compress(
                    b"holiday,temp,rain_1h,snow_1h,clouds_all,weather_main,weather_description,date_time,"
                    b"traffic_volume\n"
                    b"None,288.28,0.0,0.0,40,Clouds,scattered clouds,2012-10-02 09:00:00,5545\n"
                    b"Columbus Day,273.28,0.5,0.1,75,Rain,light rain,2012-10-08 00:00:00,455\n"
                )
            }
        ),
        f"{uci}/551/gas+turbine+co+and+nox+emission+data+set.zip": zipped(
            **{
                f"gt_{year}.csv": "AT,AP,AH,AFDP,GTEP,TIT,TAT,TEY,CDP,CO,NOX\n"
                f"{year - 2005},1018.7,{year},3.5,23.9,1086.2,549.8,{year - 1900},11.8,0.3,81.9\n"
                f"{year - 2004},1019.7,{year},3.6,24.9,1087.2,559.8,{year - 1900},12.8,0.4,82.9\n"
                for year in range(2011, 2016)
            }
        ),
        f"{uci}/267/banknote+authentication.zip": zipped(
            **{"data_banknote_authentication.txt": "3.6,8.6,-2.8,-0.4,0\n-4.5,8.1,-2.4,-1.4,1\n"}
        ),
        f"{uci}/194/wall+following+robot+navigation+data.zip": zipped(
            **{
                "sensor_readings_24.data": f"{sensors},Move-Forward\n{other_sensors},Sharp-Right-Turn\n"
                f"{sensors},Slight-Left-Turn\n"
            }
        ),
        f"{openml}/42477": json.dumps({"data_set_description": {"parquet_url": "credit.pq"}}).encode(),
        "credit.pq": parquet(credit),
        f"{openml}/23512": json.dumps({"data_set_description": {"parquet_url": "higgs.pq"}}).encode(),
        "higgs.pq": parquet(higgs),
        download.PUC_RIO: zipped(
            **{
                "dataset-har-PUC-Rio-ugulino.csv": f"{har};class\n"
                "debora;Woman;46;1,62;75;28,6;-3;92;-63;-23;18;-19;5;104;-92;-150;-103;-147;sitting\n"
                "katia;Woman;28;1,58;55;22,0;1;90;-60;-20;17;-18;4;103;-90;-149;-102;-14420-11-2011 04:50:23.713"
                ";standing\n"
                "katia;Woman;28;1,58;55;22,0;1;90;-60;-20;17;-18;4;103;-90;-149;-102;-146;walking\n"
            }
        ),
    }
    for month in range(1, 5):
        pages[download.BTS.format(month=month)] = zipped(
            **{f"On_Time_{month}.csv": flights.assign(Month=month).to_csv(index=False)}
        )
    return pages


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Return a directory without data, and forget where there may be some."""
    monkeypatch.delenv("DIPRIME_DATA", raising=False)
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


@pytest.mark.parametrize("name", [*NAMES, *MULTICLASS])
def test_downloads_parse_into_the_protocols_shape(name, empty, tmp_path):
    data = load(name, empty, cache=tmp_path / "cache", fetch=made_up_pages().__getitem__)
    assert list(data.X.columns) == list(data.domain.names)
    assert len(data.y) == len(data.X) >= 2
    assert not data.X.isna().any(axis=None)
    for c, feature in data.domain.features.items():
        assert isinstance(feature, Categorical) == (c in data.categorical)
    if data.task == "regression":
        assert isinstance(data.domain.target, Numeric)
        assert data.y.max() == 1
        assert data.y.min() == (0.5 if name == "parkinsons" else 0)
        assert data.epsilon == 10
    else:
        assert set(data.y) == set(data.domain.target.levels)
        assert data.epsilon == 2
    assert data.numbers().shape == data.X.shape


def test_details_of_the_preparation(empty, tmp_path):
    def get(name):
        return load(name, empty, cache=tmp_path / "cache", fetch=made_up_pages().__getitem__)

    assert get("metro").X["holiday"].tolist() == ["None", "Columbus Day"]
    assert get("metro").X[["weekday", "hour"]].to_numpy().tolist() == [[1, 9], [0, 0]]
    assert get("metro").numbers()[:, 0].tolist() == [1, 0]  # levels by their rank
    assert get("appliances").X[["Month", "Day"]].to_numpy().tolist() == [[1, 11], [5, 27]]
    assert get("turbine").X["AH"].tolist() == sorted([*range(2011, 2016), *range(2011, 2016)])
    assert len(get("flight").X) == 8  # four months, the incomplete rows dropped
    assert get("robot").y.tolist() == [0, 1, 1]
    assert get("robot4").y.tolist() == ["Move-Forward", "Sharp-Right-Turn", "Slight-Left-Turn"]
    assert get("puc").X["z4"].tolist() == [-147, -144]
    assert get("puc").X["how_tall_in_meters"].tolist() == [1.62, 1.58]
    assert len(get("puc5").X) == 3
    assert set(get("credit").unbinned) > set(get("credit").categorical)
    assert len(get("higgs").X) == 3
    assert "3 rows" in get("higgs").note


def test_a_download_is_kept(empty, tmp_path):
    calls = []

    def fetch(url):
        calls.append(url)
        return made_up_pages()[url]

    first = load("banknote", empty, cache=tmp_path / "cache", fetch=fetch)
    second = load("banknote", empty, cache=tmp_path / "cache", fetch=fetch)
    assert len(calls) == 1
    pd.testing.assert_frame_equal(first.X, second.X)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["banknote.parquet"]


def test_the_directory_comes_first_and_a_substitute_says_so(empty, tmp_path):
    def no_network(url):
        raise AssertionError(url)

    flights = pd.DataFrame({c: [1.0, 2.0, None] for c in download.FLIGHT_COLUMNS.values()})
    flights.to_parquet(empty / "flight_nyc2013.parquet")
    data = load("flight", empty, cache=tmp_path / "cache", fetch=no_network)
    assert len(data.X) == 2
    assert "New York" in data.note


def test_a_missing_set_says_what_to_do(empty, tmp_path):
    def no_network(url):
        raise OSError("no route to host")

    with pytest.raises(DatasetMissing, match=r"banknote is not in .*empty.*no route to host.*--data or \$DIPRIME_DATA"):
        load("banknote", empty, cache=tmp_path / "cache", fetch=no_network)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(DatasetMissing, match=r"The archive holds no data_banknote"):
        load("banknote", empty, cache=tmp_path / "cache", fetch=lambda url: zipped(other="text"))
    with pytest.raises(ValueError, match="no data set 'iris'; there are parkinsons"):
        load("iris")


def test_where_the_directory_is_looked_for(empty, monkeypatch):
    assert data_directory(empty) == empty
    monkeypatch.setenv("DIPRIME_DATA", str(empty))
    assert data_directory() == empty
    assert data_directory("elsewhere").name == "elsewhere"


def test_the_progress_bar_counts_what_arrives(tmp_path, capsys):
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
