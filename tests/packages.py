"""Build sdist and wheel, and test both as installed without a compiler: ``make test-packages``.

The wheel is built from the sdist, so the sdist must contain everything that a build needs. The wheel must provide
compiled kernels. The sdist, installed without a compiler, must give the same results with interpreted kernels. This
module uses only the standard library; everything else runs in virtual environments.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

FIT = """
import sys
import warnings

import numpy as np

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import diprime
    from diprime import Categorical, DiPriMeClassifier, Domain, Numeric
    from diprime.kernels import histogram

    X = np.arange(400.0).reshape(200, 2)
    y = np.where(X[:, 0] > 200, "high", "low")
    domain = Domain({"a": Numeric(0, 400), "b": Numeric(0, 400)}, target=Categorical(["high", "low"]))
    model = DiPriMeClassifier(5.0, domain, n_estimators=2, max_depth=3, random_state=0).fit(X, y)
interpreted = any("without compiled kernels" in str(warning.message) for warning in caught)
print(diprime.__version__, "interpreted" if interpreted else "compiled", repr(model.predict_proba(X[::50]).tolist()))
"""

NEEDED_BY_TESTS = (
    "pyproject.toml", "Makefile", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "tests/golden.json",
    "tests/oldest.txt", "tests/fixtures/digests.json", "benchmarks/mutants/patches", "docs/privacy.md",
    "docs/scores.md", "examples/demo.py", ".github/workflows/wheels.yml", "src/diprime/privacy/mechanisms/laplace.md",
    "src/diprime/kernels/histogram.py",
)  # fmt: skip


class Environment:
    """New virtual environment, whose commands find a compiler only if ``compiler`` is True."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.folder = folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str, cwd: Path, compiler: bool = False, **variables: str) -> str:
        """Run a command of the environment and return its output, or exit with its errors."""
        alone = {"PATH": str(self.folder), "CC": "no-compiler", "CXX": "no-compiler"}
        settings = {**os.environ, **({} if compiler else alone), **variables}
        program = str(self.folder / command[0])
        ended = subprocess.run(
            [program, *command[1:]], cwd=cwd, env=settings, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            sys.exit(f"{' '.join(command[:5])} failed:\n{ended.stdout[-5000:]}\n{ended.stderr[-5000:]}")
        return ended.stdout

    def install(self, *what: str, cwd: Path) -> None:
        """Install packages."""
        self.run("python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *what, cwd=cwd)


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist, then the wheel from it, and return their paths."""
    builder = Environment(folder / "builder")
    builder.install("build", cwd=folder)
    out = folder / "dist"
    command = ("python", "-m", "build", "--outdir", str(out), str(ROOT))
    builder.run(*command, cwd=folder, compiler=True, DIPRIME_REQUIRE_KERNELS="1")
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


def check_sdist(path: Path) -> None:
    """Check that the sdist contains the files that tests need, and no build products."""
    with tarfile.open(path) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    lacking = [needed for needed in NEEDED_BY_TESTS if needed not in names]
    built = [name for name in names if name.endswith((".so", ".pyd", ".c", ".pyc"))]
    if lacking or built:
        sys.exit(f"The sdist lacks {lacking} and has {built}.")


def fitted(user: Environment, folder: Path) -> list[str]:
    """Return the version, the kind of kernels, and the predictions of a seeded model."""
    return user.run("python", "-c", FIT, cwd=folder).strip().split(" ", 2)


def main() -> None:
    """Build and test both packages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        check_sdist(sdist)
        print(f"Built {sdist.name} and {wheel.name}.", flush=True)
        user = Environment(folder / "user")
        user.install(f"{wheel}[cli]", cwd=folder)
        version, kernels, predictions = fitted(user, folder)
        if kernels != "compiled" or version not in wheel.name:
            sys.exit(f"The wheel has version {version} and {kernels} kernels.")
        user.run("diprime", "demo", "--folder", str(folder / "demo"), cwd=folder)
        print("The wheel has compiled kernels, and diprime demo runs.", flush=True)
        user.install("--no-deps", "--force-reinstall", str(sdist), cwd=folder)
        if fitted(user, folder) != [version, "interpreted", predictions]:
            sys.exit("Installed from the sdist without a compiler, the kernels do not fall back to the same results.")
        print("The sdist installs without a compiler, and its interpreted kernels give the same results.")


if __name__ == "__main__":
    main()
