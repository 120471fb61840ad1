"""Predict bicycle hires with private boosting, and show the learnt functions of the hour."""

import numpy as np

from diprime import Categorical, DiPriMeBoostingRegressor, DiPriMeRegressor, Domain, Integer, Numeric

# Public knowledge, written down without looking at the trips.
domain = Domain(
    {
        "hour": Integer(0, 23),
        "temperature": Numeric(-20, 40),
        "day": Categorical(["working day", "weekend"]),
        "wind": Numeric(0, 100),
    },
    target=Numeric(0, 600),
    target_name="bicycles",
)
HOURS_SHOWN = range(0, 24, 3)


def hires(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return synthetic hours at hire stations and the numbers of hires; in practice, this is the private table."""
    rng = np.random.default_rng(seed)
    hour, temperature, wind = rng.integers(0, 24, n), rng.normal(12, 9, n), rng.gamma(3, 6, n)
    weekend = rng.random(n) < 2 / 7
    commuters = 180 * (np.exp(-(((hour - 8) / 1.5) ** 2)) + np.exp(-(((hour - 17) / 2) ** 2)))
    trippers = 150 * np.exp(-(((hour - 14) / 4) ** 2))
    mean = 60 + np.where(weekend, trippers, commuters) + 5 * temperature - wind
    X = np.empty((n, 4), dtype=object)
    X[:, 0], X[:, 1], X[:, 3] = hour, temperature, wind
    X[:, 2] = np.where(weekend, "weekend", "working day")
    return X, np.maximum(mean + rng.normal(0, 30, n), 0)


def draw_shape(model: DiPriMeBoostingRegressor, day: str) -> None:
    """Print the effect of the hour on a kind of day, which diprime.plots.plot_shape and the report plot."""
    rows = [[hour, 12.0, day, 18.0] for hour in HOURS_SHOWN]
    explanation = model.explain(rows)
    parts = explanation.to_dict()
    print(f"\nEffect of the hour on a {day}:")
    for i, hour in enumerate(HOURS_SHOWN):
        added = parts["hour"][i] + parts["hour × day"][i]
        bar = ("+" if added > 0 else "-") * round(abs(added) / 5)
        print(f"  {hour:>2} h  {added:+6.0f}  {bar}")


def main() -> None:
    """Compare a forest with boosting, explain a prediction, and show two functions of the hour."""
    X, y = hires(20_000, seed=1)
    X_new, y_new = hires(5_000, seed=2)
    forest = DiPriMeRegressor(epsilon=1.0, domain=domain).fit(X, y)
    # Boosting requires a delta far below one divided by the number of people. Both models spend the same epsilon.
    boosted = DiPriMeBoostingRegressor(epsilon=1.0, delta=1e-6, domain=domain).fit(X, y)
    print(f"always the mean                root of mean squared error {np.std(y_new):6.1f}")
    for name, model in (("forest, ε = 1", forest), ("boosting, ε = 1, δ = 1e-6", boosted)):
        error = np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2))
        print(f"{name:<30} root of mean squared error {error:6.1f}")

    print("\nA warm Saturday afternoon, term by term:")
    print(boosted.explain([[14, 25.0, "weekend", 10.0]]).row(0, most=5))
    draw_shape(boosted, "working day")
    draw_shape(boosted, "weekend")
    print(f"\n{boosted.privacy_}")


if __name__ == "__main__":
    main()
