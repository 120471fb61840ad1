"""Two hospitals learn together."""

# %%
# # Two hospitals
#
# Two hospitals want one model, but they may not share the records of their
# patients.
# Each hospital fits a private model to its own patients and sends the model file.
# The merged model costs a patient no more than the model of their own hospital,
# because each patient is in only one.
#
# The patients are synthetic, and older in the north than in the south.
# Which patients come back within a month?

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import diprime
from diprime import (
    Categorical,
    DiPriMeBoostingClassifier,
    Domain,
    Integer,
    Numeric,
    merge,
)
from diprime.plots import plot_budget, plot_shape


def patients(n, mean_age, seed):
    """Return n patients, and whether each of them comes back."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(mean_age, 12, n).round().clip(18, 100),
            "days": 1 + rng.poisson(4, n),
            "blood pressure": rng.normal(135, 18, n),
            "ward": rng.choice(["medicine", "surgery"], n),
        }
    )
    from_50 = table["age"] - 50
    risk = (
        -3
        + 0.1 * from_50.clip(0)
        - 0.05 * from_50.clip(None, 0)
        + 0.2 * table["days"]
        + (table["ward"] == "medicine")
    )
    return table, np.where(rng.logistic(size=n) < risk, "yes", "no")


hospitals = {
    "north": patients(1500, mean_age=70, seed=1),
    "south": patients(1500, mean_age=45, seed=2),
}

# %%
# ## Common domain
#
# Before they look at any data, the hospitals agree on a domain, on ε and on δ.
# Models can be merged only if their domains are equal.
# A domain is a text file, so the hospitals can send it and sign it like a contract.

domain = Domain(
    {
        "age": Integer(18, 100),
        "days": Integer(1, 30),
        "blood pressure": Numeric(60, 240),
        "ward": Categorical(["medicine", "surgery"]),
    },
    target=Categorical(["no", "yes"]),
    target_name="comes back",
)
agreement = domain.to_toml()

# %%
# ## Models of the hospitals
#
# A model file contains no records, and not even the exact number of patients.
# The hospital can publish it if it accepts ε and δ.

for name, (X, y) in hospitals.items():
    model = DiPriMeBoostingClassifier(
        epsilon=1, delta=1e-6, domain=Domain.from_toml(agreement)
    ).fit(X, y)
    model.save(f"{name}.diprime")

# %%
# ## Merged model
#
# `merge` requires models of *different people*.
# Only the hospitals can know that no patient is in both, so they assert this with
# `disjoint=True`.
# The ledger contains their assertion.
# For a patient of both hospitals, the costs of both models would add up.
# `merge` refuses models of one study, which share a budget.

models = {name: diprime.load(f"{name}.diprime") for name in hospitals}
models["both"] = merge(list(models.values()), disjoint=True)
print(
    str(models["both"].privacy_).split("\n\nModel 1")[0]
)  # without the ledgers of the two models, which follow

# %%
# The bars show the cost of each kind of release, for both models.

plot_budget(models["both"])
# Figure: Bars of the budgets of both merged models, divided by kind of
# release

# %%
# ## Comparison
#
# We score the models on new patients of both hospitals, without noise, because
# these patients are synthetic.
# The model of the south was trained on few old patients, so it fails on the
# patients of the north.

visitors = {
    "north": patients(3000, 70, seed=3),
    "south": patients(3000, 45, seed=4),
}
print("model   patients of the north   of the south")
for name, model in models.items():
    north, south = (model.score(X, y) for X, y in visitors.values())
    print(f"{name:<7} {north:21.1%}   {south:12.1%}")

# %%
# The merged model averages the scores of both models, weighted by their released
# numbers of records.
# For the north, it can therefore be worse than the hospital's own model, but it
# works for both hospitals.
# The plots compare the effect of age in the merged model with the effects in its
# two parts.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    plot_shape(model, "age", ax=ax)
    ax.set_title(name)
# Figure: The effect of age on the log-odds, in the models of the north, of the
# south and of both

# %%
# On the [command line](../command-line.md), run `diprime merge north.diprime
# south.diprime --disjoint -o both.diprime`.
# If you receive model files from others, a [signature](../saving.md#signatures)
# shows who vouches for them.
