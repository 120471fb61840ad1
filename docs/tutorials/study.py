"""A study under one budget."""

# %%
# # A study under one budget
#
# A fit is private; a study is several fits and scores of the same people.
# `Budget` adds up all that is released about them, and refuses what goes beyond.
# Here a domain is learnt, a setting is chosen, a forest and a boosted model are
# fitted, and both are scored.
#
# The table is made up: 12,000 clients of a bank, and who of them does not pay
# back a loan. Nobody tells us the ranges of money.

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

# Clients who test are drawn by themselves: nobody both trains and tests.
tests = rng.random(n) < 0.3
training, testing = (
    (clients[~tests], defaults[~tests]),
    (clients[tests], defaults[tests]),
)

# %%
# ## The budget
#
# ε = 3 and δ = 10⁻⁶ for everything that will ever be released about these
# clients. `pure=2` keeps a part for releases without δ (the domain, the search,
# the scores), so that their costs and those of boosting add up without loss. The
# file can be shared by processes and opened another day:
# `Budget.open("study.budget")`.

budget = Budget.create("study.budget", epsilon=3, delta=1e-6, pure=2)

# %%
# ## A domain
#
# What everybody knows is declared. The ranges of income and loan are learnt
# privately, for a small part of the budget.

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
# ## A choice
#
# Who tries two settings and keeps one has spent both. `PrivateSearch` pays for
# all fits and for the choice from one ε.

with budget:
    search = PrivateSearch(
        DiPriMeClassifier(domain=domain), {"max_depth": [1, "auto"]}, epsilon=1
    ).fit(*training)
print("chosen:", search.best_params_)

# %%
# ## A boosted model
#
# Its noise is normal, and it costs μ², which adds up more cheaply than ε.

with budget:
    boosted = DiPriMeBoostingClassifier(epsilon=1, delta=1e-7, domain=domain).fit(
        *training
    )

# %%
# ## How good are they?
#
# The scores are about the clients who test. They are other people than those who
# train; we charge them to the same budget all the same, so that its promise holds
# for every client, whichever part she is in.

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
# Curves are drawn from the same released tables, so they cost nothing more.

figure, axes = plt.subplots(1, 2, figsize=(9, 4))
plot_roc(scores["boosting"], ax=axes[0])
plot_calibration(scores["boosting"], ax=axes[1])
# Figure: The ROC curve and the calibration of the boosted model on private test
# rows, with intervals

# %%
# ## What is left
#
# Every charge has a line, in the order in which it was made.

print(budget)

# %%
# What does not fit is refused before a row is read, and costs nothing:

try:
    with budget:
        DiPriMeClassifier(epsilon=2, domain=domain).fit(*training)
except BudgetError as error:
    print(f"BudgetError: {error}")

# %%
# So is a seed, because a model that is not private has no cost that could be
# added up:

try:
    with budget:
        DiPriMeClassifier(epsilon=0.1, domain=domain, random_state=0).fit(*training)
except BudgetError as error:
    print(f"BudgetError: {error}")

# %%
# [One budget](../budget.md) says what is charged and how to keep the file,
# [choosing settings](../search.md) when a search is worth its cost, and [private
# scores](../scores.md) what the intervals mean.
