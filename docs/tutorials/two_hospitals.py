"""Two hospitals learn together."""

# %%
# # Two hospitals
#
# Two hospitals want one model, and neither may give its patients' records to the
# other. Each fits a private model to its own patients and sends the file. The
# merged model costs a patient no more than the model of her own hospital, because
# she is in one of them only.
#
# The patients are made up: older in the north than in the south. Who comes back
# within a month?

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
# ## Before anybody looks at a patient
#
# The hospitals agree on a domain, and on what a patient's part may cost. Models
# can be merged if their domains are equal. It is a text file, so it can be sent
# and signed like a contract.

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
# ## In each hospital
#
# The file of a model holds no record, and not the number of patients either. It
# may leave the house once ε and δ are agreed.

for name, (X, y) in hospitals.items():
    model = DiPriMeBoostingClassifier(
        epsilon=1, delta=1e-6, domain=Domain.from_toml(agreement)
    ).fit(X, y)
    model.save(f"{name}.diprime")

# %%
# ## Where both files are
#
# `merge` takes models of *different people*. Nobody but the hospitals can know
# that there is no patient in both; if there is one, she pays both costs. Models
# of one study, which share a budget, are refused.

models = {name: diprime.load(f"{name}.diprime") for name in hospitals}
models["both"] = merge(list(models.values()))
print(
    str(models["both"].privacy_).split("\n\nModel 1")[0]
)  # without the ledgers of the two models, which follow

# %%
# The bars show what each of the two models spent, and on what.

plot_budget(models["both"])
# Figure: Bars of the budgets of both merged models, divided into what each kind
# of release cost

# %%
# ## Is it better?
#
# New patients of both hospitals tell, here without noise, because they are made
# up. The model of the south has hardly seen old people, and fails on those of the
# north.

visitors = {
    "north": patients(3000, 70, seed=3),
    "south": patients(3000, 45, seed=4),
}
print("model   patients of the north   of the south")
for name, model in models.items():
    north, south = (model.score(X, y) for X, y in visitors.values())
    print(f"{name:<7} {north:21.1%}   {south:12.1%}")

# %%
# The merged model has the mean of both scores, each weighted by its released
# number of records. So it may be worse for the north than that hospital's own
# model, but it is of use for both. What it has learnt about age can be set beside
# the two that it is made of.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    plot_shape(model, "age", ax=ax)
    ax.set_title(name)
# Figure: What age adds to the log-odds in the models of the north, of the south
# and of both

# %%
# `diprime merge north.diprime south.diprime -o both.diprime` does the same on the
# [command line](../command-line.md). For whoever gets such files from others,
# [signatures](../command-line.md#signatures) say who vouches for them.
