"""Cursors of ADBC on a real PostgreSQL as a source."""

import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from diprime import Budget, Categorical, Date, DiPriMeClassifier, Domain, Integer, Numeric, private_score, sources
from diprime.sources.arrow import ArrowStream
from tests.postgresql import find_programs, server

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="adbc-driver-postgresql is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning"),  # seeds make results comparable
    pytest.mark.skipif(find_programs() is None, reason="there is no server of PostgreSQL"),
]

N = 3000
DOMAIN = Domain(
    {
        "age": Numeric(0, 100),
        "visits": Integer(0, 9),
        "smokes": Categorical([False, True]),
        "city": Categorical(["Łódź", "Ulm"]),
        "seen": Date("2020-01-01", "2021-01-01", parts=["weekday", "hour"]),
    },
    Categorical(["no", "yes"]),
)
QUERY = "SELECT id, city, age, visits, smokes, seen, target, person, price FROM records ORDER BY id"


def records():
    rng = np.random.default_rng(3)
    age, when = rng.normal(50, 25, N), pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 5e8, N), unit="s")
    columns = {
        "age": age, "visits": rng.integers(-1, 12, N), "smokes": rng.random(N) < 0.5, "seen": when,
        "city": rng.choice(["Łódź", "Ulm", "Bonn", "NA", "?"], N), "target": np.where(age > 60, "yes", "no"),
        "person": rng.integers(0, 800, N),
    }  # fmt: skip
    schema = pa.schema(
        {"age": pa.float64(), "visits": pa.int64(), "smokes": pa.bool_(), "seen": pa.timestamp("us"),
         "city": pa.string(), "target": pa.string(), "person": pa.int64()}
    )  # fmt: skip
    frame = pd.DataFrame(columns).convert_dtypes().mask(rng.random((N, 7)) < 0.05)
    return pa.Table.from_pandas(frame, schema, preserve_index=False)


@pytest.fixture(scope="module")
def connection():
    with server() as address, dbapi.connect(address) as connected:
        with connected.cursor() as cursor:
            cursor.adbc_ingest("stored", records().append_column("id", pa.array(range(N))))
            cursor.execute("CREATE TABLE records AS SELECT *, age::numeric AS price FROM stored")
        connected.commit()
        yield connected


@pytest.fixture
def cursor(connection):
    with connection.cursor() as opened:
        yield opened
    connection.rollback()


def model(**options):
    return DiPriMeClassifier(3.0, DOMAIN, random_state=1, **options)


def test_fit_to_a_query_equals_a_fit_to_its_table(cursor):
    table = records()
    features = table.select(list(DOMAIN.features))
    cursor.execute(QUERY)
    found = model().fit(cursor, "target")
    assert found.forest_.digest == model().fit(features, table["target"]).forest_.digest
    assert found.feature_names_in_.tolist() == list(DOMAIN.features)
    cursor.execute(QUERY)
    of_people = model(max_records_per_group=2).fit(cursor, "target", groups="person")
    expected = model(max_records_per_group=2).fit(features, table["target"], groups=table["person"])
    assert of_people.forest_.digest == expected.forest_.digest
    cursor.execute(QUERY)
    assert (found.predict(cursor) == found.predict(features)).all()
    cursor.execute(QUERY)
    score = private_score(found, cursor, "target", 1.0, random_state=2)
    assert score == private_score(found, features, table["target"], 1.0, random_state=2)
    cursor.execute(QUERY)
    assert str(DOMAIN.check(cursor, "target")) == str(DOMAIN.check(features, table["target"]))


@pytest.mark.parametrize("in_scratch", [False, True], ids=["memory", "scratch"])
def test_domain_is_learnt_from_a_query(cursor, in_scratch, tmp_path):
    features = {**DOMAIN.features, "age": Numeric(), "seen": Date(), "city": Categorical()}
    options = {"features": features, "target": DOMAIN.target, "delta": 0.01, "random_state": 1}
    used = records().select([*features, "target", "person"])
    for groups in (None, "person"):
        cursor.execute(f"SELECT {', '.join(features)}, target{', person' if groups else ''} FROM records ORDER BY id")
        once = sources.batches(cursor, scratch=tmp_path if in_scratch else None)
        learnt = Domain.learn(once, "target", 50.0, groups=groups, **options)
        assert learnt == Domain.learn(used if groups else used.drop("person"), "target", 50.0, groups=groups, **options)


def test_query_is_read_in_batches(cursor):
    cursor.adbc_statement.set_options(**{"adbc.postgresql.batch_size_hint_bytes": "20000"})
    cursor.execute(QUERY)
    sizes = [len(X) for X in ArrowStream(cursor).features(DOMAIN)]
    assert sum(sizes) == N
    assert max(sizes) < N / 3


def test_used_cursor_is_refused(cursor):
    cursor.execute(QUERY)
    fitted = DiPriMeClassifier(3.0, DOMAIN).fit(cursor, "target")
    with (
        Budget(4) as budget,
        pytest.raises(ValueError, match=r"X .*already .*only once"),
    ):
        fitted.fit(cursor, "target")
    assert budget.entries == ()
    cursor.execute(QUERY)
    assert len(fitted.predict(cursor)) == N


def test_decimals_of_any_precision_are_refused(cursor):
    domain = Domain({"price": Numeric(0, 100)}, DOMAIN.target)
    cursor.execute(QUERY)
    with pytest.raises(TypeError, match=r"'price' .*has dtype (Unknown|String), .*neither"):
        DiPriMeClassifier(1.0, domain).fit(cursor, "target")
    cursor.execute("SELECT price::float8, target FROM records")
    assert DiPriMeClassifier(1.0, domain).fit(cursor, "target").privacy_.total == 1


def test_errors_of_the_server_do_not_quote_values(cursor):
    cursor.execute("SELECT age, CASE WHEN id < 2900 THEN '1' ELSE city END::int AS visits, target FROM records")
    domain = Domain({"age": Numeric(0, 100), "visits": Integer(0, 9)}, DOMAIN.target)
    with Budget(1) as budget, pytest.raises(ValueError, match=r"X is a Cursor .*cannot be .*\(\w+\)") as found:
        DiPriMeClassifier(1.0, domain).fit(cursor, "target")
    assert budget.entries == ()
    text = "".join(traceback.format_exception(found.value))
    assert not any(city in text for city in ("Łódź", "Ulm", "Bonn"))
