"""The examples run, and their output supports their claims."""

import re
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.spark_sessions import needs_spark

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed_by(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def numbers(pattern, text):
    return [float(found) for found in re.findall(pattern, text)]


def test_every_example_is_tested():
    tested = {
        "bike_rentals", "census_income", "dask_cluster", "demo", "emergency_room", "large_files", "log_scaled_rent",
        "open_ranges", "planning", "private_search", "several_visits", "spark_cluster", "study", "two_hospitals",
    }  # fmt: skip
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_boosting_example_learns_rush_hours_and_outings(capsys):
    printed = printed_by("bike_rentals", capsys)
    guess, forest, boosted = numbers(r"error +([\d.]+)", printed)
    assert boosted < forest < guess
    assert boosted < 0.65 * guess
    added = numbers(r"\d h +([+-]\d+)", printed)
    working_day, weekend = added[:8], added[8:]
    assert min(working_day[3], working_day[6]) > 30 + max(working_day[1], working_day[4])  # at 9 and 18, at 3 and 12
    assert weekend[4] > 20 + working_day[4]
    assert "hour × day" in printed
    assert "Privacy ledger: epsilon = 1 of 1, delta = 1e-06" in printed


def test_date_example_learns_evenings_and_weekends(capsys):
    printed = printed_by("emergency_room", capsys)
    guess, forest, boosted = numbers(r"accuracy ([\d.]+)%", printed)
    assert guess + 1 < forest
    assert guess + 2 < boosted
    days = dict(re.findall(r"  (\w+day) +([+-][\d.]+)", printed))
    assert max(float(days[d]) for d in ("Saturday", "Sunday")) < min(float(days[d]) for d in list(days)[:5]) - 0.5
    assert "arrived.hour" in printed
    assert "Privacy ledger: epsilon = 1 of 1, delta = 1e-06" in printed


def test_learnt_ranges_are_nearly_as_good_as_known_ones(capsys):
    printed = printed_by("open_ranges", capsys)
    guess, declared, learnt = numbers(r"error +([\d.]+)", printed)
    assert declared < 0.8 * guess
    assert learnt < 1.2 * declared
    assert "domain: feature ranges" in printed
    assert "Privacy ledger: epsilon = 2 of 2" in printed


def test_the_demo_prints_accuracies_and_the_ledger(capsys):
    printed = printed_by("demo", capsys)
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed
    for contender in ("majority", "boosting", "random forest"):
        assert contender in printed.lower()


def test_a_private_census_forest_is_nearly_as_accurate_as_without_noise(capsys):
    pytest.importorskip("pandas")
    printed = printed_by("census_income", capsys)
    guess, _, private, without_noise = numbers(r"([\d.]+)%\n", printed)[:4]
    assert guess + 1 < private < without_noise + 3
    assert "Private score: costs epsilon = 0.1 on the test rows" in printed
    estimate, low, high = (float(n) for n in re.search(r"\naccuracy +(\S+) +(\S+) to (\S+)", printed).groups())
    assert low < estimate < high < low + 0.1
    assert low - 0.05 < private / 100 < high + 0.05
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed


def test_search_chooses_the_better_hyperparameters_within_its_budget(capsys):
    printed = printed_by("private_search", capsys)
    assert "Chosen: max_depth = auto" in printed
    shallow, searched, default = numbers(r"error ([\d.]+)", printed)
    assert default < searched < shallow
    assert "Privacy ledger: epsilon = 3 of 3, delta = 0" in printed


def test_a_log_scale_is_more_accurate_than_a_linear_one(capsys):
    printed = printed_by("log_scaled_rent", capsys)
    guess, linear, log = numbers(r"error +([\d.]+)", printed)
    assert log < 0.95 * linear < guess
    assert "Privacy ledger: epsilon = 1 of 1, delta = 0" in printed


def test_merged_model_costs_no_more_than_its_parts(capsys):
    pytest.importorskip("pandas")
    printed = printed_by("two_hospitals", capsys)
    assert numbers(r"epsilon ([\d.]+), mean", printed) == [1, 1, 1]
    assert min(numbers(r"accuracy ([\d.]+)%", printed)) > 75  # 63 % are in one class
    assert "2 merged models" in printed


def test_all_visits_of_a_patient_are_protected_together(capsys):
    printed = printed_by("several_visits", capsys)
    accuracies = numbers(r"accuracy ([\d.]+)%", printed)
    assert len(accuracies) == 4
    assert min(accuracies) > 65
    visits, patients = numbers(r"(\d+) (?:visits of|patients)", printed)[:2]
    assert visits > 2 * patients
    assert "One person, up to 6 records, added or removed: epsilon = 1; one person replaced" in printed
    assert "NOT PRIVATE" not in printed


def credit_table(n=3000):
    """Return a synthetic table with the columns of the real one, which is not in the repository."""
    rng = np.random.default_rng(1)
    late = {f"PAY_{m}": rng.integers(-1, 4, n) for m in ("0", "2", "3", "4", "5", "6")}
    money = {f"{name}{i}": rng.integers(0, 100_000, n) for name in ("BILL_AMT", "PAY_AMT") for i in range(1, 7)}
    columns = {"ID": np.arange(n), "LIMIT_BAL": rng.integers(10_000, 500_000, n), "SEX": rng.integers(1, 3, n)}
    columns |= {"EDUCATION": rng.integers(0, 7, n), "MARRIAGE": rng.integers(0, 4, n), "AGE": rng.integers(21, 80, n)}
    target = late["PAY_0"] + rng.logistic(size=n) > 3
    return pd.DataFrame({**columns, **late, **money, "default payment next month": target.astype(int)})


def test_a_study_adds_up_in_one_budget(capsys, monkeypatch, tmp_path):
    path = tmp_path / "credit_default.parquet"
    credit_table().to_parquet(path)
    monkeypatch.setattr("sys.argv", ["study.py", str(path)])
    printed = printed_by("study", capsys)
    assert "Privacy ledger: epsilon = 1.4 of 1.4, delta = 1e-07" in printed
    assert "One person, up to 1 record, added or removed: epsilon = 1.4" in printed
    charges = re.findall(r"^ +\d  \S+  (.*)$", printed, re.MULTILINE)
    assert [charge.split(":")[0] for charge in charges] == [
        "ranges and categories of a domain",
        "PrivateSearch with epsilon = 1",
        "DiPriMeBoostingClassifier with epsilon = 1, delta = 1e-07",
        "a score of DiPriMeClassifier",
        "a score of DiPriMeBoostingClassifier",
    ]
    assert "Spent: epsilon = 1.8, mu^2 = 0.0456832." in printed
    assert len(numbers(r"accuracy ([\d.]+)%", printed)) == 2


def test_planned_cost_of_privacy_falls_with_epsilon(capsys):
    printed = printed_by("planning", capsys)
    assert len(numbers(r"privacy costs from [\d.]+ to ([\d.]+)", printed)) == 2
    scarce, ample = numbers(r"deviation of ([\d.]+) records", printed)
    assert scarce > ample
    assert re.search(r"ward: \d+ unlisted", printed)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_dask_example_runs(capsys):
    pytest.importorskip("distributed", reason="diprime[dask] is not installed")
    printed = printed_by("dask_cluster", capsys)
    assert "columns of predict_proba: no, yes" in printed
    assert numbers(r"accuracy: ([\d.]+)", printed)[0] > 0.7
    assert "epsilon spent: 1\n" in printed


@needs_spark
def test_spark_example_runs(spark, capsys):
    printed = printed_by("spark_cluster", capsys)
    assert "columns of predict: age, visits, region, ill, prediction" in printed
    assert numbers(r"accuracy: ([\d.]+)", printed)[0] > 0.7
    assert "epsilon spent: 1\n" in printed


def test_out_of_core_example_gives_the_same_model_and_removes_its_files(capsys):
    printed = printed_by("large_files", capsys)
    assert "Left in the folder: quarter0.parquet, quarter1.parquet, quarter2.parquet, quarter3.parquet\n" in printed
    assert "The same model: True" in printed
