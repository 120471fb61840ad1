"""Fit private models to scikit-learn's breast-cancer data, and compare them with a forest that is not private."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import ShuffleSplit

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric

# The domain is public, so do NOT take these ranges from the data: the smallest and largest values belong to single
# patients. The ranges are round numbers that follow from the kind of measurement on images of cell nuclei:
#
# * a nucleus has a radius of 5 to 30 units, the largest of an image up to 40; perimeters and areas follow as 2πr, πr²;
# * texture is the standard deviation of grey values;
# * the other measures of shape are ratios, near zero for a smooth round outline;
# * "error" is the standard error over the nuclei of an image, about a tenth of the measure; "worst" is the mean of the
#   three largest.
#
# Values outside their range are clipped, and a range that is too wide costs a little accuracy. Neither costs privacy.
RANGES = {
    "mean radius": (5, 30),
    "mean texture": (5, 50),
    "mean perimeter": (30, 200),
    "mean area": (50, 3000),
    "mean smoothness": (0, 0.25),
    "mean compactness": (0, 0.5),
    "mean concavity": (0, 0.5),
    "mean concave points": (0, 0.25),
    "mean symmetry": (0, 0.5),
    "mean fractal dimension": (0, 0.2),
    "radius error": (0, 3),
    "texture error": (0, 5),
    "perimeter error": (0, 20),
    "area error": (0, 300),
    "smoothness error": (0, 0.05),
    "compactness error": (0, 0.2),
    "concavity error": (0, 0.5),
    "concave points error": (0, 0.1),
    "symmetry error": (0, 0.1),
    "fractal dimension error": (0, 0.05),
    "worst radius": (5, 40),
    "worst texture": (5, 60),
    "worst perimeter": (30, 250),
    "worst area": (50, 5000),
    "worst smoothness": (0, 0.5),
    "worst compactness": (0, 1.5),
    "worst concavity": (0, 1.5),
    "worst concave points": (0, 0.5),
    "worst symmetry": (0, 1),
    "worst fractal dimension": (0, 0.5),
}
DOMAIN = Domain(
    {name: Numeric(low, high) for name, (low, high) in RANGES.items()},
    target=Categorical(["malignant", "benign"]),
)
N_SPLITS = 10


def main() -> None:
    """Print accuracies over random splits, then the ledger of one private model."""
    data = load_breast_cancer()
    X, y = data.data, data.target_names[data.target]
    if list(data.feature_names) != list(RANGES):
        raise ValueError("The columns of the data are not those of the domain.")

    # The private models have no random_state, because anyone who knows the seed can remove the noise.
    models = {
        "majority class": DummyClassifier(strategy="most_frequent"),
        "DiPriMe forest, ε = 1": DiPriMeClassifier(epsilon=1.0, domain=DOMAIN),
        "DiPriMe forest, ε = 10": DiPriMeClassifier(epsilon=10.0, domain=DOMAIN),
        "boosting, ε = 1, δ = 1e-6": DiPriMeBoostingClassifier(epsilon=1.0, delta=1e-6, domain=DOMAIN),
        "random forest, no privacy": RandomForestClassifier(random_state=0),
    }

    # These data are public. With private data, each split would spend ε again, and exact accuracies would leak.
    splits = list(ShuffleSplit(N_SPLITS, test_size=0.2, random_state=0).split(X))
    print(f"Breast cancer, malignant or benign: {X.shape[0]} patients, {X.shape[1]} measurements.")
    print(f"Accuracy on a fifth held out, mean ± standard deviation over {N_SPLITS} random splits:\n")
    for name, model in models.items():
        scores = [model.fit(X[train], y[train]).score(X[test], y[test]) for train, test in splits]
        print(f"  {name:<26} {np.mean(scores):6.1%} ± {np.std(scores):.1%}", flush=True)

    print("\nThe ledger of a private forest, ε = 1:\n")
    print(DiPriMeClassifier(epsilon=1.0, domain=DOMAIN).fit(X, y).privacy_)


if __name__ == "__main__":
    main()
