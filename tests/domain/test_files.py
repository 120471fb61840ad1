"""Where a domain comes from follows it through copies and files, and changes by one deliberate act only.

Domains that are too large for model files are refused before anything is paid for; all others can be saved.
"""

import copy
import itertools
import json
import math
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import diprime
from diprime import (
    Budget,
    Categorical,
    Charge,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Ledger,
    Numeric,
    sources,
)
from diprime.cli.options import read_domain
from diprime.domain import Date, Integer, Origin, files
from diprime.domain.features import PARTS
from diprime.domain.files import FileQuota, categories_within_quota
from diprime.model import files as model_files
from diprime.privacy.charges import Bound, BoundKind, Mechanism, ReleaseKind, VoidReason
from diprime.privacy.measures import ApproximateDP

FACTS = {"age": Numeric(0, 100), "sex": Categorical(["F", "M"])}, Categorical(["no", "yes"])
COST = ApproximateDP(Fraction(1, 3), 1e-6)
CATEGORIES = Charge(ReleaseKind.DOMAIN_CATEGORIES, Mechanism.THRESHOLDED_LAPLACE, Bound(BoundKind.L1, 1), COST)
LEDGER = Ledger(COST.epsilon, charges=[CATEGORIES], voided_by=[VoidReason.SEED_OF_DOMAIN], delta=COST.delta)
ORIGINS = [
    Origin(),
    Origin("inferred"),
    Origin(reviewed_by='Jane "J." Döe'),
    Origin("learned", ledger=LEDGER),
    Origin("learned", ledger=LEDGER, reviewed_by="Jane"),
]

COPIES = {
    "toml": lambda domain: Domain.from_toml(domain.to_toml()),
    "json": lambda domain: Domain.from_json(domain.to_json()),
    "dict": lambda domain: Domain.from_dict(domain.to_dict()),
    "pickle": lambda domain: pickle.loads(pickle.dumps(domain)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "replace": lambda domain: replace(domain, target_name="income"),
}


@pytest.mark.parametrize("origin", ORIGINS, ids=str)
@pytest.mark.parametrize("way", COPIES)
def test_copies_and_files_preserve_origin(origin, way):
    assert COPIES[way](Domain(*FACTS, origin=origin)).origin == origin


def test_origin_is_declared_or_inferred():
    assert Domain(*FACTS).origin == Origin("declared")
    assert Domain.infer(np.zeros((2, 1)), [0, 1], "classification").origin == Origin("inferred")


def test_only_inferred_origin_voids_guarantee():
    assert [origin.reason_not_private is None for origin in ORIGINS] == [True, False, True, True, True]
    assert [len(origin.notes) for origin in ORIGINS] == [0, 0, 1, 1, 2]


def test_review_declares_draft():
    draft = Domain(*FACTS, origin=Origin("inferred"))
    reviewed = draft.reviewed("Jane Doe")
    assert reviewed == draft
    assert reviewed.origin == Origin("declared", reviewed_by="Jane Doe")
    assert draft.origin == Origin("inferred")
    assert "Jane Doe reviewed the domain" in reviewed.origin.notes[0]


def test_reviewer_in_file_declares_draft():
    text = Domain(*FACTS, origin=Origin("inferred")).to_toml()
    assert text.startswith('origin = "inferred"\n\n[features.age]')
    assert Domain.from_toml(f'reviewed_by = "Jane Doe"\n{text}').origin == Origin(reviewed_by="Jane Doe")


NOT_NAMES = ["", " ", "your name", "Jane\nDoe", "\x1b[31mJane", "J" * 201, 7, None, ["Jane"], True]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_review_requires_name(name):
    with pytest.raises(ValueError, match=r"reviewed_by .*name of"):
        Domain(*FACTS).reviewed(name)
    with pytest.raises(ValueError, match=r"reviewed_by .*name of"):
        Domain.from_dict({**Domain(*FACTS).to_dict(), "reviewed_by": name})


@pytest.mark.parametrize("words", ["inferred from the data", "public", "", 1, None, ["declared"]])
def test_unknown_origin_in_file_raises_value_error(words):
    with pytest.raises(ValueError, match=r"origin .*'declared' or 'learned' or 'inferred'"):
        Domain.from_dict({**Domain(*FACTS).to_dict(), "origin": words})


def test_inconsistent_ledger_raises_value_error():
    content = Domain(*FACTS, origin=ORIGINS[3]).to_dict()
    content["ledger"]["total"] = "1/4"
    with pytest.raises(ValueError, match=r"ledger .*: total and private"):
        Domain.from_dict(content)
    for broken in ("{", 7, None):
        with pytest.raises(ValueError, match=r"ledger .*cannot be"):
            Domain.from_dict({**content, "ledger": broken})


def test_only_learnt_origin_has_ledger():
    with pytest.raises(ValueError, match=r"origin .*ledger"):
        Origin("learned")
    with pytest.raises(ValueError, match=r"origin .*ledger"):
        Origin("declared", ledger=LEDGER)


def test_invalid_origins_raise_errors():
    with pytest.raises(ValueError, match="got 'guessed'"):
        Origin("guessed")
    with pytest.raises(ValueError, match=r"reviewed domain .*declared"):
        Origin("inferred", reviewed_by="Jane Doe")
    with pytest.raises(TypeError, match=r"origin .*got 'declared'"):
        Domain(*FACTS, origin="declared")


@pytest.mark.parametrize(
    "order", itertools.permutations([Origin(), Origin("inferred"), Origin("learned", ledger=LEDGER)])
)
def test_merged_origin_is_inferred_if_any_part_is(order):
    assert Origin.merge(order) == Origin("inferred")


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
categories = st.lists(
    texts | st.integers() | st.floats(allow_nan=False) | st.booleans(), min_size=1, max_size=6, unique_by=lambda v: v
)
categoricals = categories.map(Categorical)
integers = st.lists(st.integers(1 - 2**63, 2**63 - 1), min_size=2, max_size=2, unique=True).map(
    lambda ends: Integer(*sorted(ends))
)
parts = st.lists(st.sampled_from(PARTS), unique=True)
dates = (
    st.lists(st.datetimes(), min_size=2, max_size=2, unique=True)
    .map(sorted)
    .flatmap(lambda ends: parts.map(lambda p: Date(*ends, parts=p)))
    | st.tuples(st.dates(), st.dates()).map(lambda ends: Date(*sorted(ends)))
    | parts.map(lambda p: Date(parts=p))
)
domains = st.builds(
    Domain,
    st.dictionaries(texts, numerics | categoricals | integers | dates, min_size=1, max_size=4),
    categoricals | ranges.map(lambda r: Numeric(*r)),
    target_name=st.none() | texts.map(lambda t: t + "the name of no feature"),
)


def assert_same(a, b):
    assert a == b
    assert (a.encoded_feature_names, a.target_name) == (b.encoded_feature_names, b.target_name)
    for f, g in zip([*a.features.values(), a.target], [*b.features.values(), b.target], strict=True):
        if isinstance(f, Categorical):
            assert list(map(type, f.categories)) == list(map(type, g.categories))


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
        '[target]\nkind = "categorical"\ncategories = ["no", 1, 1.5]\n'
    )


