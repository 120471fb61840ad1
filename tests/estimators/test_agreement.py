"""Parameters of fitted models and of their files are those that the ledger tells of."""

import pytest

from diprime import DiPriMeBoostingRegressor, DiPriMeRegressor, Domain, Numeric, load, merge
from diprime.estimators.agreement import check_agreement
from tests.small_data import make

X, Y = make("regression", 200)
OPEN = Domain({f"x{i}": Numeric() for i in range(X.shape[1])}, target=Numeric(-5, 5))
CLOSED = Domain({f"x{i}": Numeric(-5, 5) for i in range(X.shape[1])}, target=Numeric(-5, 5))
SMALL = {DiPriMeRegressor: {"n_estimators": 2}, DiPriMeBoostingRegressor: {"n_rounds": 3}}


@pytest.mark.parametrize("estimator", SMALL)
@pytest.mark.parametrize("domain", [CLOSED, OPEN, OPEN.learn(X, Y, epsilon=1)], ids=["closed", "open", "learnt"])
def test_fits_and_merged_fits_agree_with_their_ledgers(tmp_path, estimator, domain):
    persons = range(len(X))
    models = [estimator(e, domain, **SMALL[estimator]).fit(X, Y) for e in (1, 0.5)]
    more = estimator(0.5, CLOSED, **SMALL[estimator], max_records_per_group=3).fit(X, Y, groups=persons)
    fewer = estimator(1, CLOSED, **SMALL[estimator], max_records_per_group=2).fit(X, Y, groups=persons)
    same_domain = models if domain is not OPEN else models[:1]
    for model in (*models, merge(same_domain), more, merge([more, fewer])):
        check_agreement(model)
        model.save(tmp_path / "m")
        check_agreement(load(tmp_path / "m"))


@pytest.mark.parametrize(
    ("estimator", "name", "value"),
    [
        (DiPriMeRegressor, "epsilon", 2.0),
        (DiPriMeRegressor, "accounting", "paper"),
        (DiPriMeRegressor, "max_records_per_group", 2),
        (DiPriMeBoostingRegressor, "delta", 1e-7),
    ],
)
def test_parameters_that_are_not_those_of_the_ledger_disagree(estimator, name, value):
    model = estimator(1.0, CLOSED, **SMALL[estimator]).fit(X, Y).set_params(**{name: value})
    with pytest.raises(ValueError, match=f"^{name} is not that of its ledger"):
        check_agreement(model)


def test_a_ledger_does_not_spend_more_than_its_epsilon():
    model = DiPriMeRegressor(1.0, CLOSED, n_estimators=2).fit(X, Y)
    model.privacy_.charges *= 2
    with pytest.raises(ValueError, match="spends more than its epsilon"):
        check_agreement(model)
