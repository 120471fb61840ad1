"""Runs in diffprivlib's own environment, which knows nothing of this repository: arrays in, probabilities out.

``python diffprivlib_worker.py request.npz answer.npz``, started by :mod:`benchmarks.utility.contenders`.
"""

import sys

import numpy as np
from diffprivlib.models import RandomForestClassifier


def main(request, answer):
    with np.load(request) as arrays:
        task = dict(arrays)
    n_classes = int(task["n_classes"])
    probabilities = []
    for epsilon in task["epsilons"].tolist():
        model = RandomForestClassifier(
            epsilon=epsilon, bounds=(task["low"], task["high"]), classes=np.arange(n_classes)
        ).fit(task["X_train"], task["y_train"])
        probabilities.append(model.predict_proba(task["X_test"]))
    np.savez(answer, probabilities=probabilities)


if __name__ == "__main__":
    main(*sys.argv[1:])
