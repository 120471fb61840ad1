"""The public names: users find them where the documentation says, and importing the package stays light."""

import importlib
import inspect
import subprocess
import sys

import pytest

import diprime

TOP_LEVEL = {
    "AdditiveForest", "Budget", "BudgetError", "Categorical", "Charge", "Date", "DiPriMeBoostingClassifier",
    "DiPriMeBoostingRegressor", "DiPriMeClassifier", "DiPriMeRegressor", "Domain", "Explanation", "Forest", "Integer",
    "Ledger", "ModelFileError", "Numeric", "PrivacyWarning", "PrivateScore", "PrivateSearch", "__version__", "load",
    "merge", "private_score", "private_score_batches",
}  # fmt: skip
# Each façade, the modules whose public names it re-exports, and these names.
FACADES = {
    "diprime.report": (["diprime.output.report.page"], {"render"}),
    "diprime.plots": (
        ["diprime.output.plots", "diprime.output.score_plots"],
        {
            "plot_budget", "plot_calibration", "plot_importances", "plot_privacy_utility", "plot_roc", "plot_shape",
            "plot_tree",
        },
    ),
    "diprime.reading": (["diprime.cli.reading"], {"read_files"}),
    "diprime.export": (["diprime.output.onnx"], {"onnx_inputs", "to_onnx"}),
    "diprime.signing": (
        ["diprime.estimators.signing", "diprime.model.signatures"],
        {
            "InspectedModel", "KeyIsEncryptedError", "Signature", "SignatureCheck", "SignatureError", "check_signature",
            "inspect_model", "new_key", "sign_model", "verify_model",
        },
    ),
    "diprime.baselines": (
        ["diprime.paper.baselines"],
        {"DPDecisionForestClassifier", "DPRandomForestClassifier", "DPRandomForestRegressor"},
    ),
    "diprime.theory": (
        ["diprime.paper.theory"],
        {
            "accuracy_loss", "against_random", "flip_probability", "left_count_probabilities", "occupancy",
            "published_accuracy_loss", "published_sse_excess", "random_occupancy", "sse_excess",
        },
    ),
}  # fmt: skip
OPTIONAL_PACKAGES = {"cryptography", "matplotlib", "onnx", "pandas", "polars", "rich", "typer"}


def public_names(module):
    """Return the names that a module lists in ``__all__``, or else its own public functions and classes."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) or inspect.isclass(value))
        and value.__module__ == module.__name__
    }


def test_the_package_has_its_public_names():
    assert set(diprime.__all__) == TOP_LEVEL
    assert isinstance(diprime.__version__, str)


@pytest.mark.parametrize("facade", FACADES)
def test_a_facade_has_all_public_names_of_its_module(facade):
    sources, names = FACADES[facade]
    assert set(importlib.import_module(facade).__all__) == names
    assert set().union(*(public_names(importlib.import_module(source)) for source in sources)) == names


@pytest.mark.parametrize("module", ["diprime", *FACADES])
def test_public_names_exist_and_are_documented(module):
    module = importlib.import_module(module)
    assert module.__doc__
    assert list(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        value = getattr(module, name)
        if name != "__version__":
            assert vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__, name


def test_a_name_missing_from_a_facade_is_noticed(monkeypatch):
    """A test that nothing can fail would prove nothing."""
    plots = importlib.import_module("diprime.output.plots")

    def plot_more():
        pass

    plot_more.__module__ = plots.__name__
    monkeypatch.setattr(plots, "plot_more", plot_more, raising=False)
    with pytest.raises(AssertionError):
        test_a_facade_has_all_public_names_of_its_module("diprime.plots")


def test_importing_the_package_and_its_facades_imports_no_optional_package():
    # Some versions of scikit-learn import pandas if it is installed; these imports are not ours.
    script = f"""
import sys
for name in {OPTIONAL_PACKAGES!r}:
    sys.modules[name] = None
import sklearn.base
for name in {OPTIONAL_PACKAGES!r}:
    del sys.modules[name]
import diprime, {", ".join(FACADES)}
print(*sorted(sys.modules.keys() & {OPTIONAL_PACKAGES!r}))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
