"""The bars of the utility benchmark are judged correctly, from synthetic scores: nothing is learnt here."""

import math

import pytest
from scipy import stats

from benchmarks.data import ALL_NAMES, MULTICLASS, NAMES
from benchmarks.paper.published import best_private
from benchmarks.utility.boosting_report import TARGETS, of_rivals
from benchmarks.utility.contenders import CONTENDERS, LIMIT, OUR_EPSILONS, RIVAL_EPSILONS
from benchmarks.utility.report import report
from benchmarks.utility.results import Key, Results
from benchmarks.utility.scores import Facts, Scores, standard_error

REGRESSION = NAMES[:5]
N_BARS = 23


def facts():
    return [
        Facts(name, name, "mse" if number else "accuracy", 10.0 if number else 2.0, 100, 5, "")
        for name in ALL_NAMES
        for number in [name in (*REGRESSION, "abalone")]
    ]


def fill(results, contender, name, error, epsilons):
    """Give all repeats an error, which falls a little with epsilon; accuracies and AUCs follow from it."""
    for epsilon in epsilons:
        for repeat in range(CONTENDERS[contender].repeats_on(100)):
            wobble = 1e-7 * math.sin(7 * repeat + epsilon if epsilon < math.inf else repeat)
            value = error * (1 + 1e-6 / epsilon) + wobble
            scores = {"mse": value} if name in REGRESSION else {"accuracy": 1 - value, "auc": 1 - value / 2}
            results.put(Key(contender, name, epsilon), "r", repeat, scores)


def error_of(metric, score):
    return score if metric == "mse" else 1 - score if metric == "accuracy" else 2 * (1 - score)


@pytest.fixture
def good(tmp_path):
    """Return results by which every bar is met."""
    results = Results(tmp_path / "results.json")
    for name in (*NAMES, *MULTICLASS):
        ours = 0.5 * best_private(name)[1].error if name in NAMES else 0.1
        fill(results, "ours", name, ours, OUR_EPSILONS)
        fill(results, "ours-limit", name, ours, LIMIT)
        fill(results, "dp-ebm", name, 1.1 * ours, CONTENDERS["dp-ebm"].epsilons)
        fill(results, "diffprivlib", name, 1.2 * ours, CONTENDERS["diffprivlib"].epsilons)
        # Low enough for the bars that are numbers, whatever the paper's best is.
        boosted = min([0.8 * ours, *(error_of(metric, bar) / 2 for n, metric, bar in TARGETS if n == name)])
        fill(results, "boosting", name, boosted, OUR_EPSILONS)
        fill(results, "boosting-limit", name, boosted, LIMIT)
        fill(results, "hist-boosting", name, boosted, [math.inf])
    return results


def bars(results):
    """Return what the table of bars says, a word for each."""
    lines = report(results, facts()).split("| bar | verdict | result |")[1].split("\n\n")[0].splitlines()[2:]
    return [line.split(" | ")[1] for line in lines]


def spoil(results, contender, names, factor, epsilons):
    for name in names:
        of = "boosting" if "boosting" in contender else "ours"
        error = results.of(of, name, 1.0, "mse" if name in REGRESSION else "accuracy").mean()
        fill(results, contender, name, factor * (error if name in REGRESSION else 1 - error), epsilons)


def test_all_bars_are_met_by_good_results(good):
    assert bars(good) == ["met"] * N_BARS


@pytest.mark.parametrize(
    ("spoilt", "missed"),
    [
        (("ours", ["metro"], 2.5, [10.0]), {0}),
        (("ours", ["banknote"], 2.5, [2.0]), {0, 4}),  # behind diffprivlib too
        (("ours", ["flight"], 2.5, [8.0]), set()),  # not the paper's data, and one of five against DP-EBM
        (("ours", NAMES[:3], 9, [1.0]), {3}),
        (("ours", ["metro", "turbine"], 9, [1.0]), set()),
        (("ours", NAMES[5:7], 9, [0.2]), set()),
        (("dp-ebm", REGRESSION[:3], 0.9, [4.0]), {3}),
        (("dp-ebm", REGRESSION[:2], 0.9, [4.0]), set()),
        (("dp-ebm", REGRESSION, 0.9, [0.5]), set()),  # the bar begins at one
        (("dp-ebm", ["banknote", "credit"], 0.9, [8.0]), {2}),
        (("dp-ebm", ["banknote", "puc"], 0.9, [8.0]), set()),  # PUC-Rio has a tolerance
        (("diffprivlib", ["puc5"], 0.99, [0.5]), {4}),
        (("ours-limit", ["robot4"], 1.06, [1000.0]), {6}),
        (("ours-limit", ["robot4"], 1.04, [1000.0]), set()),
        (("ours", ["robot4"], 1.01, [30.0]), {5}),
        (("ours", ["robot4"], 0.9, [30.0]), {5}),  # then it rises to what it is at 100
        # DP-EBM's and the forest's errors are 1.375 and 1.25 times those of boosting, or more.
        (("boosting", ["robot"], 1.3, [0.5]), set()),
        (("boosting", ["robot"], 1.4, [0.5]), {8}),
        (("boosting", ["robot"], 1.3, [8.0]), set()),  # one of five behind the forest
        (("boosting", ["robot", "banknote"], 1.3, [8.0]), {9, 10}),
        (("boosting", ["banknote"], 1.3, [8.0]), {10}),
        (("boosting", ["banknote"], 1.3, [0.5]), set()),  # the bars against the forest begin at one
        (("boosting", ["parkinsons"], 1.3, [2.0]), set()),
        (("boosting", ["parkinsons", "flight"], 1.3, [2.0]), {11}),
        (("boosting", ["parkinsons"], 1.4, [2.0]), {12}),
        (("boosting", ["parkinsons"], 1.4, [0.5]), set()),
        (("boosting", ["robot4"], 1.01, [30.0]), {20}),
        (("boosting-limit", ["robot4"], 1.06, [1000.0]), {21}),
        (("boosting-limit", ["robot4"], 1.04, [1000.0]), set()),
        (("boosting-limit", ["robot4"], 0.9, [math.inf]), {21}),
        (("hist-boosting", ["robot"], 0.0, [math.inf]), set()),
    ],
)
def test_each_bar_fails_only_on_its_own_condition(good, spoilt, missed):
    spoil(good, *spoilt)
    # What spoils a score at one epsilon also makes a rise; only the cases of that bar are about it.
    ignored = {5, 20} - missed
    assert {i for i, word in enumerate(bars(good)) if word == "**MISSED**"} - ignored == missed


