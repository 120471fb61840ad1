"""Public names are where the documentation states, and importing the package stays fast."""

import doctest
import importlib
import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest

import diprime

TOP_LEVEL = {
    "AdditiveForest", "Budget", "BudgetError", "Categorical", "Charge", "Date", "DiPriMeBoostingClassifier",
    "DiPriMeBoostingRegressor", "DiPriMeClassifier", "DiPriMeRegressor", "Domain", "Explanation", "Forest",
    "Importances", "Integer", "Ledger", "ModelFileError", "Numeric", "Plan", "PrivacyWarning", "PrivateScore",
    "PrivateSearch", "__version__", "fitted_steps", "load", "merge", "plan", "private_score",
}  # fmt: skip
MODULES = {
    "diprime.report": {"Approval", "render"},
    "diprime.plots": {
        "plot_budget", "plot_calibration", "plot_importances", "plot_privacy_utility", "plot_roc", "plot_shape",
        "plot_tree",
    },
    "diprime.sources": {"batches", "files"},
    "diprime.export": {"onnx_inputs", "to_onnx"},
    "diprime.paper": {
        "DPDecisionForestClassifier", "DPRandomForestClassifier", "DPRandomForestRegressor", "PaperDiPriMeClassifier",
        "PaperDiPriMeRegressor",
    },
    "diprime.paper.theory": {
        "accuracy_loss", "against_random", "flip_probability", "left_count_probabilities", "occupancy",
        "published_accuracy_loss", "published_sse_excess", "random_occupancy", "sse_excess",
    },
}  # fmt: skip
OPTIONAL_PACKAGES = {"dask", "distributed", "matplotlib", "onnx", "pandas", "polars", "pyspark", "rich", "typer"}


def test_package_exports_its_public_names():
    assert set(diprime.__all__) == TOP_LEVEL
    assert isinstance(diprime.__version__, str)


def test_dir_shows_public_names_and_modules_only():
    modules = {"export", "paper", "plots", "report", "sources"}
    assert set(dir(diprime)) == TOP_LEVEL | modules
    assert {name for name in dir(diprime) if inspect.ismodule(getattr(diprime, name))} == modules


def test_modules_are_imported_on_first_use():
    script = "import sys, diprime; assert 'diprime.plots' not in sys.modules; print(diprime.plots.plot_tree.__name__)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "plot_tree\n"


def test_unknown_attribute_raises():
    with pytest.raises(AttributeError, match=r"'diprime' .*'output'"):
        getattr(diprime, "output")  # noqa: B009 -- type checkers do not find this attribute either


@pytest.mark.parametrize("module", ["diprime", *MODULES])
def test_pickles_and_tracebacks_name_the_public_module(module):
    public = importlib.import_module(module)
    for value in (getattr(public, name) for name in public.__all__ if name != "__version__"):
        assert value.__module__ == module
        assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize("name", sorted(name for name in TOP_LEVEL if inspect.isclass(getattr(diprime, name))))
def test_examples_of_methods_run(name):
    # pytest collects doctests from the module named in a class, and misses its methods, which another module defines.
    found = doctest.DocTestFinder().find(getattr(diprime, name), name, module=False, globs={**vars(diprime), "np": np})
    for example in (example for example in found if "." in example.name):
        results = doctest.DocTestRunner().run(example)
        assert not results.failed, example.name


@pytest.mark.parametrize("module", MODULES)
def test_module_exports_its_public_names(module):
    assert set(importlib.import_module(module).__all__) == MODULES[module]


@pytest.mark.parametrize("module", ["diprime", *MODULES])
def test_public_names_exist_and_are_documented(module):
    module = importlib.import_module(module)
    assert module.__doc__
    assert list(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        value = getattr(module, name)
        if name != "__version__":
            assert vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__, name


def test_importing_public_modules_imports_no_optional_package():
    # Some versions of scikit-learn import pandas if it is installed; these imports are not ours.
    script = f"""
import sys
for name in {OPTIONAL_PACKAGES!r}:
    sys.modules[name] = None
import sklearn.base
for name in {OPTIONAL_PACKAGES!r}:
    del sys.modules[name]
import diprime, {", ".join(MODULES)}
print(*sorted(sys.modules.keys() & {OPTIONAL_PACKAGES!r}))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
