"""What ``import kernelcore`` leaves for later is there when it is asked for."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

import pytest

import kernelcore as kc
from kernelcore._exports import ADAPTERS, HOMES
from kernelcore.base.lazy import Deferred


def names_for_type_checkers() -> dict[str, str]:
    """The module of every name that ``kernelcore/__init__.py`` imports one by one."""
    assert kc.__file__ is not None
    tree = ast.parse(Path(kc.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    found: dict[str, str] = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found |= {a.name: node.module for a in node.names if a.name != "*"}
        else:
            assert isinstance(node, ast.AnnAssign)
            assert isinstance(node.target, ast.Name)
            found[node.target.id] = ADAPTERS[node.target.id]
    return found


def test_type_checkers_and_programs_see_the_same_names() -> None:
    assert names_for_type_checkers() == {**HOMES, **ADAPTERS}


@pytest.mark.parametrize("name", HOMES)
def test_public_names_are_those_of_their_modules(name: str) -> None:
    assert getattr(kc, name) is getattr(importlib.import_module(HOMES[name]), name)
    assert name in dir(kc)


def test_packages_do_not_hide_functions() -> None:
    shared = [m.name for m in pkgutil.iter_modules(kc.__path__) if m.name in HOMES]
    assert shared == ["launch"]
    importlib.import_module("kernelcore.launch")
    assert callable(kc.launch)


def test_operations_are_public() -> None:
    assert {"sin", "dot", "vec3", "float32"} <= set(dir(kc))
    assert kc.sin(0.0) == 0.0


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="module 'kernelcore' has no attribute 'nothing'"):
        kc.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="nothing"):
        Deferred("kernelcore.language.types").nothing  # noqa: B018
