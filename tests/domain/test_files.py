import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diprime.domain import Categorical, Date, Domain, Integer, Numeric
from diprime.domain.dates import PARTS

YES_NO = Categorical(["no", "yes"])

ranges = (
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300))
    .map(sorted)
    .filter(lambda r: r[1] - r[0] > 1e-9 * max(abs(r[0]), abs(r[1])) and r[1] - r[0] > 1e-300)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numerics = (
    ranges.map(lambda r: Numeric(*r))
    | st.tuples(ranges, st.sampled_from(["linear", "log"])).map(lambda a: Numeric(*a[0], scale=a[1]))
    | st.sets(st.floats(-1e300, 1e300), min_size=1, max_size=9).map(lambda e: Numeric(edges=sorted(e)))
)
levels = st.lists(
    texts | st.integers() | st.floats(allow_nan=False) | st.booleans(), min_size=1, max_size=6, unique_by=lambda v: v
)
categoricals = levels.map(Categorical)
integers = st.lists(st.integers(1 - 2**63, 2**63 - 1), min_size=2, max_size=2, unique=True).map(
    lambda ends: Integer(*sorted(ends))
)
parts = st.lists(st.sampled_from(PARTS), unique=True)
dates = (
    st.lists(st.datetimes(), min_size=2, max_size=2, unique=True)
    .map(sorted)
    .flatmap(lambda ends: parts.map(lambda p: Date(*ends, parts=p)))
    | st.tuples(st.dates(), st.dates()).map(lambda ends: Date(*sorted(ends)))
    | parts.filter(bool).map(lambda p: Date(parts=p))
)
domains = st.builds(
    Domain,
    st.dictionaries(texts, numerics | categoricals | integers | dates, min_size=1, max_size=4),
    categoricals | ranges.map(lambda r: Numeric(*r)),
    target_name=st.none() | texts.map(lambda t: t + "the name of no feature"),
)


def assert_same(a, b):
    assert a == b
    assert (a.names, a.target_name) == (b.names, b.target_name)
    for f, g in zip([*a.features.values(), a.target], [*b.features.values(), b.target], strict=True):
        if isinstance(f, Categorical):
            assert list(map(type, f.levels)) == list(map(type, g.levels))


@given(domains)
@settings(deadline=None)
def test_domains_are_read_back_exactly(domain):
    assert_same(Domain.from_toml(domain.to_toml()), domain)
    assert_same(Domain.from_json(domain.to_json()), domain)
    assert_same(Domain.from_dict(domain.to_dict()), domain)


def test_toml_is_easy_to_read():
    text = Domain({"age": Numeric(17, 90), "a b": Numeric(0, 0.5, scale="log")}, Categorical(["no", 1, 1.5])).to_toml()
    assert text == (
        '[features.age]\nkind = "numeric"\nlow = 17\nhigh = 90\n\n'
        '[features."a b"]\nkind = "numeric"\nlow = 0\nhigh = 0.5\nscale = "log"\n\n'
        '[target]\nkind = "categorical"\nlevels = ["no", 1, 1.5]\n'
    )


def test_the_name_of_the_target_is_its_first_key():
    domain = Domain({"age": Numeric(17, 90)}, YES_NO, target_name="rich?")
    assert domain.to_toml().endswith('[target]\nname = "rich?"\nkind = "categorical"\nlevels = ["no", "yes"]\n')
    with pytest.raises(ValueError, match=r"target\.name is 3; it should be the name of a column"):
        Domain.from_toml(domain.to_toml().replace('"rich?"', "3"))
    with pytest.raises(ValueError, match="also a feature"):
        Domain.from_toml(domain.to_toml().replace("rich?", "age"))


def test_only_strings_numbers_and_booleans_can_be_written():
    domain = Domain({"a": Categorical(["x", (1, 2)])}, YES_NO)
    for write in (domain.to_toml, domain.to_json):
        with pytest.raises(TypeError, match=r"features\.a\.levels\[1\] = \(1, 2\) is a tuple"):
            write()
    domain = Domain({"\ud800": Numeric(0, 1)}, YES_NO)
    for write in (domain.to_toml, domain.to_json):
        with pytest.raises(TypeError, match="not valid Unicode"):
            write()


