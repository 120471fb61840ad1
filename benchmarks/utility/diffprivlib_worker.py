"""Fit diffprivlib's forest in its own environment, in which this repository is not installed.

:mod:`benchmarks.utility.contenders` starts it as ``python diffprivlib_worker.py request.npz answer.npz``: training and
test data in, class probabilities out.
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
