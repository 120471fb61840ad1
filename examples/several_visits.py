"""Protect all visits of a patient together."""

import numpy as np
import pandas as pd

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric

# Public facts: ranges and categories. The patients and their numbers of visits are private.
domain = Domain(
    {"age": Numeric(0, 100), "pressure": Numeric(60, 220), "ward": Categorical(["A", "B", "C"])},
    target=Categorical(["home", "stays"]),
    target_name="outcome",
)


def draw_visits(n_patients: int, seed: int) -> pd.DataFrame:
    """Return synthetic visits; some patients have up to twelve."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), np.minimum(rng.geometric(0.3, n_patients), 12))
    age = rng.uniform(20, 95, n_patients)[patient]
    pressure = rng.normal(100 + 0.4 * age, 15)
    ward = rng.choice(["A", "B", "C"], len(patient))
    risk = 0.05 * (age - 60) + 0.04 * (pressure - 125) + (ward == "C")
    outcome = np.where(risk + rng.logistic(size=len(risk)) > 0, "stays", "home")
    return pd.DataFrame({"patient": patient, "age": age, "pressure": pressure, "ward": ward, "outcome": outcome})


def main() -> None:
    """Fit a forest and a boosted model to one visit of each patient, or to up to six."""
    visits, others = draw_visits(4000, seed=1), draw_visits(4000, seed=2)
    print(f"{len(visits)} visits of {visits['patient'].nunique()} patients")
    columns = list(domain.features)
    for kind in (DiPriMeClassifier, DiPriMeBoostingClassifier):
        for k in (1, 6):
            # The visits of a patient share a fixed total weight, so six visits need no more noise than one.
            model = kind(epsilon=1.0, domain=domain, max_records_per_group=k)
            model.fit(visits[columns], visits["outcome"], groups=visits["patient"])
            accuracy = model.score(others[columns], others["outcome"])
            print(f"{kind.__name__:<26} up to {k} visits of a patient: accuracy {accuracy:.1%}")
    print(f"\n{model.privacy_}")


if __name__ == "__main__":
    main()
