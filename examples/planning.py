"""Preview fits with two budgets before any data are read."""

import numpy as np

from diprime import Categorical, Domain, Integer, Numeric, plan

PATIENTS = Domain(
    {"age": Integer(0, 110), "pressure": Numeric(50, 250), "ward": Categorical(["surgery", "medicine", "other"])},
    target=Categorical(["home", "ward"]),
)


def patients(n: int, seed: int) -> tuple[list[list[object]], np.ndarray]:
    """Return synthetic patients, some with values outside the domain."""
    rng = np.random.default_rng(seed)
    ages, pressures = rng.integers(0, 105, n), rng.normal(130, 35, n)
    wards = rng.choice(["surgery", "medicine", "other", "maternity"], n, p=[0.3, 0.4, 0.25, 0.05])
    rows = [[int(a), float(p), str(w)] for a, p, w in zip(ages, pressures, wards, strict=True)]
    is_ill = ages + 0.3 * pressures > rng.normal(110, 10, n)
    return rows, np.where(is_ill, "ward", "home")


def main() -> None:
    """Plan fits with two budgets, then check the table against the domain."""
    for epsilon in (0.1, 1.0):
        planned = plan(PATIENTS, n_records=5000, epsilon=epsilon, repeats=2)
        low, high = planned.privacy_cost
        print(f"epsilon = {epsilon}: privacy costs from {low:.3f} to {high:.3f} of {planned.measure} on synthetic data")
        print(f"{planned.shape}\n")
    print("Check of the data, which is not private:")
    print(PATIENTS.check(*patients(5000, seed=1)))


if __name__ == "__main__":
    main()
