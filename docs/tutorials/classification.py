"""A classification, from a table to a report."""

# %%
# # A classification, from a table to a report
#
# Is a tumour malignant? The table has 569 patients and measurements of cell
# nuclei; it comes with scikit-learn. We declare what is public, fit a private
# forest, look at its ledger, score it on other patients, and write the page that
# goes to a privacy officer.
#
# The data are public, but we treat them as if they were not. All noise on this
# page is fresh: the numbers differ each time that the site is built.

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
# ## What is public
#
# A domain says which values a column may have. It must be known without these
# rows: the largest value of a table belongs to somebody. The ranges below are
# round numbers that follow from what is measured. A value outside of its range is
# clamped; a range that is too wide costs a little accuracy. Neither costs
# privacy.

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
# ## The fit
#
# One number sets how much may be told about a patient, `epsilon`. There is
# nothing to tune: the number of trees, their depth and the parts of the budget
# follow from ε and from counts that are released privately.

model = DiPriMeClassifier(epsilon=2, domain=domain).fit(X_train, y_train)
print(model.predict(X_test[:5]))
print(model.predict_proba(X_test[:5]).round(2))

# %%
# ## The ledger
#
# Everything that the fit released has a line in the ledger: what it was, by which
# mechanism, and what it cost. The costs add up to ε exactly, as fractions.
# "Waived" would list what takes the guarantee away, such as a seed; here is
# nothing.

print(model.privacy_)

# %%
# ## What the model has learnt
#
# Importances, trees and everything else that a model shows is computed from
# released numbers, so looking at it costs nothing.

plot_importances(model)
# Figure: Bars of the importance of each of the five measurements in the private
# forest

# %%
# Leaves state the noise that was added to their counts, so that nobody takes
# noise for a finding.

figure, ax = plt.subplots(figsize=(9, 4.5))
plot_tree(model, ax=ax, max_depth=2)
# Figure: The first two levels of a tree, with the split of each node and the
# shares of both diagnoses

# %%
# ## How good is it?
#
# The test rows are patients, too. `model.score(X_test, y_test)` would publish an
# exact number about them. `private_score` has an ε of its own, and its intervals
# allow for the noise and for the sample. The people of the test rows are not
# those of the training rows, so nobody pays twice.

score = private_score(model, X_test, y_test, epsilon=1)
print(score)

# %%
# With 228 test rows the intervals are wide. What counts is the number of test
# rows times ε.
#
# ## The file and the report
#
# A model file holds what was released and nothing else. It is not a pickle:
# opening one runs no code.

model.save("tumours.diprime")
again = diprime.load("tumours.diprime")
print((again.predict(X_test) == model.predict(X_test)).all())

page = render(
    again,
    score,
    data="Breast cancer, Wisconsin",
    responsible="the authors of this tutorial",
)
print(Path("report.html").write_text(page, encoding="utf-8") > 0)

# %%
# [Here is the report](report.html): one page that fetches nothing. [Reading a
# report](../reading-a-report.md) goes through it.
#
# ## What a seed does
#
# Whoever knows a seed can compute the noise and take it away. A seed is therefore
# allowed, for tests, and never passes in silence:

seeded = DiPriMeClassifier(epsilon=2, domain=domain, random_state=0).fit(
    X_train, y_train
)
print(seeded.privacy_)

# %%
# Such a model must not be released. Nothing else on this page was seeded but the
# split into training and test rows, which looks at no value.
