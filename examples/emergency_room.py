"""Predict long waits in an emergency room, from dates and integers without preprocessing."""

import numpy as np

from diprime import Categorical, Date, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Integer
from diprime.inspection.views import read_tree

# Public knowledge, written without looking at the patients. The date column becomes four features: "arrived" itself,
# "arrived.weekday", "arrived.month" and "arrived.hour".
domain = Domain(
    {
        "arrived": Date("2021-01-01", "2024-12-31", parts=["weekday", "month", "hour"]),
        "age": Integer(0, 110),
        "urgency": Integer(1, 5),
    },
    target=Categorical(["short wait", "long wait"]),
)
DAYS = range(1, 8)  # the first of January 2024 was a Monday
SATURDAY, EVENING = 5, 18


def patients(n: int, seed: int) -> tuple[list[list[object]], np.ndarray]:
    """Return synthetic patients and whether they waited long; in practice, the private table."""
    rng = np.random.default_rng(seed)
    arrived = np.datetime64("2021-01-01T00:00", "m") + rng.integers(0, 4 * 365 * 24 * 60, n)
    days = arrived.astype("M8[D]").astype(int)
    weekend, hour = (days + 3) % 7 >= SATURDAY, arrived.astype("M8[h]").astype(int) % 24
    age, urgency = rng.integers(0, 100, n), rng.integers(1, 6, n)
    score = -2.5 + 1.5 * weekend + 2.0 * (hour >= EVENING) + 0.6 * (urgency - 3)
    waits = np.where(score + rng.logistic(size=n) > 0, "long wait", "short wait")
    return [list(row) for row in zip(arrived.tolist(), age.tolist(), urgency.tolist(), strict=True)], waits


def main() -> None:
    """Compare a forest with boosting, and show the learnt effects of evenings and weekends."""
    X, y = patients(20_000, seed=1)
    X_new, y_new = patients(5_000, seed=2)
    forest = DiPriMeClassifier(epsilon=1.0, domain=domain).fit(X, y)
    boosted = DiPriMeBoostingClassifier(epsilon=1.0, delta=1e-6, domain=domain).fit(X, y)
    print(f"always the larger class        accuracy {max(np.mean(y_new == c) for c in set(y_new)):.1%}")
    for name, model in (("forest, ε = 1", forest), ("boosting, ε = 1, δ = 1e-6", boosted)):
        print(f"{name:<30} accuracy {model.score(X_new, y_new):.1%}")

    print(f"\nThe first split of the first tree: {read_tree(forest, 0).conditions[1]}")
    print("\nImportances of the boosted model:")
    for feature, importance in zip(domain.encoded_feature_names, boosted.feature_importances_, strict=True):
        print(f"  {feature:<16} {importance:4.0%}")

    # Dates can also be text.
    added = boosted.explain([[f"2024-01-{day:02} 20:00", 40, 3] for day in DAYS]).to_dict()
    print("\nEffect of the day of the week on the log-odds of a short wait:")
    names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
    for name, value in zip(names, added["arrived.weekday"], strict=True):
        print(f"  {name:<10} {value:+.2f}")
    print(f"\n{boosted.privacy_}")


if __name__ == "__main__":
    main()