def test_target_name_is_first_key():
    domain = Domain({"age": Numeric(17, 90)}, YES_NO, target_name="rich?")
    assert domain.to_toml().endswith('[target]\nname = "rich?"\nkind = "categorical"\ncategories = ["no", "yes"]\n')
    with pytest.raises(ValueError, match=r"target\.name .*got 3"):
        Domain.from_toml(domain.to_toml().replace('"rich?"', "3"))
    with pytest.raises(ValueError, match=r"target_name = 'age' .*feature"):
        Domain.from_toml(domain.to_toml().replace("rich?", "age"))


def test_only_strings_numbers_and_booleans_can_be_written():
    domain = Domain({"a": Categorical(["x", (1, 2)])}, YES_NO)
    for write in (domain.to_toml, domain.to_json):
        with pytest.raises(TypeError, match=r"features\.a\.categories\[1\] = \(1, 2\) .*tuple"):
            write()
    domain = Domain({"\ud800": Numeric(0, 1)}, YES_NO)
    for write in (domain.to_toml, domain.to_json):
        with pytest.raises(TypeError, match=r"= .*ud800.* valid Unicode"):
            write()


NUMERIC = {"kind": "numeric", "low": 0, "high": 1}
TARGET = {"kind": "categorical", "categories": ["no", "yes"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], r"the file .*table .*got \[\]"),
        ({}, "file lacks features"),
        ({"features": {"a": NUMERIC}}, "file lacks target"),
        ({"features": {"a": NUMERIC}, "target": TARGET, "more": 1}, "file .*unknown key 'more'"),
        ({"features": {}, "target": TARGET}, "features .*table .*one feature"),
        ({"features": [NUMERIC], "target": TARGET}, "features .*table .*one feature"),
        ({"features": {"a": 5}, "target": TARGET}, "features.a .*with kind, got 5"),
        ({"features": {"a": {}}, "target": TARGET}, "features.a lacks kind"),
        ({"features": {"a": {"kind": "x"}}, "target": TARGET}, "features.a.kind .*got 'x'"),
        ({"features": {"a": {"kind": []}}, "target": TARGET}, r"features.a.kind .*got \[\]"),
        ({"features": {"a": {**NUMERIC, "hgih": 1}}, "target": TARGET}, "features.a .*unknown key 'hgih'"),
        (
            {"features": {"a": {**NUMERIC, "categories": []}}, "target": TARGET},
            "features.a .*unknown key 'categories'",
        ),
        ({"features": {"a": {**NUMERIC, "low": 2}}, "target": TARGET}, "features.a: low .*low=2"),
        (
            {"features": {"a": {**NUMERIC, "low": True}}, "target": TARGET},
            "features.a: low .*finite number, got True",
        ),
        (
            {"features": {"a": {**NUMERIC, "low": {}}}, "target": TARGET},
            "features.a: low .*float64 .*got {}",
        ),
        ({"features": {"a": {**NUMERIC, "edges": {}}}, "target": TARGET}, "features.a: edges .*got {}"),
        ({"features": {"a": {**NUMERIC, "edges": [[]]}}, "target": TARGET}, r"features.a: edges\[0\]"),
        ({"features": {"a\nb": 5}, "target": TARGET}, r"features.a\\nb .*with kind, got 5"),
        (
            {"features": {"a": NUMERIC}, "target": {**TARGET, "categories": "no"}},
            "target.categories .*list, got 'no'",
        ),
        (
            {"features": {"a": NUMERIC}, "target": {**TARGET, "categories": [[]]}},
            r"target.categories\[0\] .*got \[\]",
        ),
        (
            {"features": {"a": NUMERIC}, "target": {**TARGET, "categories": [1, 1]}},
            r"target: categories\[1\] = 1 repeats",
        ),
        (
            {"features": {"a": NUMERIC}, "target": {**NUMERIC, "scale": "log"}},
            "target: .*log scale",
        ),
        ({"features": {"a": NUMERIC}, "target": {**NUMERIC, "kind": "integer"}}, "target.kind .*'categorical'"),
    ],
)
def test_errors_in_json_name_key(content, words):
    with pytest.raises(ValueError, match=words) as caught:
        Domain.from_json(json.dumps(content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a": ' * 100_000, '{"features": {"a": 1, "a": 2}}', "1" * 5000, "null", "nan", "\x00"],
)
def test_invalid_text_raises_a_value_error(text):
    for read in (Domain.from_json, Domain.from_toml):
        with pytest.raises(ValueError, match=r"valid (TOML|JSON): |the file "):
            read(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\na = 2", "valid TOML: "),
        ("a = " + "[" * 100_000, "valid TOML: "),
        (
            "[features.a]\nkind='categorical'\ncategories=[2020-01-01]\n[target]\nkind='numeric'",
            r"features.a.categories\[0\]",
        ),
        (
            "[features.a]\nkind='numeric'\nlow=nan\nhigh=1\n[target]\nkind='numeric'",
            "features.a: low .*finite, got nan",
        ),
        ("[features.a.b]\nkind='numeric'\n[target]\nkind='numeric'", "features.a .*unknown key 'b'"),
    ],
)
def test_errors_in_toml_name_key(text, words):
    with pytest.raises(ValueError, match=words):
        Domain.from_toml(text)


