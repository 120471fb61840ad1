"""Predict incomes above 50,000 with a private forest, from pandas categories and missing values."""

import numpy as np
import pandas as pd

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric, private_score

EDUCATION = ["none", "school", "bachelor", "master", "doctor"]
WORK = ["private", "public", "self-employed", "none"]
NO_WORK = WORK.index("none")
HIGH_INCOME_SCORE = 1.5
SHARE_WITHOUT_ANSWER = 0.05


def census(n: int, seed: int) -> pd.DataFrame:
    """Return synthetic people; in practice, this is the private table."""
    rng = np.random.default_rng(seed)
    education = rng.choice(5, n, p=[0.1, 0.5, 0.25, 0.12, 0.03])
    work = rng.choice(4, n, p=[0.62, 0.15, 0.13, 0.1])
    age, hours = rng.integers(17, 91, n), rng.normal(40, 11, n).clip(1, 99).round()
    score = education - ((age - 50) / 18) ** 2 + 0.06 * (hours - 40) - 2.0 * (work == NO_WORK) + rng.logistic(size=n)
    return pd.DataFrame(
        {
            "age": age,
            "education": pd.Categorical.from_codes(education, EDUCATION),
            "work": pd.Categorical.from_codes(work, WORK),
            "hours": np.where(rng.random(n) < SHARE_WITHOUT_ANSWER, np.nan, hours),
            "income": np.where(score > HIGH_INCOME_SCORE, ">50K", "<=50K"),
        }
    )


# Public knowledge, written without looking at the table: no line depends on the age or education of a person.
domain = Domain(
    {
        "age": Numeric(15, 100),
        "education": Categorical(EDUCATION),
        "work": Categorical(WORK),
        "hours": Numeric(0, 100),
    },
    target=Categorical(["<=50K", ">50K"]),
    target_name="income",
)


def main() -> None:
    """Fit with two budgets, and compare with a forest that is not private."""
    people, others = census(30_000, seed=1), census(10_000, seed=2)
    X, y = people.drop(columns="income"), people["income"]
    print(f"always the larger class      {others['income'].value_counts(normalize=True).max():.1%}")
    for epsilon in (0.1, 1.0, float("inf")):
        model = DiPriMeClassifier(epsilon, domain).fit(X, y)
        print(f"ε = {epsilon:<4} accuracy {model.score(others.drop(columns='income'), others['income']):20.1%}")
        if epsilon == 1.0:
            private = model

    print("\nImportances, from released numbers only:")
    for name, importance in sorted(
        zip(domain.encoded_feature_names, private.feature_importances_, strict=True), key=lambda p: -p[1]
    ):
        print(f"  {name:<10} {importance:.1%}")
    print(f"\n{private.privacy_}")

    # The people above are synthetic. On private test rows, exact accuracies would reveal facts, so use a private score.
    print(f"\n{private_score(private, others.drop(columns='income'), others['income'], epsilon=0.1)}")


if __name__ == "__main__":
    main()