def test_differences_within_chance_are_ties(good):
    """Scores that vary by more than they differ are level, whichever mean is higher."""
    for repeat in range(10):
        score = {"accuracy": 0.9 + 0.01 * math.sin(7 * repeat), "auc": 0.9}
        good.put(Key("ours", "banknote", 4.0), "r", repeat, {**score, "accuracy": score["accuracy"] + 1e-3})
        noisy = score["accuracy"] + 0.01 * math.sin(5 * repeat)
        good.put(Key("dp-ebm", "banknote", 4.0), "r", repeat, {**score, "accuracy": noisy})
    scores = Scores(good, {f.name: f for f in facts()})
    assert [scores.lead("ours", "dp-ebm", name, 4.0, "accuracy") for name in ("banknote", "credit")] == [0, 1]
    assert scores.lead("dp-ebm", "ours", "credit", 4.0, "accuracy") == -1
    assert scores.lead("dp-ebm", "ours", "metro", 4.0, "mse") == -1
    assert scores.lead("ours", "hist-boosting", "robot", 4.0, "accuracy") is None
    text = report(good, facts()).split("## Comparison of forest and DP-EBM")[1].split("| AUC |")[0]
    cells = [line.split(" | ")[4] for line in text.splitlines() if line.startswith(("| banknote", "| ahead"))]
    assert "**" not in cells[0]
    assert cells[1] == "4 / 1 / 0"


def test_rivals_are_compared_on_the_splits_of_all(good):
    """Boosting has ten splits and rivals have five; what happens on the other five does not count."""
    for epsilon in RIVAL_EPSILONS:
        for repeat in range(10):
            far = {"accuracy": 0.5, "auc": 0.5}
            good.put(Key("boosting", "credit", epsilon), "r", repeat, far if repeat >= 5 else {**far, "auc": 0.8})
        for repeat in range(5):
            score = 0.7 + 0.01 * math.sin(7 * repeat)
            good.put(Key("dp-sgd-linear", "credit", epsilon), "r", repeat, {"accuracy": 0.5, "auc": score})
            level = 0.8 + (epsilon == 0.1) * 0.01 * math.sin(5 * repeat)
            good.put(Key("dp-gd-linear", "credit", epsilon), "r", repeat, {"accuracy": 0.5, "auc": level})
    scores = Scores(good, {f.name: f for f in facts()})
    assert scores.lead("boosting", "dp-sgd-linear", "credit", 0.2, "auc") == 1
    assert scores.lead("dp-sgd-linear", "boosting", "credit", 0.2, "auc") == -1
    assert scores.lead("boosting", "dp-sgd-network", "credit", 0.2, "auc") is None
    text = of_rivals(scores)[1]
    [line] = [line for line in text.splitlines() if line.startswith("| credit |")]
    cells = [[part.strip() for part in cell.split(" / ")] for cell in line.strip("| ").split(" | ")[1:]]
    assert len(cells) == len(RIVAL_EPSILONS)
    for ours, linear, network, full in cells:
        assert ours == "**0.8000**"
        assert not linear.startswith("**")
        assert network == "–"
        assert full.startswith("**")


def test_published_scores_of_s_bdt_stand_beside_ours_in_their_unit(good):
    for epsilon in CONTENDERS["boosting-s-bdt"].epsilons:
        for repeat in range(CONTENDERS["boosting-s-bdt"].repeats):
            good.put(Key("boosting-s-bdt", "abalone", epsilon), "r", repeat, {"mse": (2.5 / 28) ** 2})
    lines = of_rivals(Scores(good, {f.name: f for f in facts()}))[1].split("## Published")[1].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| a")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["adult, AUC: S-BDT", "0.787", "0.849", "", "0.876", "", "", "0.893"],
        ["adult, AUC: diprime boosting", "–", "–", "", "–", "", "", "–"],
        ["abalone, RMSE: S-BDT", "", "", "2.92", "2.75", "2.66", "2.62", "2.58"],
        ["abalone, RMSE: diprime boosting", "", "", *["2.50"] * 5],
    ]


def test_standard_error_of_overlapping_splits_is_corrected():
    scores = [1.0, 2.0, 3.0, 4.0] * 5
    assert standard_error(scores, 0) == pytest.approx(stats.sem(scores))
    assert standard_error(scores) == pytest.approx(stats.sem(scores) * math.sqrt(1 + 20 / 9))
