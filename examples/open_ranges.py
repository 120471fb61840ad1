"""Learn the ranges of sensors with unknown units privately."""

import numpy as np

from diprime import DiPriMeRegressor, Domain, Numeric


def measurements(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return synthetic measurements (pressure in hPa, current in A, position in m) and the output of a plant in kW."""
    rng = np.random.default_rng(seed)
    pressure, current, position = rng.normal(1013, 8, n), rng.gamma(2, 1e-6, n), rng.uniform(-400, 250, n)
    output = 300 + 4 * (pressure - 1013) + 2e7 * current + 0.2 * position + rng.normal(0, 10, n)
    return np.column_stack([pressure, current, position]), output


DECLARED = Domain(
    {"pressure": Numeric(970, 1060), "current": Numeric(0, 2e-5), "position": Numeric(-400, 250)},
    target=Numeric(0, 700),
)
OPEN = Domain({"pressure": Numeric(), "current": Numeric(), "position": Numeric()}, target=Numeric())


def main() -> None:
    """Compare declared ranges with learnt ranges, at the same total epsilon."""
    X, y = measurements(20_000, seed=1)
    X_new, y_new = measurements(5_000, seed=2)
    print(f"always the mean  root of mean squared error {np.std(y_new):6.1f}")
    for name, domain in (("declared ranges", DECLARED), ("learnt ranges", OPEN)):
        errors = []
        for _ in range(5):  # with private data, every fit would spend epsilon again
            model = DiPriMeRegressor(epsilon=2.0, domain=domain).fit(X, y)
            errors.append(np.sqrt(np.mean((model.predict(X_new) - y_new) ** 2)))
        print(f"{name:<15}  root of mean squared error {np.mean(errors):6.1f}")
    for name, feature in model.domain_.features.items():
        print(f"learnt: {name} from {feature.low:.6g} to {feature.high:.6g}")
    print(f"\n{model.privacy_}")


if __name__ == "__main__":
    main()
