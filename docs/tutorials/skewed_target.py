"""Regression with a skewed target."""

# %%
# # Regression with a skewed target
#
# What will an insurance claim cost? Most claims are small and a few are very
# large. For a private model that is hard twice: the noise is proportional to the
# range of the target, and the squared error is made by a few records, which it
# must not follow.
#
# The table is made up, so that we know the truth and may look at everything.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from diprime import (
    Categorical,
    DiPriMeBoostingRegressor,
    DiPriMeRegressor,
    Domain,
    Integer,
    Numeric,
)
from diprime.plots import plot_shape


def claims(n, seed):
    """Return n insured people, and what their claims cost."""
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "mileage": rng.gamma(2, 8_000, n),
            "region": rng.choice(["city", "country", "town"], n),
        }
    )
    typical = (
        5
        + 0.04 * (people["age"] - 45).abs()
        + people["mileage"] / 25_000
        + 0.7 * (people["region"] == "city")
    )
    return people, np.exp(typical + rng.normal(0, 0.5, n))


X, y = claims(2_000, seed=1)
X_new, y_new = claims(5_000, seed=2)
print(pd.Series(y).describe(percentiles=[0.5, 0.9, 0.99]).round(0))

# %%
# On a linear scale, nearly all claims lie in the first bars. Public knowledge,
# from the terms of the contract: a claim costs between 10 and 1,000,000.

figure, axes = plt.subplots(1, 2, figsize=(9, 3))
for ax, values, label in (
    (axes[0], y, "cost"),
    (axes[1], np.log10(y), "log10 of the cost"),
):
    ax.hist(values, bins=60)
    ax.set_xlabel(label)
    ax.set_ylabel("claims")
# Figure: Two histograms of the costs: on a linear scale nearly all at the left
# end, on a log scale a bell

# %%
# ## As it is
#
# A target is `Numeric(low, high)`, with a range that is known without the data.

features = {
    "age": Integer(18, 100),
    "mileage": Numeric(0, 100_000),
    "region": Categorical(["city", "country", "town"]),
}


def errors(predicted):
    """Return what counts for whoever pays, and the factor of a typical claim."""
    factor = np.exp(np.median(np.abs(np.log(np.maximum(predicted, 10) / y_new))))
    error = np.mean(np.abs(predicted - y_new))
    return f"mean absolute error {error:6.0f}, off by a factor of {factor:.2f}"


print(f"{'always the mean':<24} {errors(np.full(len(y_new), y.mean()))}")
as_it_is = Domain(features, target=Numeric(0, 1_000_000))
for estimator in (
    DiPriMeRegressor(epsilon=1, domain=as_it_is),
    DiPriMeBoostingRegressor(epsilon=1, domain=as_it_is),
):
    predicted = estimator.fit(X, y).predict(X_new)
    print(f"{type(estimator).__name__:<24} {errors(predicted)}")

# %%
# The noise in a leaf is proportional to the range, and hundreds of times what a
# typical claim costs: with 2,000 people, models are about as good as a guess, or
# worse.
#
# ## A narrower range
#
# Claims above a bound count as the bound. The noise shrinks with the range, and
# predictions of large claims become too small. The bound must be public as well:
# choosing it by looking at the largest claims would tell about them.

narrow = Domain(features, target=Numeric(0, 10_000))
for estimator in (
    DiPriMeRegressor(epsilon=1, domain=narrow),
    DiPriMeBoostingRegressor(epsilon=1, domain=narrow),
):
    predicted = estimator.fit(X, y).predict(X_new)
    print(f"{type(estimator).__name__:<24} {errors(predicted)}")

# %%
# ## Logarithms
#
# If factors matter and not differences, learn the logarithm. The domain is that
# of the logarithm: 10 to 1,000,000 is 1 to 6. A prediction $\hat{y}$ is then a
# mean of logarithms, so that $10^{\hat{y}}$ is near the *median* cost, not near
# the mean, which is larger: do not use it as it is for money to be set aside.

logarithms = Domain(features, target=Numeric(1, 6), target_name="log10 of the cost")
forest = DiPriMeRegressor(epsilon=1, domain=logarithms).fit(X, np.log10(y))
boosted = DiPriMeBoostingRegressor(epsilon=1, domain=logarithms).fit(X, np.log10(y))
for model in (forest, boosted):
    print(f"{type(model).__name__:<24} {errors(10 ** model.predict(X_new))}")

# %%
# A boosted model is a sum of functions of one or two features, which can be
# looked at. In truth, the logarithm of a claim is lowest at the age of 45 and
# rises in both directions.

plot_shape(boosted, "age")
# Figure: What age adds to the logarithm of the cost: a valley with its lowest
# point in the middle forties

# %%
# ## What it cost
#
# On this page six models were fitted to the same people. With private data that
# would be six times ε = 1. Choose the target's scale from what you know about it,
# or on public data, and fit once.

print(boosted.privacy_)