NUMERIC = {"kind": "numeric", "low": 0, "high": 1}
TARGET = {"kind": "categorical", "levels": ["no", "yes"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "the file is"),
        ({}, "the file lacks features"),
        ({"features": {"a": NUMERIC}}, "the file lacks target"),
        ({"features": {"a": NUMERIC}, "target": TARGET, "more": 1}, "the file has the unknown key 'more'"),
        ({"features": {}, "target": TARGET}, "features is not a table"),
        ({"features": [NUMERIC], "target": TARGET}, "features is not a table"),
        ({"features": {"a": 5}, "target": TARGET}, "features.a is 5; it should be a table"),
        ({"features": {"a": {}}, "target": TARGET}, "features.a lacks kind"),
        ({"features": {"a": {"kind": "x"}}, "target": TARGET}, "features.a.kind is 'x'"),
        ({"features": {"a": {"kind": []}}, "target": TARGET}, r"features.a.kind is \[\]"),
        ({"features": {"a": {**NUMERIC, "hgih": 1}}, "target": TARGET}, "features.a has the unknown key 'hgih'"),
        ({"features": {"a": {**NUMERIC, "levels": []}}, "target": TARGET}, "features.a has the unknown key 'levels'"),
        ({"features": {"a": {**NUMERIC, "low": 2}}, "target": TARGET}, "features.a: low = 2 is not below"),
        ({"features": {"a": {**NUMERIC, "low": True}}, "target": TARGET}, "features.a: low = True is not a number"),
        ({"features": {"a": {**NUMERIC, "low": {}}}, "target": TARGET}, "features.a: low = {} is not"),
        ({"features": {"a": {**NUMERIC, "edges": {}}}, "target": TARGET}, "features.a: edges = {} is not"),
        ({"features": {"a": {**NUMERIC, "edges": [[]]}}, "target": TARGET}, r"features.a: edges\[0\]"),
        ({"features": {"a\nb": 5}, "target": TARGET}, r"features.a\\nb is 5"),
        ({"features": {"a": NUMERIC}, "target": {**TARGET, "levels": "no"}}, "target.levels is 'no'"),
        ({"features": {"a": NUMERIC}, "target": {**TARGET, "levels": [[]]}}, r"target.levels\[0\] is \[\]"),
        ({"features": {"a": NUMERIC}, "target": {**TARGET, "levels": [1, 1]}}, r"target: levels\[1\] = 1 repeats"),
        ({"features": {"a": NUMERIC}, "target": {**NUMERIC, "scale": "log"}}, "target: target has edges or a log"),
    ],
)
def test_errors_in_files_name_the_key(content, words):
    with pytest.raises(ValueError, match=words) as caught:
        Domain.from_json(json.dumps(content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a": ' * 100_000, '{"features": {"a": 1, "a": 2}}', "1" * 5000, "null", "nan", "\x00"],
)
def test_invalid_text_raises_a_value_error(text):
    for read in (Domain.from_json, Domain.from_toml):
        with pytest.raises(ValueError, match=r"not valid|the file"):
            read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\na = 2", "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML"),
        ("[features.a]\nkind='categorical'\nlevels=[2020-01-01]\n[target]\nkind='numeric'", r"features.a.levels\[0\]"),
        ("[features.a]\nkind='numeric'\nlow=nan\nhigh=1\n[target]\nkind='numeric'", "features.a: low = nan"),
        ("[features.a.b]\nkind='numeric'\n[target]\nkind='numeric'", "features.a has the unknown key 'b'"),
    ],
)
def test_errors_in_toml_name_the_key(text, words):
    with pytest.raises(ValueError, match=words):
        Domain.from_toml(text)


def test_json_keys_may_not_repeat():
    text = json.dumps({"features": {"a": NUMERIC}, "target": TARGET})
    assert Domain.from_json(text).names == ("a",)
    with pytest.raises(ValueError, match="the key 'low' occurs twice"):
        Domain.from_json(text.replace('"high"', '"low": 3, "high"'))


