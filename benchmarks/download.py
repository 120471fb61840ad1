"""Raw tables of the benchmarks, downloaded once from UCI, OpenML and the authors' pages, and cached as Parquet.

One function per data set turns the download into the table that ``benchmarks.data`` expects: the original rows and
columns with parsed types, without dropping or scaling anything.
"""

from __future__ import annotations

import gzip
import io
import json
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
from tqdm import tqdm

Fetch = Callable[[str], bytes]

UCI = "https://archive.ics.uci.edu/static/public"
OPENML = "https://www.openml.org/api/v1/json/data"
PUC_RIO = "http://groupware.les.inf.puc-rio.br/static/har/dataset-har-PUC-Rio-ugulino.zip"
BTS = "https://transtats.bts.gov/PREZIP/On_Time_Reporting_Carrier_On_Time_Performance_1987_present_2008_{month}.zip"

FLIGHT_SAMPLE = 800_000
FLIGHT_COLUMNS = {
    "Month": "month",
    "DayofMonth": "day",
    "DayOfWeek": "weekday",
    "DepTime": "dep_time",
    "ArrTime": "arr_time",
    "ArrDelay": "arr_delay",
    "AirTime": "air_time",
    "Distance": "distance",
}
ADULT_COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"),
    *("race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"),
]
ABALONE_COLUMNS = [
    *("Sex", "Length", "Diameter", "Height"),
    *("Whole_weight", "Shucked_weight", "Viscera_weight", "Shell_weight", "Rings"),
]
CREDIT_COLUMNS = [
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
    *(f"BILL_AMT{i}" for i in range(1, 7)),
    *(f"PAY_AMT{i}" for i in range(1, 7)),
    "default payment next month",
]


def fetch_with_progress(url: str) -> bytes:
    """Return the content of a URL, with a progress bar on standard error."""
    chunks = []
    with urllib.request.urlopen(url, timeout=60) as response:
        size = int(response.headers.get("Content-Length") or 0) or None
        with tqdm(total=size, unit="B", unit_scale=True, desc=url.rsplit("/", 1)[-1]) as bar:
            while chunk := response.read(1 << 18):
                chunks.append(chunk)
                bar.update(len(chunk))
    return b"".join(chunks)


def _member(archive: bytes, name: str) -> bytes:
    """Return the file in a zip archive whose path ends with ``name``."""
    with zipfile.ZipFile(io.BytesIO(archive)) as z:
        for path in z.namelist():
            if path.endswith(name):
                return z.read(path)
        raise ValueError(f"The archive holds no {name}; it holds {', '.join(z.namelist())}.")


def _csv(data: bytes, **options: object) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(data), **options)  # type: ignore[call-overload, no-any-return]


def _openml(fetch: Fetch, number: int) -> pd.DataFrame:
    description = json.loads(fetch(f"{OPENML}/{number}"))["data_set_description"]
    return pd.read_parquet(io.BytesIO(fetch(description["parquet_url"])))


def parkinsons(fetch: Fetch) -> pd.DataFrame:
    return _csv(_member(fetch(f"{UCI}/189/parkinsons+telemonitoring.zip"), "parkinsons_updrs.data"))


def appliances(fetch: Fetch) -> pd.DataFrame:
    archive = fetch(f"{UCI}/374/appliances+energy+prediction.zip")
    return _csv(_member(archive, "energydata_complete.csv"), parse_dates=["date"])


def metro(fetch: Fetch) -> pd.DataFrame:
    archive = fetch(f"{UCI}/492/metro+interstate+traffic+volume.zip")
    data = gzip.decompress(_member(archive, "Metro_Interstate_Traffic_Volume.csv.gz"))
    return _csv(data, parse_dates=["date_time"], keep_default_na=False)  # "None" is a category of holiday


def turbine(fetch: Fetch) -> pd.DataFrame:
    archive = fetch(f"{UCI}/551/gas+turbine+co+and+nox+emission+data+set.zip")
    return pd.concat([_csv(_member(archive, f"gt_{year}.csv")) for year in range(2011, 2016)], ignore_index=True)


