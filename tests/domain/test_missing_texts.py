"""Texts that stand for a missing value do so in features, targets and ids, unless a domain lists them as categories."""

import math
import pickle

import pandas as pd
import polars as pl
import pytest

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, private_score, sources
from diprime.domain import MISSING, OTHER
from diprime.domain.checking import NO_CATEGORY
from diprime.domain.values import MISSING_TEXTS

YES_NO = Categorical(["no", "yes"])
FEATURES = {"a": Categorical(["x", "None"]), "b": Categorical(n_buckets=8), "c": Numeric(0, 10)}
MARKED = Domain(FEATURES, YES_NO, missing=["?", "-", "NA", " ? "])


def test_domain_stores_additional_missing_texts_once():
    assert MARKED.missing == ("-", "?")
    assert MARKED.missing_texts == MISSING_TEXTS | {"-", "?"}
    assert Domain(FEATURES, YES_NO, missing=["NA"]) == Domain(FEATURES, YES_NO) != MARKED
    assert repr(MARKED).endswith(", missing=['-', '?'])")
    assert "missing" not in repr(Domain(FEATURES, YES_NO))
    assert hash(MARKED) == hash(Domain(FEATURES, YES_NO, missing=("?", "-")))


def test_files_and_pickles_preserve_missing_texts():
    assert MARKED.to_toml().startswith('missing = ["-", "?"]\n\n[features.a]\n')
    for copy in (
        Domain.from_toml(MARKED.to_toml()),
        Domain.from_json(MARKED.to_json()),
        Domain.from_dict(MARKED.to_dict()),
        pickle.loads(pickle.dumps(MARKED)),
        MARKED.reviewed("Jane Doe"),
    ):
        assert copy == MARKED
    assert "missing" not in Domain(FEATURES, YES_NO).to_dict()


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("?", r"missing .*list of .*got '\?'"),
        (3, "missing .*list of .*got 3"),
        (["?", None], r"missing\[1\] .*printable text, .*got None"),
        (["a\n"], r"missing\[0\] .*printable text, .*got 'a\\n'"),
        (["-999"], r"missing\[0\] = '-999' .*number or .*date"),
        (["true"], r"missing\[0\] = 'true' .*number or"),
        ([" 2020-01-01"], r"missing\[0\] = ' 2020-01-01' .*date"),
    ],
)
def test_missing_texts_that_spell_values_raise_value_error(missing, words):
    with pytest.raises(ValueError, match=words):
        Domain(FEATURES, YES_NO, missing=missing)
    with pytest.raises(ValueError, match=words):
        Domain.from_dict({**MARKED.to_dict(), "missing": missing})


def test_listed_categories_are_not_missing():
    table = {"a": ["x", "None", "?", " ?", "NA", "na"], "b": ["-", "?", "None", "", " NA", "q"], "c": [None] * 6}
    codes = MARKED.encode(pl.DataFrame(table))
    assert codes[:, 0].tolist() == [0, 1, MISSING, MISSING, MISSING, OTHER]
    assert codes[:5, 1].tolist() == [MISSING] * 5
    assert codes[5, 1] < 8
    checked = MARKED.check(pl.DataFrame(table), ["?", "NA", "maybe", "no", "yes", "no"], groups=["?", "NA", *"abab"])
    assert (checked.columns["a"].missing, checked.columns["a"].unlisted) == (3, 1)
    assert checked.columns["b"].missing == 5
    assert (checked.target.missing, checked.target.unlisted) == (2, 1)
    assert (checked.persons.n_persons, checked.persons.n_unknown) == (2, 2)


def test_missing_classes_are_not_counted_as_errors(tmp_path):
    """A reader that keeps such texts and one that converts them give the same score."""
    path = tmp_path / "a.csv"
    path.write_text("c,y\n" + "1,no\n9,yes\n" * 200 + "1,NA\n1, ?\n1,\n1,maybe\n" * 10)
    domain = Domain({"c": Numeric(0, 10)}, YES_NO, missing=["?"])
    assert domain.encode_target(["no", "NA", " ?", None, "maybe"], mark_outside=True).tolist() == [0, -1, -1, -1, 2]
    listed = Domain({"c": Numeric(0, 10)}, Categorical(["NA", "yes"]), missing=["?"])
    assert listed.encode_target(["NA", "?", "maybe"], mark_outside=True).tolist() == [0, -1, 2]
    model = DiPriMeClassifier(math.inf, domain).fit(pd.DataFrame({"c": [1.0, 9.0] * 50}), ["no", "yes"] * 50)
    for table in (pl.read_csv(path), pd.read_csv(path, na_values=["?"]), pd.read_csv(path, keep_default_na=False)):
        assert private_score(model, table[["c"]], table["y"], math.inf).records.value == 410


def test_frames_of_pandas_and_polars_have_one_inferred_domain(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("holiday,code,nothing,y\nNone,1,NA,no\nLabor Day,?,None,yes\nNone,2,?,no\n")
    expected = {
        "holiday": Categorical(["Labor Day"]), "code": Categorical(["1", "2"]), "nothing": Categorical([NO_CATEGORY])
    }  # fmt: skip
    for frame in (pd.read_csv(path), pl.read_csv(path), pd.read_csv(path, keep_default_na=False)):
        domain = Domain.infer(frame[["holiday", "code", "nothing"]], frame["y"], "classification", missing=["?"])
        assert domain.missing == ("?",)
        assert dict(domain.features) == expected
    objects = pd.DataFrame({"n": pd.Series([1, "?", 2.5], dtype=object), "d": [pd.Timestamp(0), "?", None]})
    inferred = Domain.infer(objects, [0, 1, 0], "classification", missing=["?"]).features
    assert inferred["n"] == Numeric(1, 2.5)
    assert inferred["d"].has_range
    classes = Domain.infer([[0.0], [1.0]], pl.Series(["None", "mild"]), "classification").target
    assert classes == Categorical(["None", "mild"])


def test_texts_are_never_learnt_as_categories():
    values = ["x", "?", "None", " NA "] * 500
    domain = Domain.learn(pl.DataFrame({"a": values}), pl.Series(["?", "u", "v", "v"] * 500), 5.0,
                          delta=1e-3, features={"a": Categorical()}, task="classification", missing=["?"])  # fmt: skip
    assert domain.features["a"] == Categorical(["x"])
    assert domain.target == Categorical(["u", "v"])
    assert domain.missing == ("?",)
    ids = [f"p{i}" for i in range(1000)] + ["?"] * 1000
    values = ["x"] * 1000 + ["q"] * 1000
    table = pl.DataFrame({"a": values})
    learnt = Domain.learn(table, ["no"] * 2000, 5.0, delta=1e-3, features={"a": Categorical()}, target=YES_NO,
                          missing=["?"], groups=ids)  # fmt: skip
    assert learnt.features["a"] == Categorical(["x"])


def test_missing_texts_are_no_ids():
    texts = [f"?{i}" for i in range(50)]
    domain = Domain({"x": Categorical(["a", "b"])}, YES_NO, missing=texts)
    X, y = pl.DataFrame({"x": ["a", "b"] * 100}), ["no", "yes"] * 100
    ids = [f"p{i}" for i in range(100)] + texts + ["NA"] * 50
    fitted = DiPriMeClassifier(math.inf, domain).fit(X, y, groups=ids)
    of_batches = DiPriMeClassifier(math.inf, domain).fit(sources.batches([(X, y, ids)]))
    assert fitted.forest_.tree_counts.sum() == of_batches.forest_.tree_counts.sum() == 100
    assert private_score(fitted, X, y, math.inf, groups=ids).records.value == 100
