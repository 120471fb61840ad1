"""What a fitted model tells of its parameters: those of the fit, whatever they are changed to later."""

import pytest

from diprime import PrivateSearch, load, merge
from diprime.model.files import to_bytes
from diprime.report import render
from tests.small_data import BOOSTERS, DOMAINS, ESTIMATORS, TASKS, make


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", ["forest", "boosted"])
@pytest.mark.filterwarnings("ignore::diprime.PrivacyWarning")
def test_files_merged_models_and_reports_tell_what_was_fitted(task, kind, tmp_path):
    kinds = ESTIMATORS if kind == "forest" else BOOSTERS
    shape = {"max_depth": 2} if kind == "forest" else {"n_rounds": 3}
    model = kinds[task](1.0, "infer", **shape).fit(*make(task, 200))
    page, data = render(model), to_bytes(model._to_content())
    other = dict.fromkeys(shape, 4)
    model.set_params(epsilon=0.01, domain=DOMAINS[task], random_state=1, **other)
    assert render(model) == page
    assert to_bytes(model._to_content()) == data
    assert merge([model]).get_params(deep=False) | {"random_state": None} == model.get_params(deep=False) | {
        "epsilon": 1.0, "domain": "infer", "random_state": None, **shape
    }  # fmt: skip
    model.save(tmp_path / "model.diprime")
    back = load(tmp_path / "model.diprime")
    assert (back.epsilon, back.domain, back.random_state) == (1.0, "infer", None)
    assert back.fitted_params_ == model.fitted_params_
    assert "random_state" not in model.fitted_params_


def test_the_model_of_a_search_tells_the_epsilon_of_the_search():
    model = ESTIMATORS["regression"](domain=DOMAINS["regression"], max_depth=2)
    search = PrivateSearch(model, {"balance": [0, 1]}, epsilon=3.0).fit(*make("regression", 200))
    best = search.best_estimator_
    assert (best.epsilon, best.fitted_params_["epsilon"], best.privacy_.total) == (3.0, 3.0, 3)
    assert best.fitted_params_["balance"] == search.best_params_["balance"]
