"""What ``import kernelcore`` leaves for later is there when it is asked for."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

import kernelcore as kc
from kernelcore._exports import ADAPTERS, HOMES, operations
from kernelcore.base.lazy import Deferred
from tools.public_stub import stub


def names_of(tree: ast.Module) -> Iterator[str]:
    """The names that a stub declares, defines or imports."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Assign):
            yield from map(ast.unparse, node.targets)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def test_type_checkers_and_programs_see_the_same_names() -> None:
    names = set(names_of(ast.parse(stub())))
    assert {*HOMES, *ADAPTERS, *operations()} <= names
    assert all(hasattr(kc, name) for name in HOMES)


@pytest.mark.parametrize("name", HOMES)
def test_public_names_are_those_of_their_modules(name: str) -> None:
    assert getattr(kc, name) is getattr(importlib.import_module(HOMES[name]), name)
    assert name in dir(kc)


def test_packages_do_not_hide_functions() -> None:
    shared = [m.name for m in pkgutil.iter_modules(kc.__path__) if m.name in HOMES]
    assert shared == ["explain", "launch"]
    for name in shared:
        importlib.import_module(f"kernelcore.{name}")
        assert callable(getattr(kc, name))


def test_operations_are_public() -> None:
    assert {"sin", "dot", "vec3", "float32"} <= set(dir(kc))
    assert kc.sin(0.0) == 0.0


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'kernelcore' has no attribute 'nothing'"):
        kc.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="nothing"):
        Deferred("kernelcore.language.types").nothing  # noqa: B018
