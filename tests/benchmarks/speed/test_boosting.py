"""The bars of the speed of boosting, from made-up times: nothing is timed here."""

import pytest

from benchmarks.speed import boosting
from benchmarks.speed.measuring import make_data


class Peer:
    """A model that remembers what it was given."""

    def __init__(self):
        self.fits, self.predictions = [], []

    def fit(self, X, y):
        self.fits.append(len(X))
        return self

    def predict(self, X):
        self.predictions.append(len(X))


def test_peers_learn_as_many_rounds_from_all_rows_and_predict_them(monkeypatch):
    X, y = make_data(1500)
    lightgbm, ebm, sizes = Peer(), Peer(), []
    monkeypatch.setattr(boosting, "_lightgbm", lambda n_rounds, cores: sizes.append((n_rounds, cores)) or lightgbm)
    monkeypatch.setattr(boosting, "_ebm", lambda: ebm)
    fit, predict = boosting.measure_boosting(X, y, rounds=3, cores=2)
    n_rounds = boosting.boosting().fit(X, y).forest_.n_trees
    assert sizes == [(n_rounds, 2), (n_rounds, 1)]
    assert lightgbm.fits == [1500, 1500]
    assert lightgbm.predictions == [1500] * 3
    assert ebm.fits == [1500]
    assert not ebm.predictions
    assert list(fit)[:2] == list(predict) == [boosting.OURS, f"LightGBM, {n_rounds} rounds"]
    assert min(*fit.values(), *predict.values()) >= 0


@pytest.mark.parametrize(
    ("ebm", "lightgbm", "predict", "extra", "missed"),
    [
        (10, (10, 10), 1, 1, set()),
        (9, (10, 10), 1, 1, {0}),
        (10, (9, 10), 1, 1, {1}),
        (10, (10, 9), 1, 1, {1}),
        (10, (10, 10), 0.9, 1, {2}),
        (10, (10, 10), 1, 1.1, {3}),
    ],
)
def test_each_bar_is_about_its_own_ratio(monkeypatch, ebm, lightgbm, predict, extra, missed):
    fits = {boosting.OURS: 1.0, "LightGBM": lightgbm[0], "LightGBM, one core": lightgbm[1], "DP-EBM": ebm}
    times = fits, {boosting.OURS: 1.0, "LightGBM": predict}
    monkeypatch.setattr(boosting, "measure_boosting", lambda X, y, rounds, cores: times)
    monkeypatch.setattr(boosting, "measure_memory", lambda X, y, estimator: {"extra": extra, "input": 1.0})
    bars = [line for line in boosting.report_boosting(None, None, 1, 1) if line.startswith("* ")]
    assert len(bars) == 4
    assert {i for i, bar in enumerate(bars) if bar.startswith("* MISSED")} == missed