def test_json_keys_may_not_repeat():
    text = json.dumps({"features": {"a": NUMERIC}, "target": TARGET})
    assert Domain.from_json(text).encoded_feature_names == ("a",)
    with pytest.raises(ValueError, match=r"'low' .*twice"):
        Domain.from_json(text.replace('"high"', '"low": 3, "high"'))


def test_content_must_be_a_string_or_a_path():
    for read in (Domain.from_json, Domain.from_toml):
        with pytest.raises(TypeError, match=r"source .*string, .*got b''"):
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
    with pytest.raises(ValueError, match=rf"domain\.{kind} .*UTF-8"):
        read(path)
    path.write_text("other.toml")  # the content of a file is never taken for the name of another one
    with pytest.raises(ValueError, match=f"valid {kind.upper()}: "):
        read(path)


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_domain_text_is_never_taken_for_path(kind):
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
        ('kind = "integer"\nlow = 0.5\nhigh = 1', "features.a: low .*integer, got 0.5"),
        ('kind = "date"\nlow = "x"\nhigh = "2020-01-01"', "features.a: low .*date, .*got 'x'"),
        ('kind = "date"\nlow = 2020-01-01', "features.a: low and high .*both"),
        ('kind = "date"\nparts = "hour"', "features.a: parts .*list of .*got 'hour'"),
        ('kind = "date"\nedges = [1]', "unknown key 'edges'"),
        ("kind = [1]", "features.a.kind .*'numeric', 'integer', 'date' or 'categorical'"),
    ],
)
def test_errors_in_integers_and_dates_name_key(feature, words):
    with pytest.raises(ValueError, match=words):
        Domain.from_toml(f'[features.a]\n{feature}\n[target]\nkind = "numeric"\nlow = 0\nhigh = 1\n')


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\x85", "\x9b", "\u202e", "\x7f", "\U000e0001"])
def test_control_characters_are_escaped(odd):
    """Some editors and languages end a line at them, where TOML has text."""
    domain = Domain({f"a{odd}b": Categorical([f"c{odd}d"])}, Categorical(["x", f"{odd}"]))
    text = domain.to_toml()
    assert odd not in text
    assert Domain.from_toml(text) == domain


