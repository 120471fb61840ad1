"""Compiled and interpreted versions of each kernel, for comparison."""

import ast
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import diprime.kernels
from diprime.kernels import Interpreted


def compiled(name: str) -> Any:
    """Return the kernel module that the library uses, which is compiled if there was a compiler."""
    return getattr(diprime.kernels, name)


class _CheckedDivision(ast.NodeTransformer):
    """Replace every ``//`` and ``%`` by a function that refuses operands for which C and Python differ."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            return node
        name = "_floor_divide" if isinstance(node.op, ast.FloorDiv) else "_modulo"
        call = ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        assert not isinstance(node.op, (ast.FloorDiv, ast.Mod)), "write it out: x = x // y"
        self.generic_visit(node)
        return node


def _floor_divide(a: int, b: int) -> int:
    assert a >= 0, "kernels divide as C does, which differs from Python below zero"
    assert b > 0
    return a // b


def _modulo(a: int, b: int) -> int:
    assert a >= 0, "kernels divide as C does, which differs from Python below zero"
    assert b > 0
    return a % b


def interpreted(name: str) -> Any:
    """Return the interpreted kernel module, which accepts the same arrays as the compiled one.

    Its divisions are checked: a negative operand, for which C rounds towards zero, is an error.
    """
    path = Path(diprime.kernels.__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"interpreted_{name}", path)
    assert spec is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    vars(module).update(_floor_divide=_floor_divide, _modulo=_modulo)
    tree = _CheckedDivision().visit(ast.parse(path.read_text(encoding="utf-8")))
    exec(compile(tree, str(path), "exec"), vars(module))
    return Interpreted(module)


@dataclass(frozen=True)
class ToBuild:
    """Kernel argument that is an instance of a kernel class; each version of the kernel builds its own."""

    name: str
    arguments: tuple[Any, ...]

    def build(self, kernel: Any) -> Any:
        copies = (np.array(a) if isinstance(a, np.ndarray) else a for a in self.arguments)
        return getattr(kernel, self.name)(*copies)


class Both:
    """Kernel whose calls run compiled and interpreted, on copies of the arrays, and must give equal results."""

    def __init__(self, name: str) -> None:
        self.compiled = compiled(name)
        self.interpreted = interpreted(name)

    def build(self, name: str, *arguments: Any) -> ToBuild:
        """Return an argument that is an instance of a kernel class, which each version builds from copies."""
        return ToBuild(name, arguments)

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Return the arguments as modified by the call, and its result. The given arguments are not modified."""
        after = []
        for kernel in (self.compiled, self.interpreted):
            copies: list[Any] = []
            for a in arguments:
                shared = [
                    i for i, e in enumerate(arguments[: len(copies)]) if isinstance(a, np.ndarray) and a.base is e
                ]
                if isinstance(a, ToBuild):
                    copies.append(a.build(kernel))
                elif shared:  # preserve views of the same memory
                    copies.append(copies[shared[0]].view(a.dtype))
                else:
                    copies.append(np.array(a) if isinstance(a, np.ndarray) else a)
            result = getattr(kernel, function)(*copies)
            after.append((copies, result))
        (first, result), (second, other) = after
        assert result == other
        for a, b in zip(first, second, strict=True):
            if isinstance(a, np.ndarray):
                np.testing.assert_array_equal(a, b, strict=True)
        return first, result
