"""Compile the kernels; where there is no C compiler, the package installs all the same and runs them as Python."""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# No contraction to fused multiply-adds: a kernel must give the same integers compiled and interpreted.
COMPILE_ARGS = ["/O2", "/fp:precise"] if sys.platform == "win32" else ["-O3", "-ffp-contract=off"]
# Unrolling takes a sixth off loops over bins, and doubles the time of loops that the compiler vectorises.
UNROLL = [] if sys.platform == "win32" else ["-funroll-loops"]
UNROLLED = ("histogram", "split_costs")
NOT_COMPILED = ("__init__", "_shim", "constants")
KERNELS = sorted(p for p in Path("src/diprime/kernels").glob("*.py") if p.stem not in NOT_COMPILED)

# Listing files and metadata needs no C, which takes a while to write.
IS_BUILD = not {"sdist", "egg_info", "dist_info"} & set(sys.argv)

extensions = cythonize(
    [
        Extension(
            f"diprime.kernels.{p.stem}",
            [str(p)],
            extra_compile_args=COMPILE_ARGS + (UNROLL if p.stem in UNROLLED else []),
        )
        for p in (KERNELS if IS_BUILD else [])
    ],
    compiler_directives={
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "initializedcheck": False,
        "cdivision": True,
        "embedsignature": True,
    },
    build_dir="build",
)
for extension in extensions:
    # Set here, because cythonize() forgets it. Published wheels must not lack a kernel unnoticed.
    extension.optional = os.environ.get("DIPRIME_REQUIRE_KERNELS") != "1"

setup(ext_modules=extensions, options={"build_ext": {"parallel": os.cpu_count()}})
