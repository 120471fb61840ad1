"""The settings that a search chooses among, and the estimators that it takes."""

import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier

from diprime import DiPriMeBoostingClassifier, DiPriMeClassifier
from diprime.search.candidates import FIXED, check_estimator, describe, list_settings, with_setting
from tests.small_data import DOMAINS


def test_all_combinations_of_lists_are_settings():
    settings = list_settings({"max_depth": [1, "auto"], "balance": [0, 1]}, None, None)
    assert len(settings) == 4
    assert {"max_depth": "auto", "balance": 0} in settings
    assert list_settings([{"max_depth": [1]}, {"method": ["random"]}], None, None) == [
        {"max_depth": 1},
        {"method": "random"},
    ]


def test_settings_are_drawn_from_distributions():
    distributions = {"split_share": stats.uniform(0.1, 0.8), "max_depth": [1, 2, 3]}
    settings = list_settings(distributions, 20, 0)
    assert len(settings) == 20
    assert all(0.1 <= s["split_share"] <= 0.9 and s["max_depth"] in (1, 2, 3) for s in settings)
    assert settings == list_settings(distributions, 20, 0)
    with pytest.raises(ValueError, match="give n_iter"):
        list_settings(distributions, None, None)


@pytest.mark.parametrize("n_iter", [0, -1, 2.0, True, "3"])
def test_an_impossible_number_of_settings_is_refused(n_iter):
    with pytest.raises(ValueError, match="n_iter must be an integer from 1"):
        list_settings({"max_depth": [1]}, n_iter, None)


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_is_promised_cannot_be_chosen(name):
    with pytest.raises(ValueError, match=f"cannot choose {name}"):
        list_settings([{"max_depth": [1]}, {name: [1, 2]}], None, None)


def test_fixed_parameters_are_those_that_decide_about_privacy_or_one_machine():
    decisive = {"epsilon", "delta", "domain", "accounting", "max_records_per_group", "random_state"}
    assert sorted(FIXED) == sorted({*decisive, "class_weight", "n_jobs", "verbose"}), "errors have no weights"


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (RandomForestClassifier(), "must be one of diprime's, got RandomForestClassifier"),
        (DiPriMeClassifier, "must be one of diprime's, got ABCMeta"),
        (DiPriMeClassifier(epsilon=2), "give epsilon to PrivateSearch"),
        (DiPriMeBoostingClassifier(random_state=1), "give random_state to PrivateSearch"),
        (DiPriMeClassifier(accounting="paper"), 'needs accounting="strict"'),
    ],
)
def test_an_estimator_whose_fits_cannot_be_paid_for_is_refused(estimator, message):
    with pytest.raises((TypeError, ValueError), match=message):
        check_estimator(estimator)


def test_a_setting_is_put_into_a_copy_that_is_silent():
    estimator = DiPriMeClassifier(domain=DOMAINS["classification"], verbose=1)
    model = with_setting(estimator, {"max_depth": 3}, 7)
    assert (model.max_depth, model.epsilon, model.verbose) == (3, 7, 0)
    assert model.domain == DOMAINS["classification"]
    assert (estimator.max_depth, estimator.epsilon, estimator.verbose) == ("auto", 1.0, 1)


def test_settings_are_listed_in_words_and_not_all_of_many():
    assert describe([{"b": 1, "a": "auto"}, {}]) == "a=auto, b=1; defaults"
    assert describe([{"a": i} for i in range(9)]).endswith("a=5; and 3 more")
