"""Predict rents privately, with a feature that spans five orders of magnitude."""

import numpy as np

from diprime import DiPriMeRegressor, Domain, Numeric


def flats(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return synthetic flats (size in m², distance to the centre in km, savings of the tenant) and their rents."""
    rng = np.random.default_rng(seed)
    size, distance = rng.gamma(6, 12, n), rng.exponential(6, n)
    savings = rng.lognormal(8, 2, n)  # most have a few thousand, some have millions
    rent = 9 * size - 25 * distance + 250 * np.log10(savings) + rng.normal(0, 100, n)
    return np.column_stack([size, distance, savings]), rent


def domain_with(scale: str) -> Domain:
    """Return the domain, with savings on the given scale; the ranges are round guesses."""
    return Domain(
        {"size": Numeric(10, 300), "distance": Numeric(0, 50), "savings": Numeric(0, 10_000_000, scale=scale)},
        target=Numeric(0, 3000),  # higher rents are clipped
        target_name="rent",
    )


def main() -> None:
    """Compare a linear scale, with nearly all savings in one bin, with a logarithmic scale."""
    X, y = flats(20_000, seed=1)
    X_new, y_new = flats(5_000, seed=2)
    print(f"always the mean       root of mean squared error {np.std(y_new):6.1f}")
    for scale in ("linear", "log"):
        errors = []
        for _ in range(5):  # with private data, every fit would spend epsilon again
            model = DiPriMeRegressor(epsilon=1.0, domain=domain_with(scale)).fit(X, y)
            errors.append(np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)))
        print(f"savings, {scale:<6} grid  root of mean squared error {np.mean(errors):6.1f}")
        print(f"                      importance of the savings  {model.feature_importances_[2]:6.1%}")
    print(f"\n{model.privacy_}")


if __name__ == "__main__":
    main()
