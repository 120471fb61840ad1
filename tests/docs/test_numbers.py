"""Numbers on pages are those of the benchmarks' results."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data import MULTICLASS, NAMES
from benchmarks.paths import RESULTS
from benchmarks.utility.boosting_report import RIVALS
from benchmarks.utility.contenders import RIVAL_EPSILONS, RIVAL_REPEATS, S_BDT
from benchmarks.utility.results import Results
from benchmarks.utility.scores import EBM_EPSILONS, Facts, Scores, tally
from diprime import Budget, Categorical, DiPriMeBoostingClassifier, Domain, Numeric
from diprime.forest.defaults import QUANTILE_SHARE
from diprime.model.estimates import MIN_INFORMATION

ROOT = Path(__file__).parents[2]
REGRESSION, CLASSIFICATION = NAMES[:5], NAMES[5:]
COMPARED = {
    "boosting, DP-EBM: AUC": ("boosting", "dp-ebm", CLASSIFICATION, "auc"),
    "boosting, DP-EBM: squared error": ("boosting", "dp-ebm", REGRESSION, "mse"),
    "boosting, forest: AUC": ("boosting", "ours", CLASSIFICATION, "auc"),
    "boosting, forest: squared error": ("boosting", "ours", REGRESSION, "mse"),
    "forest, DP-EBM: accuracy": ("ours", "dp-ebm", CLASSIFICATION, "accuracy"),
    "forest, DP-EBM: AUC": ("ours", "dp-ebm", CLASSIFICATION, "auc"),
    "forest, DP-EBM: squared error": ("ours", "dp-ebm", REGRESSION, "mse"),
    "forest, diffprivlib: accuracy": ("ours", "diffprivlib", (*CLASSIFICATION, *MULTICLASS), "accuracy"),
}


FACTS = {name: Facts(name, name, "", 1.0, 10**6, 1, "") for name in (*NAMES, *MULTICLASS, *S_BDT)}
SCORES = Scores(Results(RESULTS / "utility.json"), FACTS)
BANDS = "tests/model/test_function_noise.py"
NUMBER_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def tallies(row):
    contender, peer, names, metric = COMPARED[row]
    return [tally(SCORES.lead(contender, peer, name, e, metric) for name in names) for e in EBM_EPSILONS]


def rows_of(path, start):
    return [line for line in path.read_text("utf-8").splitlines() if re.match(start, line)]


def text_of(path):
    """Return the text of a page or of results, each run of white space as one space."""
    return " ".join((ROOT / path).read_text("utf-8").split())


def result(name):
    return text_of(f"benchmarks/results/{name}.md")


def cells(row):
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("row", COMPARED)
def test_wins_ties_and_losses_match_the_scores(row):
    assert f"| {row} | {' | '.join(tallies(row))} |" in (ROOT / "docs/benchmarks.md").read_text("utf-8")
    if row.startswith("forest, DP-EBM"):
        rows = rows_of(RESULTS / "utility.md", r"\| ahead / level / behind")
        assert f"| ahead / level / behind | {' | '.join(tallies(row))} |" in rows


def test_readme_claims_match_the_scores():
    readme = text_of("README.md")
    assert "Boosting and DP-EBM, same ε and δ, ε from 0.5 to 8" in readme
    assert "higher AUC on four of five classification sets, a tie on the fifth" in readme
    assert set(tallies("boosting, DP-EBM: AUC")) == {"4 / 1 / 0"}
    assert "lower squared error on all five regression sets" in readme
    assert set(tallies("boosting, DP-EBM: squared error")) == {"5 / 0 / 0"}
    assert "Forest and diffprivlib's forest, ε from 0.5 to 8 | higher accuracy on all seven tasks at every ε" in readme
    assert set(tallies("forest, diffprivlib: accuracy")) == {"7 / 0 / 0"}


def test_readme_states_that_tests_decide():
    assert "[Benchmarks](docs/benchmarks.md) lists the paired tests" in text_of("README.md")


def test_claims_on_boosting_match_the_scores():
    page = text_of("docs/benchmarks.md")
    assert "At the same ε and δ, boosting is never behind DP-EBM." in page
    rows = [row for row in COMPARED if row.startswith("boosting, DP-EBM")]
    assert {tally.split(" / ")[2] for row in rows for tally in tallies(row)} == {"0"}
    assert "level on PUC-Rio at every ε, because both have an AUC close to 1" in page
    level = {(n, e) for n in CLASSIFICATION for e in EBM_EPSILONS if not SCORES.lead("boosting", "dp-ebm", n, e, "auc")}
    assert level == {("puc", e) for e in EBM_EPSILONS}
    assert "On HIGGS and Credit, its mean AUC at ε = 0.2 is above that of DP-EBM at ε = 1." in page
    for name in ("higgs", "credit"):
        assert SCORES.mean("boosting", name, 0.2, "auc") > SCORES.mean("dp-ebm", name, 1.0, "auc")


def test_comparison_with_linear_models_and_networks_matches_the_scores():
    page = text_of("docs/benchmarks.md")

    def leads(name, epsilon):
        metric = "mse" if name in (*REGRESSION, "abalone") else "auc"
        own, *others = (SCORES.mean(c, name, epsilon, metric, RIVAL_REPEATS) for c in RIVALS[metric])
        return own > max(others) if metric == "auc" else own < min(others)

    assert "highest on Credit, Robot, HIGGS and Adult at each of these ε" in page
    assert all(leads(name, e) for name in ("credit", "robot", "higgs", "adult") for e in RIVAL_EPSILONS)
    assert "On Banknote, DP-SGD has a higher mean AUC at ε ≤ 1." in page
    assert not any(leads("banknote", e) for e in RIVAL_EPSILONS[:4])
    assert "lowest mean squared error on Metro traffic and Flight at each of these ε" in page
    assert all(leads(name, e) for name in ("metro", "flight") for e in RIVAL_EPSILONS)
    assert (
        "On Parkinson's, it has the lowest from ε = 0.2, on Appliances from ε = 0.5, and on Gas turbine from ε = 1."
        in page
    )
    first = {"parkinsons": 1, "appliances": 2, "turbine": 3, "abalone": 5}
    for name, place in first.items():
        assert [leads(name, e) for e in RIVAL_EPSILONS] == [False] * place + [True] * (5 - place)


def test_scores_without_noise_match_results():
    [row] = rows_of(RESULTS / "utility.md", r"\| boosting: AUC at ε = ∞ ")
    higgs, peer, credit, peer_on_credit, *pairs = map(float, re.findall(r"\d\.\d{5}", row))
    page = text_of("docs/benchmarks.md")
    assert f"AUC on Credit is {credit:.3f}, compared with {peer_on_credit:.3f} for" in page
    assert f"AUC on HIGGS is {1 - higgs / peer:.1%} lower ({higgs:.3f} and {peer:.3f})".replace("%", " %") in page
    assert f"HistGradientBoosting reaches {pairs[0]:.3f}" in page


def test_claims_on_the_forest_match_results():
    page, results = text_of("docs/benchmarks.md"), result("utility")
    better, close = map(int, re.search(r"better on (\d) of 9, close on (\d) \|", results).groups())
    assert close == 9 - better == 1
    assert f"best private method on {NUMBER_WORDS[better]} of nine comparable data sets" in page
    [tenth] = re.findall(r"at least six of the 9 \| met \| on (\d) of 9 \|", results)
    assert f"better than the paper's DiPriMeFlip on {NUMBER_WORDS[int(tenth)]} of nine" in page
    behind = [int(text.split(" / ")[2]) for text in tallies("forest, DP-EBM: AUC")]
    most, least = (NUMBER_WORDS[pick(behind[:3])] for pick in (max, min))
    assert f"Up to ε = 2, its AUC is behind that of DP-EBM on {least} or {most} data sets" in page
    assert behind[3:] == [0, 0]
    low, high = re.search(r"rise on 0 of 12 (?:data )?sets; [a-z ]+ from (\d+)% to (\d+)%, by", results).groups()
    assert f"ranges from {low} % to {high} % of the error, by data set" in page


@pytest.mark.parametrize("kind", ["the forest", "boosting"])
def test_claims_on_little_noise_match_results(kind):
    [row] = rows_of(RESULTS / "utility.md", rf"\| {kind}: error at ε = 1000 within 5 % of that at ε = ∞ ")
    [within] = re.findall(r"on (\d+) of 12 data sets", row)
    ratios = [(float(ratio), float(error)) for ratio, error in re.findall(r": (\d\.\d+) ± (\d\.\d+)", row)]
    n_perfect = row.count("no errors at ∞")
    assert len(ratios) == 12 - int(within) - n_perfect
    assert all(ratio - 1 < error for ratio, error in ratios), "these differences are within one standard error"
    page = text_of("docs/benchmarks.md")
    words = {10: "ten", 11: "eleven"}[int(within)]
    assert f"within 5 % of its error without noise on {words} of twelve data sets" in page
    assert ("it makes no errors without noise." in page) or not n_perfect


def test_choice_between_forest_and_boosting_matches_the_scores():
    page = text_of("docs/start/forest-or-boosting.md")
    auc = {name: [SCORES.mean(kind, name, 1.0, "auc") for kind in ("boosting", "ours")] for name in CLASSIFICATION}
    n_higher = sum(boosting > forest for boosting, forest in auc.values())
    assert f"higher than the forest's on {NUMBER_WORDS[n_higher]} of five" in page
    assert "(HIGGS: {:.3f} and {:.3f})".format(*auc["higgs"]) in page
    assert "Its mean squared error is lower on all five regression data sets." in page
    for name in REGRESSION:
        assert SCORES.mean("boosting", name, 1.0, "mse") < SCORES.mean("ours", name, 1.0, "mse")
    ahead, level, behind = (NUMBER_WORDS[int(n)] for n in tallies("boosting, forest: AUC")[1].split(" / "))
    assert f"ahead on {ahead} of the five data sets for AUC, and level on {level}." in page
    assert behind == "none"
    robot = [SCORES.mean(kind, "robot", 0.2, "accuracy") for kind in ("ours", "boosting")]
    assert "ε = 0.2, the forest has a mean accuracy of {:.2f} and boosting {:.2f}.".format(*robot) in page


@pytest.mark.parametrize(
    ("page", "text", "results", "source"),
    [
        ("README.md", "44 of 48 cells", "tables", "44 of 48 cells meet"),
        ("docs/audits.md", "refuted none of 42 claims", "audit", "0 of 42 claims are refuted"),
        ("docs/audits.md", "caught all 12 controls", "audit", "12 of 12 controls are caught"),
        ("docs/audits.md", "| first | 39 | 33 |", "runs", "33 of 39"),
        ("docs/audits.md", "| second | 97 | 84 |", "runs", "84 of 97"),
        ("docs/audits.md", "300 bugs, all of which were caught", "mutants", "300 of 300 mutants are caught"),
        ("docs/audits.md", "for all 150 models", "attacks", "| seeds | diffprivlib 0.6.6 | 150 | 1.000 "),
        ("docs/audits.md", "1,500 fits", "attacks", "| positions | diffprivlib 0.6.6 | 1500 |"),
        ("docs/audits.md", "ε is at least 4.75", "attacks", "0.712 (0.667 to 0.749) | 4.75 |"),
        ("docs/benchmarks.md", "A fit needs 70 MiB", "speed", "peak memory of the fit: 70 MiB"),
        ("docs/benchmarks.md", "an input of 107 MiB", "speed", "an input of 107 MiB"),
        ("docs/benchmarks.md", "it takes 5.83 times as long", "speed", "| 10,000,000 rows | 0.878 | 5.83 |"),
        ("docs/benchmarks.md", "16 times as fast as DP-EBM", "speed_boosting", "DP-EBM's time over diprime's: 15.88"),
        (
            "docs/benchmarks.md",
            "15 times as fast as LightGBM",
            "speed_boosting",
            "time over diprime's, same number of rounds: 15.13",
        ),
        ("docs/command-line.md", "less than a factor of three", "plan", "above (by up to 2.4 times)"),
        ("docs/paper.md", "**44 of 48 cells**", "tables", "44 of 48 cells meet"),
        ("docs/paper.md", "All eight cells of DP-RF", "tables", "DP-RF: 8 of 8 cells meet"),
        ("docs/paper.md", "all eight of DP-ERT", "tables", "DP-ERT: 8 of 8 cells meet"),
        ("docs/paper.md", "**32 of 32**", "oddities", "32 of 32 cells meet"),
        ("docs/paper.md", "DP-ERT on 9 of 10 data sets", "tables", "better than DP-ERT on 9 of 10 data sets"),
        ("docs/paper.md", "it holds on 6 of 10", "tables", "better than DP-ERT on 6 of 10 data sets"),
        ("docs/paper.md", "variants on 3 of 10", "tables", "DP-RF is better than the best of these three on 3 of 10"),
        (
            "docs/paper.md",
            "DP-RF is better on 6 of 10",
            "tables",
            "DP-RF is better than the best of these three on 6 of 10",
        ),
        ("docs/paper.md", "7 of the eight data sets", "tables", "on 7 of 8 data sets"),
        ("docs/paper.md", "it is better on 5.", "tables", "on 5 of 8 data sets"),
        ("docs/scale.md", "68 s | 265 MiB | 2.74", "scale", "| 67.9 | 80.0 | 0.80 | 2.16 | 2.74 | 265 |"),
        ("docs/scale.md", "74 s | 485 MiB | 1.25", "scale", "| 73.5 | 87.0 | 0.87 | 1.11 | 1.25 | 485 |"),
        ("docs/scale.md", "117 s | 264 MiB | 1.01", "scale", "| 116.8 | 188.3 | 1.88 | 1.00 | 1.01 | 264 |"),
        ("docs/scale-dask.md", "a forest took 1.20 times", "scale_dask", "| forest, dask | 1.7 | 0.4 | 2.4 | 1.20 |"),
        ("docs/scale-dask.md", "boosting 1.15 times", "scale_dask", "| boosting, dask | 9.8 | 1.3 | 16.0 | 1.15 |"),
        ("docs/scale-spark.md", "took 4 seconds", "scale_spark", "| forest | 0.2 | 4.1 |"),
        ("docs/scale-spark.md", "boosting 18, compared with 0.2 and 1.0", "scale_spark", "| boosting | 1.0 | 17.5 |"),
    ],
)
def test_claims_of_pages_match_results(page, text, results, source):
    assert text in text_of(page)
    assert source in result(results)


def test_discrepancies_of_the_paper_match_results():
    shown = re.findall(r"\d[\d.]* ± [\d.]*\d", text_of("docs/paper.md"))
    assert len(shown) >= 20
    assert [text for text in shown if text not in result("oddities")] == []


def test_wide_targets_are_worse_than_the_mean_on_as_many_tables_as_stated():
    for kind in ("forest", "boosting"):
        rows = [cells(row) for row in rows_of(RESULTS / "wide_ranges.md", rf"\| {kind} \| target")]
        scores = [float(row[7]) for row in rows]
        n_worse = NUMBER_WORDS[sum(score < 0 for score in scores)]
        assert f"worse than the mean on {n_worse} of five tables" in text_of("docs/domains.md")
        assert len(scores) == 5


def test_columns_of_correct_ranges_are_the_same_for_features_and_targets():
    rows = [cells(row) for row in rows_of(RESULTS / "wide_ranges.md", r"\| (forest|boosting) \|")]
    correct = {part: {(row[0], row[2]): row[4] for row in rows if row[1] == part} for part in ("features", "target")}
    assert correct["target"].items() <= correct["features"].items()
    assert len(correct["target"]) == 10


def test_least_information_of_notes_on_wide_targets():
    least = MIN_INFORMATION / QUANTILE_SHARE
    assert f"if records × ε is {int(least):,} or more" in text_of("docs/domains.md")


def test_budgets_cover_as_many_releases_as_stated():
    page = text_of("docs/budget.md")
    rng = np.random.default_rng()
    X, domain = rng.random((300, 1)), Domain({"x": Numeric(0, 1)}, Categorical(["no", "yes"]))
    model = DiPriMeBoostingClassifier(1.0, domain, delta=1e-6, n_rounds=1)
    assert "a budget of (3, 10⁻⁵) covers eight models with (1, 10⁻⁶)" in page
    budget = Budget(3, 1e-5)
    with budget:
        for _ in range(8):
            model.fit(X, rng.choice(["no", "yes"], 300))
    assert budget.remaining_epsilon(delta=1e-6) < 1
    assert "a budget of (3, 10⁻⁵) then covers a hundred scores with ε = 0.05" in page
    budget = Budget(3, 1e-5, pure_epsilon=0)
    for _ in range(100):
        budget.charge("score", epsilon=0.05)


def test_coverage_of_bands_is_that_of_the_audit_test():
    low, high = re.search(r"assert (0\.\d+) < coverage < (0\.\d+)\n", (ROOT / BANDS).read_text("utf-8")).groups()
    share = f"{100 * float(low):g} to {100 * float(high):g} %"
    assert f"Audit tests check that the bands cover {share} of the values" in text_of("docs/interpreting-models.md")


def test_effects_of_balanced_weights_match_results():
    pairs = {}
    for row in rows_of(RESULTS / "class_weights.md", r"\| (forest|boosting), (no weights|released)"):
        kind, *found = cells(row)
        pairs[kind] = [[float(text) for text in re.findall(r"(0\.\d+) ±", cell)] for cell in found if "±" in cell]
    compared = [
        [b > a for a, b in zip(before, after, strict=True)]
        for kind in ("forest", "boosting")
        for before, after in zip(pairs[f"{kind}, no weights"], pairs[f"{kind}, released values"], strict=True)
    ]
    higher, n_models = (NUMBER_WORDS[n] for n in (sum(balanced for _, balanced in compared), len(compared)))
    page = text_of("docs/class-weights.md")
    assert f"compared {n_models} models with and without balanced weights" in page
    assert f"raise the balanced accuracy of {higher} models, and lower the accuracy of all {n_models}" in page
    assert not any(accuracy for accuracy, _ in compared)


def coverages():
    """Return the coverage and the width of each cell, by population, score and test set."""
    found = {}
    for section in (RESULTS / "scores.md").read_text("utf-8").split("\n## ")[1:]:
        lines = section.splitlines()
        header, *rows = (cells(line) for line in lines if line.startswith("| "))
        for score, *values in rows:
            for test_set, value in zip(header[1:], values, strict=True):
                if value:
                    share, width = value.split("%, ")
                    found[lines[0], score, test_set] = float(share), float(width)
    return found


def test_coverage_of_scores_matches_results():
    page, found = text_of("docs/scores.md"), coverages()
    large = {population for population, *_ in found if population.startswith(("Ten ", "26 "))}
    assert f"on {len({population for population, *_ in found})} synthetic populations" in page
    lowest, (population, *_) = min((share, key) for key, (share, _) in found.items())
    assert f"among the {len(found)} cells of the table is {lowest:.1f} %, for ten classes and 60 repeats" in page
    assert population.startswith("Ten ")
    lowest = min(share for (population, *_), (share, _) in found.items() if population not in large)
    assert f"lowest coverage with up to four classes is {lowest:.1f} %" in page
    assert "of a coverage of 95 % is 1.4% and 2.8%" in result("scores")


@pytest.mark.parametrize(
    ("start", "test_set"),
    [
        ("1,000 (20,000 rows at ε = 0.05)", "n = 20,000, ε = 0.05"),
        ("100 (1,000 rows at ε = 0.1)", "n = 1,000, ε = 0.1"),
    ],
)
def test_half_widths_of_scores_match_results(start, test_set):
    lines = (ROOT / "docs/scores.md").read_text("utf-8").split(f"| {start} ")[1].splitlines()[:3]
    found = coverages()
    for line in lines:
        score, *shown = cells(line)[-3:]
        for text, population in zip(shown, ("Two classes", "Ten equal classes, perfect model"), strict=True):
            width = found[population, score, test_set][1]
            digits = len(text.split(".")[-1])
            assert text == ("not known" if width >= 1 else f"±{width / 2:.{digits}f}")


def test_private_searches_are_right_as_often_as_stated():
    [table] = re.findall(r"^## Two settings.*?(?=^## )", (RESULTS / "search.md").read_text("utf-8"), re.S | re.M)
    rows = [cells(line) for line in table.splitlines() if line.startswith("| ") and "of 20" in line]
    right = [int(row[5].split(" of ")[0]) for row in rows if float(row[3]) > 1.1]
    page = text_of("docs/search.md")
    assert len(rows) == 12
    assert "on [twelve data sets]" in page
    assert f"selected the better value in at least {min(right)} of 20 runs" in page


@pytest.mark.parametrize(
    ("page", "results", "start", "least"),
    [
        ("domains", "wide_ranges", r"\| (forest|boosting) \|", 10),
        ("benchmarks", "class_weights", r"\| (forest|boosting), (no weights|released|training)", 8),
    ],
)
def test_tables_of_pages_match_results(page, results, start, least):
    shown = rows_of(ROOT / f"docs/{page}.md", start)
    assert len(shown) >= least
    assert set(shown) <= set(rows_of(RESULTS / f"{results}.md", r"\|"))


def test_class_weight_table_matches_results():
    shown = re.findall(r"[+-]0\.\d{4} ± 0\.\d{4}", (ROOT / "docs/persons.md").read_text("utf-8"))
    results = (RESULTS / "persons.md").read_text("utf-8")
    assert len(shown) == 4
    assert [text for text in shown if text not in results] == []


def test_attack_numbers_of_the_page_match_results():
    """Each interval of an attack, and each row of the table on reconstruction."""
    page = (ROOT / "docs/audits.md").read_text("utf-8")
    results = (RESULTS / "attacks.md").read_text("utf-8")
    shown = re.findall(r"-?\d\.\d{3} \(-?\d\.\d{3} to \d\.\d{3}\)", page)
    assert len(shown) >= 10
    assert [text for text in shown if text not in results] == []
    for epsilon in ("0.1", "1", "10", "100"):
        [row] = rows_of(RESULTS / "attacks.md", rf"\| diprime, 20 random trees of depth 5 \| {epsilon} \| with the pop")
        assert f"| {epsilon} | {' | '.join(re.findall(r'[0-9]+%', row))} |" in page


def test_reconstructed_rows_without_noise_match_results():
    page = text_of("docs/audits.md")
    [row] = rows_of(RESULTS / "attacks.md", r"\| diprime, 20 random trees of depth 5 \| ∞ \| with the pop")
    cancer, _, credit, _ = re.findall(r"(\d+)%", row)
    assert f"{cancer} % (breast cancer) and {credit} % (credit default) of 25 rows" in page
    [row] = rows_of(RESULTS / "attacks.md", r"\| scikit-learn.*with the pop")
    _, share, _, same = re.findall(r"(\d+)%", row)
    assert share == same
    assert f"With scikit-learn's forest, {share} % of 100 rows are right." in page


@pytest.mark.parametrize(("learner", "text"), [("forest", "our forest"), ("boosting", "our boosting")])
def test_advantages_on_typical_records_match_results(learner, text):
    advantages = [
        float(cells(row)[4].split()[0]) for row in rows_of(RESULTS / "attacks.md", rf"\| {learner} .* typical")
    ]
    [bound] = re.findall(rf"at most (0\.\d\d) against {text}", text_of("docs/audits.md"))
    assert 0 <= float(bound) - max(advantages) < 0.01
    assert len(advantages) == 4


def test_speeds_of_the_page_match_results():
    page, results = (ROOT / "docs/benchmarks.md").read_text("utf-8"), (RESULTS / "speed.md").read_text("utf-8")
    shown = re.findall(r"\| \d+\.\d{3} \| \d+\.\d{2} \|", page)
    assert len(shown) >= 6
    assert [text for text in shown if text not in results] == []


def test_speed_of_the_readme_matches_the_page():
    page = (ROOT / "docs/benchmarks.md").read_text("utf-8")
    seconds = re.findall(r"\d\.\d{3}(?= s)", (ROOT / "README.md").read_text("utf-8"))
    assert len(seconds) >= 1
    assert [text for text in seconds if f"| {text} |" not in page] == []
