"""Modules and files that strings, imports and the Makefile name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import kernelcore as kc
from tests.helpers.paths import ROOT

FOLDERS = ("kernelcore", "torch_ext", "jax_ffi", "paddle_ext", "tests", "tools", "examples")
SCRIPTS = [ROOT / "Makefile", ROOT / ".ci" / "run"]
ROOTS = "kernelcore|torch_ext|jax_ffi|paddle_ext|tests"
NAME = re.compile(rf"(?<![\w./])(?:{ROOTS})(?:\.[A-Za-z_]\w*)+")
IMPORTED = re.compile(rf"\bfrom ({NAME.pattern}) import\b")
FILE = re.compile(r"(?<![\w./])(?:tests|tools|csrc|examples)(?:/[\w.]+)+")
# The native module, and what compilers call texts that are made in memory.
FOREIGN = {"kernelcore._native", "kernelcore.entry", "kernelcore.snippet"}


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


@cache
def exists(name: str) -> bool:
    """Whether the dotted ``name`` is a module, or a name that occurs in one."""
    parts = name.split(".")
    depth = max(k for k in range(1, len(parts) + 1) if is_module(".".join(parts[:k])))
    if depth == len(parts):
        return True
    if depth == 1 and parts[0] == "kernelcore":
        return hasattr(kc, parts[1])
    path = ROOT.joinpath(*parts[:depth])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.exists() and re.search(rf"\b{parts[depth]}\b", file.read_text()) is not None


def texts(path: Path) -> Iterator[str]:
    """The strings and the imports of a Python file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield ast.unparse(node)


@pytest.mark.parametrize("folder", FOLDERS)
def test_modules_that_python_files_name_exist(folder: str) -> None:
    missing: list[str] = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for text in texts(path):
            found = [n for n in NAME.findall(text) if not exists(n)]
            found += [n for n in IMPORTED.findall(text) if not is_module(n)]
            missing += [f"{path.relative_to(ROOT)}: {n}" for n in found if n not in FOREIGN]
    assert missing == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_modules_and_files_that_scripts_name_exist(path: Path) -> None:
    text = path.read_text()
    assert [name for name in NAME.findall(text) if not exists(name)] == []
    assert [file for file in FILE.findall(text) if not (ROOT / file).exists()] == []
