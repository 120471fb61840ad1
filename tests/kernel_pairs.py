"""Every kernel twice: compiled, and as the Python that it is written in."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import diprime.kernels
from diprime.kernels import Interpreted


def compiled(name: str) -> Any:
    """Return the kernel module that the library uses: compiled, wherever there was a compiler."""
    return getattr(diprime.kernels, name)


def interpreted(name: str) -> Any:
    """Return the kernel module run as Python, whatever was compiled; it takes arrays like the compiled one."""
    path = Path(diprime.kernels.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Interpreted(module)
