"""Regression with a skewed target."""

# %%
# # Regression with a skewed target
#
# How much will an insurance claim cost?
# Most claims are small, and a few are very large, which is difficult for a private
# model in two ways.
# The noise is proportional to the range of the target.
# A few records dominate the squared error, but a private model must not depend on
# single records.
#
# The table is synthetic, so we know the truth and may look at everything.

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
    """Return n insured people, and the costs of their claims."""
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
# On a linear scale, nearly all claims are in the first bars.
# The terms of the contract are public: a claim costs between 10 and 1,000,000.

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
# ## Full range
#
# A target is `Numeric(low, high)`, with a range that you know without the data.

features = {
    "age": Integer(18, 100),
    "mileage": Numeric(0, 100_000),
    "region": Categorical(["city", "country", "town"]),
}


def errors(predicted):
    """Return the mean absolute error and the median relative error, as text."""
    factor = np.exp(np.median(np.abs(np.log(np.maximum(predicted, 10) / y_new))))
    error = np.mean(np.abs(predicted - y_new))
    return f"mean absolute error {error:6.0f}, off by a factor of {factor:.2f}"


print(f"{'constant mean':<24} {errors(np.full(len(y_new), y.mean()))}")
as_it_is = Domain(features, target=Numeric(0, 1_000_000))
for estimator in (
    DiPriMeRegressor(epsilon=1, domain=as_it_is),
    DiPriMeBoostingRegressor(epsilon=1, domain=as_it_is),
):
    predicted = estimator.fit(X, y).predict(X_new)
    print(f"{type(estimator).__name__:<24} {errors(predicted)}")

# %%
# The noise in a leaf is proportional to the range, and is far larger than a typical
# claim.
# With 2,000 people, the models are therefore no better than a constant prediction,
# or worse.
#
# ## Narrower range
#
# With a narrower range, claims above its upper bound are clipped to this bound.
# The noise shrinks in proportion to the range, but the predictions of large claims
# become too small.
# The bound must be public as well: if you choose it by looking at the largest
# claims, it reveals something about them.

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
# If relative errors matter more than absolute errors, learn the logarithm.
# The domain then declares the range of the logarithm: 10 to 1,000,000 becomes 1 to
# 6.
# A prediction $\hat{y}$ is a mean of logarithms, so $10^{\hat{y}}$ is close to the
# *median* cost.
# The mean cost is larger, so do not use $10^{\hat{y}}$ to set money aside.

logarithms = Domain(features, target=Numeric(1, 6), target_name="log10 of the cost")
forest = DiPriMeRegressor(epsilon=1, domain=logarithms).fit(X, np.log10(y))
boosted = DiPriMeBoostingRegressor(epsilon=1, domain=logarithms).fit(X, np.log10(y))
for model in (forest, boosted):
    print(f"{type(model).__name__:<24} {errors(10 ** model.predict(X_new))}")

# %%
# A boosted model is a sum of functions of one or two features, which you can plot.
# In truth, the logarithm of a claim is smallest at the age of 45, and increases in
# both directions.

plot_shape(boosted, "age")
# Figure: The effect of age on the logarithm of the cost: a valley with its
# lowest point in the middle forties

# %%
# ## Cost of the comparison
#
# This page fits six models to the same people.
# With private data, they would cost six times ε = 1.
# Choose the scale of the target from prior knowledge or on public data, and fit
# once.

print(boosted.privacy_)
