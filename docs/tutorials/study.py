"""A study under one budget."""

# %%
# # A study under one budget
#
# A study consists of several fits and scores about the same people.
# A `Budget` adds up the costs of all these releases, and refuses a release that it
# does not cover.
# In this tutorial, one budget covers a learnt domain, a hyperparameter search, a
# forest, a boosted model and two scores.
#
# The table is synthetic.
# It contains 12,000 clients of a bank, some of whom default on a loan, and the
# ranges of the amounts are unknown.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from diprime import (
    Budget,
    BudgetError,
    Categorical,
    DiPriMeBoostingClassifier,
    DiPriMeClassifier,
    Domain,
    Integer,
    PrivateSearch,
    private_score,
)
from diprime.plots import plot_calibration, plot_roc

rng = np.random.default_rng(7)
n = 12_000
clients = pd.DataFrame(
    {
        "age": rng.integers(18, 90, n),
        "income": rng.lognormal(10.3, 0.6, n),
        "loan": rng.lognormal(9, 0.8, n),
        "late payments": rng.poisson(0.7, n),
        "home": rng.choice(["owner", "tenant"], n),
    }
)
risk = (
    -3
    + 3 * clients["loan"] / clients["income"]
    + 0.9 * clients["late payments"]
    - (clients["home"] == "owner")
)
defaults = np.where(rng.logistic(size=n) < risk, "yes", "no")

# Each client is either in the training set or in the test set.
tests = rng.random(n) < 0.3
training, testing = (
    (clients[~tests], defaults[~tests]),
    (clients[tests], defaults[tests]),
)

# %%
# ## Budget
#
# The budget of ε = 3 and δ = 10⁻⁶ covers all releases about these clients.
# `pure_epsilon=2` reserves a part of ε for releases without δ: the domain, the
# search and the scores.
# Without this reserve, the mixture of both kinds of releases would cost slightly
# more.
# Several processes can share the file, and `Budget.open("study.budget")` opens it
# again on another day.

budget = Budget.create("study.budget", epsilon=3, delta=1e-6, pure_epsilon=2)

# %%
# ## Learnt domain
#
# Features with known ranges and categories are declared.
# The ranges of income and loan are learnt privately, with a small part of the
# budget.

with budget:
    domain = Domain.learn(
        *training,
        epsilon=0.2,
        features={
            "age": Integer(18, 100),
            "late payments": Integer(0, 20),
            "home": Categorical(["owner", "tenant"]),
        },
        target=Categorical(["no", "yes"]),
    )
for name in ("income", "loan"):
    print(name, domain.features[name])

# %%
# ## Private search
#
# If you fit two models and keep one, you have spent the ε of both.
# `PrivateSearch` covers all fits and the selection with one ε.

with budget:
    search = PrivateSearch(
        DiPriMeClassifier(domain=domain), {"max_depth": [1, "auto"]}, epsilon=1
    ).fit(*training)
print("chosen:", search.best_params_)

# %%
# ## Boosted model
#
# Boosting uses Gaussian noise, whose cost is a number μ².
# Values of μ² add up to less than the corresponding values of ε.

with budget:
    boosted = DiPriMeBoostingClassifier(epsilon=1, delta=1e-7, domain=domain).fit(
        *training
    )

# %%
# ## Scores
#
# The test rows belong to other clients than the training rows.
# We charge the scores to the same budget nevertheless, so its guarantee covers
# every client in either set.

with budget:
    scores = {
        "forest": private_score(search.best_estimator_, *testing, epsilon=0.3),
        "boosting": private_score(boosted, *testing, epsilon=0.3),
    }
for name, score in scores.items():
    for metric in ("accuracy", "roc_auc"):
        found = getattr(score, metric)
        interval = f"{found.low:.3f} to {found.high:.3f}"
        print(f"{name:<8} {metric:<8} {found.value:.3f}, 95 %: {interval}")

# %%
# The curves are drawn from the same released tables, so they cost no further
# privacy.

figure, axes = plt.subplots(1, 2, figsize=(9, 4))
plot_roc(scores["boosting"], ax=axes[0])
plot_calibration(scores["boosting"], ax=axes[1])
# Figure: The ROC curve and the calibration of the boosted model on private test
# rows, with intervals

# %%
# ## Remaining budget
#
# The budget has one line for each charge, in order.

print(budget)

# %%
# A fit that exceeds the budget is refused before a row is read, and costs nothing:

try:
    with budget:
        DiPriMeClassifier(epsilon=2, domain=domain).fit(*training)
except BudgetError as error:
    print(f"BudgetError: {error}")

# %%
# A seed is refused as well, because the cost of a model that is not private is not
# defined:

try:
    with budget:
        DiPriMeClassifier(epsilon=0.1, domain=domain, random_state=0).fit(*training)
except BudgetError as error:
    print(f"BudgetError: {error}")

# %%
# [Privacy budgets](../budget.md) describes the charges and the budget file.
# [Private hyperparameter search](../search.md) explains when a search is worth its
# cost.
# [Private test scores](../scores.md) explains the intervals.