@pytest.mark.parametrize("half", ["\\ud800", "\ud800"])
def test_lone_surrogate_raises_when_read(half):
    """It could not be written again, which would be noticed after a fit has spent its budget."""
    text = Domain({"a": Categorical(["x", "HALF"])}, Numeric(0, 1)).to_json().replace("HALF", half)
    with pytest.raises(ValueError, match=r"valid JSON: .*surrogates"):
        Domain.from_json(text)
    whole = Domain({"a": Categorical(["\U0001f600"])}, Numeric(0, 1))
    assert Domain.from_json(json.dumps(whole.to_dict(), ensure_ascii=True)) == whole


TOO_LARGE = "domain .*too large .*model file, .*values"
YES = Categorical(["no", "yes"])


def many_categories(n_columns, n_categories):
    return Domain({f"c{i}": Categorical(range(n_categories)) for i in range(n_columns)}, YES)


@pytest.mark.parametrize("estimator", [DiPriMeClassifier, DiPriMeBoostingClassifier])
def test_oversized_declared_domain_raises_before_reading(estimator):
    domain = many_categories(2200, 250)
    with Budget(10, 1e-5) as budget:
        for fit in (
            lambda: estimator(1.0, domain).fit(None, ["no"]),
            lambda: estimator(1.0, domain).fit(sources.batches(iter([(None, None)]))),
        ):
            with pytest.raises(ValueError, match=TOO_LARGE):
                fit()
    assert budget.entries == ()


@pytest.mark.parametrize(("limit", "size"), [("MAX_BYTES", len), ("MAX_VALUES", files.n_values)])
def test_model_with_largest_domain_can_be_saved(tmp_path, monkeypatch, limit, size):
    domain = many_categories(3, 50)
    n = size(json.dumps(domain.to_dict()).encode())
    X, y = np.zeros((20, 3)), np.array(["no", "yes"] * 10)
    model = DiPriMeClassifier(1.0, domain, n_estimators=n + 1, max_depth=1)
    monkeypatch.setattr(files, limit, n)
    model.fit(X, y).save(tmp_path / "m.diprime")
    assert diprime.load(tmp_path / "m.diprime").domain_ == domain
    monkeypatch.setattr(files, limit, n - 1)
    with pytest.raises(ValueError, match=TOO_LARGE):
        model.fit(X, y)


def test_error_of_unsaved_model_names_file(tmp_path, monkeypatch):
    model = DiPriMeClassifier(1.0, many_categories(1, 2)).fit([[0], [1]], ["no", "yes"])
    monkeypatch.setattr(files, "MAX_VALUES", 0)
    monkeypatch.setattr(model_files, "MORE_VALUES", 10)
    path = tmp_path / "m.diprime"
    with pytest.raises(diprime.ModelFileError, match=r"header .*too large") as caught:
        model.save(path)
    assert str(caught.value).startswith(f"{path} ")
    assert not path.exists()


def test_domains_without_text_have_no_limit(monkeypatch):
    monkeypatch.setattr(files, "MAX_VALUES", 5)
    for category in (("a", "tuple"), 10**5000):
        Domain({"a": Categorical([category]), "b": Categorical(range(100))}, YES).check_size()
    with pytest.raises(ValueError, match=TOO_LARGE):
        Domain({"b": Categorical(range(100))}, YES).check_size()


HARD = ["plain", "a,b={[", "\u0085\u2028", "\U000e0001" * 9, '"' * 20, "x" * 300, 0.1, -7, math.inf, 10**5000]