def flight(fetch: Fetch) -> pd.DataFrame:
    """Return the paper's own Flight data: 800,000 complete rows of January to April 2008, sampled with a fixed seed."""
    months = []
    for month in range(1, 5):
        table = _csv(_member(fetch(BTS.format(month=month)), ".csv"), usecols=list(FLIGHT_COLUMNS))
        months.append(table[list(FLIGHT_COLUMNS)].dropna())
    table = pd.concat(months, ignore_index=True).rename(columns=FLIGHT_COLUMNS)
    return table.sample(min(FLIGHT_SAMPLE, len(table)), random_state=10, ignore_index=True)


def banknote(fetch: Fetch) -> pd.DataFrame:
    archive = fetch(f"{UCI}/267/banknote+authentication.zip")
    names = ["variance", "skewness", "curtosis", "entropy", "class"]
    return _csv(_member(archive, "data_banknote_authentication.txt"), header=None, names=names)


def credit(fetch: Fetch) -> pd.DataFrame:
    table = _openml(fetch, 42477).astype("int64").set_axis(CREDIT_COLUMNS, axis=1)
    table.insert(0, "ID", range(1, len(table) + 1))
    return table


def robot(fetch: Fetch) -> pd.DataFrame:
    archive = fetch(f"{UCI}/194/wall+following+robot+navigation+data.zip")
    names = [*(f"US{i}" for i in range(1, 25)), "class"]
    return _csv(_member(archive, "sensor_readings_24.data"), header=None, names=names)


def higgs(fetch: Fetch) -> pd.DataFrame:
    """Return OpenML's 98,050 rows without the incomplete one."""
    table = _openml(fetch, 23512).dropna(ignore_index=True)
    table = table.rename(columns={table.columns[0]: "label"})
    return table.astype({"label": "int8", **dict.fromkeys(table.columns[1:], "float32")})


def puc(fetch: Fetch) -> pd.DataFrame:
    data = _member(fetch(PUC_RIO), "dataset-har-PUC-Rio-ugulino.csv")
    table = _csv(data, sep=";", decimal=",", dtype={"z4": "string"})
    # In one cell of the original, a time stamp follows the value without a separator: -14420-11-2011 04:50:23.713
    table["z4"] = table["z4"].str.replace(r"\d\d-\d\d-\d{4} .*$", "", regex=True).astype("int64")
    return table


def adult(fetch: Fetch) -> pd.DataFrame:
    """Return the rows of adult.data, followed by those of adult.test."""
    archive = fetch(f"{UCI}/2/adult.zip")
    options = {"header": None, "names": ADULT_COLUMNS, "skipinitialspace": True, "keep_default_na": False}
    test = _csv(_member(archive, "adult.test"), skiprows=1, **options)  # its first line is a comment
    test["income"] = test["income"].str.rstrip(".")
    return pd.concat([_csv(_member(archive, "adult.data"), **options), test], ignore_index=True)


def abalone(fetch: Fetch) -> pd.DataFrame:
    return _csv(_member(fetch(f"{UCI}/1/abalone.zip"), "abalone.data"), header=None, names=ABALONE_COLUMNS)


@dataclass(frozen=True)
class Source:
    """Origin of a table.

    Attributes
    ----------
    file : str
        Name of the Parquet file in the cache.
    page : str
        Web page for readers.
    read : callable
        Function that returns the table, given a function that fetches a URL.
    """

    file: str
    page: str
    read: Callable[[Fetch], pd.DataFrame]


SOURCES = {
    "parkinsons": Source("parkinsons.parquet", "archive.ics.uci.edu/dataset/189", parkinsons),
    "appliances": Source("appliances_energy.parquet", "archive.ics.uci.edu/dataset/374", appliances),
    "metro": Source("metro_traffic.parquet", "archive.ics.uci.edu/dataset/492", metro),
    "turbine": Source("gas_turbine.parquet", "archive.ics.uci.edu/dataset/551", turbine),
    "flight": Source("flight_2008.parquet", "transtats.bts.gov", flight),
    "banknote": Source("banknote.parquet", "archive.ics.uci.edu/dataset/267", banknote),
    "credit": Source("credit_default.parquet", "openml.org/d/42477", credit),
    "robot": Source("robot_wall.parquet", "archive.ics.uci.edu/dataset/194", robot),
    "higgs": Source("higgs.parquet", "openml.org/d/23512", higgs),
    "puc": Source("har_puc.parquet", "groupware.les.inf.puc-rio.br/har", puc),
    "adult": Source("adult.parquet", "archive.ics.uci.edu/dataset/2", adult),
    "abalone": Source("abalone.parquet", "archive.ics.uci.edu/dataset/1", abalone),
}