def test_content_must_be_a_string_or_a_path():
    for read in (Domain.from_json, Domain.from_toml):
        with pytest.raises(TypeError, match="as a string, or its path"):
            read(b"")


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_paths_are_read(kind, tmp_path):
    domain, path = Domain({"é": Numeric(0, 1)}, YES_NO), tmp_path / f"domain.{kind}"
    read, text = getattr(Domain, f"from_{kind}"), getattr(domain, f"to_{kind}")()
    path.write_text(text, encoding="utf-8-sig")
    assert_same(read(path), domain)
    assert_same(read(str(path)), domain)
    path.rename(tmp_path / "domain.txt")
    assert_same(read(tmp_path / "domain.txt"), domain)
    with pytest.raises(FileNotFoundError, match=f"domain.{kind}"):
        read(str(path))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read(path)
    path.write_text("other.toml")  # the content of a file is never taken for the name of another one
    with pytest.raises(ValueError, match="not valid"):
        read(path)


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_no_domain_is_taken_for_a_path(kind):
    domain = Domain({"a.toml": Categorical(["b.json"])}, Categorical(["c.toml", "d.json"]), target_name="e.toml")
    text = getattr(domain, f"to_{kind}")()
    assert_same(getattr(Domain, f"from_{kind}")(text.strip()), domain)


def test_integers_and_dates_are_easy_to_read():
    features = {"hour": Integer(0, 23), "when": Date("2012-10-02", "2018-09-30 18:00", parts=["hour", "weekday"])}
    text = Domain(features, YES_NO).to_toml()
    assert text.startswith(
        '[features.hour]\nkind = "integer"\nlow = 0\nhigh = 23\n\n'
        '[features.when]\nkind = "date"\nlow = "2012-10-02"\nhigh = "2018-09-30 18:00:00"\n'
        'parts = ["weekday", "hour"]\n'
    )
    unquoted = text.replace('"2012-10-02"', "2012-10-02").replace('"2018-09-30 18:00:00"', "2018-09-30T18:00:00")
    assert Domain.from_toml(unquoted) == Domain(features, YES_NO)


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ('kind = "integer"\nlow = 0', "features.a lacks high"),
        ('kind = "integer"\nlow = 0\nhigh = 1\nscale = "log"', "unknown key 'scale'"),
        ('kind = "integer"\nlow = 0.5\nhigh = 1', "features.a: low = 0.5 is not a whole number"),
        ('kind = "date"\nlow = "x"\nhigh = "2020-01-01"', "features.a: low = 'x' is not a date"),
        ('kind = "date"\nlow = 2020-01-01', "features.a: only one of low and high"),
        ('kind = "date"\nparts = "hour"', "features.a: parts = 'hour' is not a list"),
        ('kind = "date"\nedges = [1]', "unknown key 'edges'"),
        ("kind = [1]", "use 'numeric', 'integer', 'date' or 'categorical'"),
    ],
)
def test_mistakes_in_integers_and_dates_name_the_key(feature, words):
    with pytest.raises(ValueError, match=words):
        Domain.from_toml(f'[features.a]\n{feature}\n[target]\nkind = "numeric"\nlow = 0\nhigh = 1\n')


def test_a_target_is_numeric_or_categorical():
    with pytest.raises(ValueError, match=r"target.kind is not 'numeric' or 'categorical'"):
        Domain.from_toml(
            '[features.a]\nkind = "integer"\nlow = 0\nhigh = 1\n[target]\nkind = "integer"\nlow = 0\nhigh = 1'
        )


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x9b", "\u202e", "\x7f", "\U000e0001"])
def test_characters_that_end_lines_or_control_terminals_are_escaped(odd):
    """Some editors and languages end a line at them, where TOML has text."""
    domain = Domain({f"a{odd}b": Categorical([f"c{odd}d"])}, Categorical(["x", f"{odd}"]))
    text = domain.to_toml()
    assert odd not in text
    assert Domain.from_toml(text) == domain


@pytest.mark.parametrize("half", ["\\ud800", "\ud800"])
def test_half_a_character_is_refused_when_it_is_read(half):
    """It could not be written again, which would be noticed after a fit has spent its budget."""
    text = Domain({"a": Categorical(["x", "HALF"])}, Numeric(0, 1)).to_json().replace("HALF", half)
    with pytest.raises(ValueError, match=r"not valid JSON: .*surrogates not allowed"):
        Domain.from_json(text)
    whole = Domain({"a": Categorical(["\U0001f600"])}, Numeric(0, 1))
    assert Domain.from_json(json.dumps(whole.to_dict(), ensure_ascii=True)) == whole