@pytest.mark.parametrize("limit", ["MAX_BYTES", "MAX_VALUES"])
def test_learnt_domain_with_many_categories_can_be_saved(tmp_path, monkeypatch, limit):
    rng = np.random.default_rng(0)
    values = np.array([f"{'x' * 50},{i}" for i in range(300)], dtype=object)
    X = np.column_stack([values[rng.integers(0, 300, 6000)] for _ in range(3)])
    X[:2000, 2] = np.resize(np.array(HARD, dtype=object), 2000)
    y = np.resize(["no", "yes"], 6000)
    monkeypatch.setattr(files, "_LEDGER_BYTES", 8000)
    monkeypatch.setattr(files, "_LEDGER_VALUES", 300)
    monkeypatch.setattr(files, limit, {"MAX_BYTES": 20_000, "MAX_VALUES": 600}[limit])
    domain = Domain({"a": Categorical(), "b": Categorical(), "c": Categorical()}, YES, target_name="y")
    model = DiPriMeBoostingClassifier(200.0, domain, delta=0.01, n_rounds=2).fit(X, y)
    kept = [len(feature.categories) for feature in model.domain_.features.values()]
    assert all(10 < n < 300 for n in kept), "there is quota for some, and not for all"
    model.save(tmp_path / "m.diprime")
    assert diprime.load(tmp_path / "m.diprime").domain_ == model.domain_
    for name, text in (("d.toml", model.domain_.to_toml()), ("d.json", model.domain_.to_json())):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert read_domain(tmp_path / name) == model.domain_


def test_too_many_undeclared_columns_raise_before_reading(monkeypatch):
    monkeypatch.setattr(files, "_LEDGER_VALUES", 0)
    monkeypatch.setattr(files, "MAX_VALUES", 1000)
    for open_feature, delta, n_refused in ((Categorical(), 1e-6, 45), (Numeric(), 0, 100)):
        domain = Domain({f"c{i}": open_feature for i in range(n_refused)}, Numeric(0, 1))
        with Budget(10, 1e-5) as budget, pytest.raises(ValueError, match=TOO_LARGE):
            domain.learning_plan(Fraction(1), Fraction(delta))
        with pytest.raises(ValueError, match=TOO_LARGE):
            Domain.learn(np.zeros((1, n_refused)), [0], 1.0, delta=delta, features=domain.features, target=YES)
        assert budget.entries == ()
    domain = Domain({"c": Numeric()}, Numeric(0, 1))
    assert domain.learning_plan(Fraction(1), Fraction(0)).quota.n_values > 0


RANGES = {
    "numbers": Numeric(-1.2345678901234567e-300, 1.2345678901234567e-300),
    "whole numbers": Integer(-(2**62), 2**62),
    "dates": Date.covering(-(2**62), 2**62, ("weekday", "month", "hour")),
}


@pytest.mark.parametrize("name", RANGES)
def test_learnt_ranges_fit_reserved_size(name):
    closed, still_open = (Domain({"a": feature}, Numeric(0, 1)) for feature in (RANGES[name], Numeric()))
    for write in (Domain.to_toml, Domain.to_json):
        size, before = FileQuota.of(write(closed)), FileQuota.of(write(still_open))
        assert size.n_bytes - before.n_bytes <= files._RANGE_BYTES
        assert size.n_values - before.n_values <= files._RANGE_VALUES


def test_ledger_of_learnt_domain_fits_reserved_size():
    X, y = np.ones((10_000, 3)), np.ones(10_000)
    features = {"a": Numeric(), "b": Numeric(), "c": Categorical()}
    domain = Domain.learn(X, y, 0.1234567890123456789, delta=1e-7, features=features, target=Numeric())
    ledger = FileQuota.of(json.dumps(json.dumps(domain.origin.to_dict())))
    assert 10 * ledger.n_bytes < files._LEDGER_BYTES
    assert 10 * ledger.n_values < files._LEDGER_VALUES


def test_quota_selects_shortest_categories_in_their_order():
    categories = [1, 22, 10**5000, "333,", "4444,4", "z"]
    assert categories_within_quota(categories, FileQuota(10**9, 10**9)) == categories
    assert categories_within_quota(categories, files.WHOLE_FILE) == [1, 22, "333,", "4444,4", "z"]
    assert categories_within_quota(categories, FileQuota(10**4, 3)) == [1, 22, "z"]
    assert categories_within_quota(categories, FileQuota(3 * 12 + 1 + 2 + 3, 100)) == [1, 22, "z"]
    assert categories_within_quota(categories, FileQuota(12, 100)) == []
