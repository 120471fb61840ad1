"""Patients who come several times: all visits of a patient are protected together."""

import numpy as np
import pandas as pd

from diprime import Categorical, DiPriMeBoostingClassifier, DiPriMeClassifier, Domain, Numeric

# What is public: ranges and levels. Who the patients are, and how often they came, is not.
domain = Domain(
    {"age": Numeric(0, 100), "pressure": Numeric(60, 220), "ward": Categorical(["A", "B", "C"])},
    target=Categorical(["home", "stays"]),
    target_name="outcome",
)


def draw_visits(n_patients: int, seed: int) -> pd.DataFrame:
    """Make up patients, some of whom come up to twelve times."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), np.minimum(rng.geometric(0.3, n_patients), 12))
    age = rng.uniform(20, 95, n_patients)[patient]
    pressure = rng.normal(100 + 0.4 * age, 15)
    ward = rng.choice(["A", "B", "C"], len(patient))
    risk = 0.05 * (age - 60) + 0.04 * (pressure - 125) + (ward == "C")
    outcome = np.where(risk + rng.logistic(size=len(risk)) > 0, "stays", "home")
    return pd.DataFrame({"patient": patient, "age": age, "pressure": pressure, "ward": ward, "outcome": outcome})


def main() -> None:
    """Fit a forest and a boosted model to visits, one of each patient or up to six."""
    visits, others = draw_visits(4000, seed=1), draw_visits(4000, seed=2)
    print(f"{len(visits)} visits of {visits['patient'].nunique()} patients")
    columns = list(domain.features)
    for kind in (DiPriMeClassifier, DiPriMeBoostingClassifier):
        for k in (1, 6):
            # The visits of a patient weigh as one together, whatever their number: no factor of six in the noise.
            model = kind(epsilon=1.0, domain=domain, max_records_per_group=k)
            model.fit(visits[columns], visits["outcome"], groups=visits["patient"])
            accuracy = model.score(others[columns], others["outcome"])
            print(f"{kind.__name__:<26} up to {k} visits of a patient: accuracy {accuracy:.1%}")
    print(f"\n{model.privacy_}")


if __name__ == "__main__":
    main()
