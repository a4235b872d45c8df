"""Modules and files that are named exist, tests mirror the sources, golden errors have a test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kernelcore as kc
from tests.helpers import golden
from tests.helpers.environment import ROOT, TESTS
from tests.helpers.golden import (
    GOLDEN,
    GoldenErrors,
    errors_file,
    read_sections,
    section_of,
    write_sections,
)

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


MODULES = [str(path.relative_to(ROOT)) for path in TESTS.rglob("test_*.py")]


def test_the_root_holds_conftest_only() -> None:
    assert {path.name for path in TESTS.glob("*.*")} == {"conftest.py"}


def test_every_section_of_golden_errors_belongs_to_a_module() -> None:
    known = {(errors_file(module), section_of(module, "")) for module in MODULES}
    for path in (GOLDEN / "errors").iterdir():
        prefixes = {section.partition(": ")[0] for section in read_sections(path)}
        assert {(path, f"{prefix}: ") for prefix in prefixes} <= known


@pytest.mark.parametrize("update", [False, True])
@pytest.mark.parametrize("ran", ["all", "some"])
def test_sections_that_no_test_asks_for_are_orphans(
    ran: str, update: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    module, path = "tests/part/test_some.py", tmp_path / "errors" / "part.txt"
    others = {"other: case": "of another module"}
    before = {"some: asked": "an error", "some: orphan": "another\n\nof two lines"} | others
    write_sections(path, before)
    assert read_sections(path) == before
    config: Any = SimpleNamespace(args=["tests"], getoption=lambda _: update)
    errors = GoldenErrors(config)
    errors.collected = Counter({module: 1 if ran == "all" else 2})
    errors.check(module, "asked", "an error")
    report: Any = SimpleNamespace(nodeid=f"{module}::test", when="call", passed=True)
    errors.pytest_runtest_logreport(report)
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    errors.pytest_sessionfinish(session)
    fails = ran == "all" and not update
    assert session.exitstatus == (pytest.ExitCode.TESTS_FAILED if fails else pytest.ExitCode.OK)
    assert errors.orphans == ([f"{path}: no test asks for some: orphan"] if fails else [])
    left = {"some: asked": "an error"} | others if ran == "all" and update else before
    assert read_sections(path) == left
