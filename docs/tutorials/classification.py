"""A classification, from a table to a report."""

# %%
# # A classification, from a table to a report
#
# Is a tumour malignant?
# The table contains measurements of cell nuclei for 569 patients, and comes with
# scikit-learn.
# In this tutorial, you declare a domain, fit a private forest, read its ledger and
# score it on other patients.
# Finally, you write the report for a privacy officer.
#
# The data are public, but we treat them as private.
# All noise on this page is fresh, so the numbers differ each time the site is
# built.

from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import diprime
from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, private_score
from diprime.plots import plot_importances, plot_tree
from diprime.report import render

measures = [
    "mean radius",
    "mean texture",
    "mean concave points",
    "worst area",
    "worst smoothness",
]
data = load_breast_cancer(as_frame=True)
X, y = data.data[measures], data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.4, random_state=0
)

# %%
# ## Domain
#
# A domain declares the possible values of each column.
# You must know them without these rows, because the largest value in a table
# belongs to one person.
# The ranges below are round numbers that follow from the kind of measurement.
# Values outside a range are clipped.
# Ranges that are ten times too wide often cost little accuracy, and ranges that are
# a hundred times too wide cost much.
# Neither costs privacy.

domain = Domain(
    {
        "mean radius": Numeric(5, 30),
        "mean texture": Numeric(5, 50),
        "mean concave points": Numeric(0, 0.25),
        "worst area": Numeric(50, 5000),
        "worst smoothness": Numeric(0, 0.5),
    },
    target=Categorical(["malignant", "benign"]),
    target_name="diagnosis",
)
print(domain.to_toml())

# %%
# ## Fit
#
# One parameter, `epsilon`, limits how much the model can reveal about a patient.
# You need not tune anything.
# The number of trees, their depth and the shares of the budget follow from ε and
# from privately released counts.

model = DiPriMeClassifier(epsilon=2, domain=domain).fit(X_train, y_train)
print(model.predict(X_test[:5]))
print(model.predict_proba(X_test[:5]).round(2))

# %%
# ## Ledger
#
# The ledger has one row for each release: its mechanism, its sensitivity and its
# cost.
# The costs add up to exactly ε, as fractions.
# If something voided the guarantee, such as a seed, the ledger would contain a line
# *NOT PRIVATE* with the reason.

print(model.privacy_)

# %%
# ## Released model
#
# Importances, trees and all other views of a model are computed from released
# numbers, so they cost no privacy.

plot_importances(model)
# Figure: Bars of the importance of each of the five measurements in the private
# forest

# %%
# The ± after a count in a leaf is the standard deviation of its noise, so you can
# tell findings from noise.

figure, ax = plt.subplots(figsize=(9, 4.5))
plot_tree(model, ax=ax, max_depth=2)
# Figure: The first two levels of a tree, with the split of each node and the
# shares of both diagnoses

# %%
# ## Score
#
# The people in the test rows are patients too, so `model.score(X_test, y_test)`
# would publish an exact number about them.
# `private_score` has its own ε, and its intervals account for the noise and for the
# sample.
# No patient is in both the training set and the test set, so each patient is
# charged only once.

score = private_score(model, X_test, y_test, epsilon=1)
print(score)

# %%
# With 228 test rows, the intervals are wide.
# Their width depends on the number of test rows times ε.
#
# ## Model file and report
#
# A model file contains only released values.
# It contains no pickle, so opening it runs no code.

model.save("tumours.diprime")
again = diprime.load("tumours.diprime")
print((again.predict(X_test) == model.predict(X_test)).all())

page = render(
    again,
    score,
    dataset="Breast cancer, Wisconsin",
    responsible="the authors of this tutorial",
)
print(Path("report.html").write_text(page, encoding="utf-8") > 0)

# %%
# [Here is the report](report.html): one page that loads nothing from the network.
# [Reading a report](../reading-a-report.md) describes its sections.
#
# ## Effect of a seed
#
# Anyone who knows the seed can compute the noise and remove it.
# diprime therefore accepts a seed only for tests, and always warns:

seeded = DiPriMeClassifier(epsilon=2, domain=domain, random_state=0).fit(
    X_train, y_train
)
print(seeded.privacy_)

# %%
# Do not publish such a model.
# The only other seed on this page divides the rows into training and test rows,
# without using any of their values.
