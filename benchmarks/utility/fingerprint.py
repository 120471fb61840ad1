"""What an estimator learns, as a digest: it changes with the fits, not with the wording of the source.

Scores stay valid as long as fits stay the same, bit for bit, so they are kept under this digest. It stands for a few
seeded fits at low, middle and high budgets. A change that shows only elsewhere goes unnoticed: then use ``--fresh``.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import diprime
from diprime import Categorical, Domain, Numeric, PrivacyWarning

N_ROWS = 2000
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0, math.inf)
FEATURES = {
    "level": Numeric(0, 10),
    "size": Numeric(-1, 1),
    "kind": Categorical(range(12)),
    "side": Categorical([0, 1]),
}
TARGETS = {"two": Categorical([0, 1]), "four": Categorical(range(4)), "number": Numeric(0, 10)}
DIGITS = 6  # the last bits of a float are the machine's


def _rows() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return rows and numbers that two features decide, but for noise."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.uniform(0, 10, N_ROWS),
            rng.normal(0, 0.4, N_ROWS),
            rng.integers(0, 12, N_ROWS),
            rng.integers(0, 2, N_ROWS),
        ]
    )
    return X, np.clip(0.7 * X[:, 0] + 3 * X[:, 3] + rng.normal(0, 0.5, N_ROWS), 0, 10)


def fingerprint(make: Callable[[float, Domain, str], Any]) -> str:
    """Return the release and the digest of the predictions of seeded fits.

    Parameters
    ----------
    make : callable
        Returns an estimator, not fitted, for an epsilon, a domain and the task.
    """
    X, number = _rows()
    targets = {"two": (number > 4).astype(int), "four": np.digitize(number, [2, 4, 7]), "number": number}
    digest = hashlib.sha256()
    for name, y in targets.items():
        domain = Domain(FEATURES, target=TARGETS[name])
        task = "regression" if name == "number" else "classification"
        for epsilon in EPSILONS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)  # of the seed, and of no noise
                model = make(epsilon, domain, task).set_params(random_state=7).fit(X, y)
            predict = model.predict if name == "number" else model.predict_proba
            digest.update(np.round(predict(X), DIGITS).tobytes())
    return f"diprime {diprime.__version__}, fits {digest.hexdigest()[:12]}"
