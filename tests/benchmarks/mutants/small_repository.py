"""A repository of a few lines, in which mutants of every fate can be planted."""

import shutil
import textwrap

from benchmarks.mutants.catalogue import Mutant
from benchmarks.paths import ROOT

FILES = {
    "src/diprime/__init__.py": "",
    "src/diprime/noise.py": (
        "SCALE = 2\nNAME = 'noise'\nLIMIT = 9\n\n\ndef scale(epsilon):\n    return SCALE / epsilon\n"
    ),
    "src/diprime/fit.py": "from diprime.noise import scale\n\n\ndef fit(epsilon):\n    return scale(epsilon)\n",
    "tests/__init__.py": "",
    "tests/helper.py": "from diprime.noise import NAME\n\nSHOWN = NAME.upper()\n",
    "tests/test_noise.py": """
        import pytest

        from diprime.noise import LIMIT, scale

        def test_scale():
            assert scale(1) > 1

        @pytest.mark.audit
        def test_limit():
            assert LIMIT == 9
        """,
    "tests/test_shown.py": """
        from tests.helper import SHOWN

        def test_name():
            assert SHOWN == "NOISE"
        """,
    "tests/guarantees/__init__.py": "",
    "tests/guarantees/test_fits.py": """
        from diprime.fit import fit

        def test_fit_has_full_noise():
            assert fit(1) == 2
        """,
    "tests/test_golden.py": "from diprime.noise import scale\n",
    "pyproject.toml": """
        [tool.pytest.ini_options]
        pythonpath = ['.']
        addopts = "--strict-markers -m 'not audit'"
        markers = ['audit']
        """,
}


def make_repository(folder):
    """Write the repository, with the plugin that its tests are run with."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n") if text.startswith("\n") else text)
    shutil.copytree(ROOT / "benchmarks/mutants", folder / "benchmarks/mutants")
    (folder / "benchmarks/__init__.py").touch()
    shutil.copy(ROOT / "benchmarks/paths.py", folder / "benchmarks")
    return folder


def mutant(old, new, **more):
    """Return a mutant of the repository's noise."""
    return Mutant("noise", "made-up", "src/diprime/noise.py", old, new, "It is made up.", **more)
