"""The table of built-ins is current, and every public built-in says what it does."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

import kernelcore as kc
from kernelcore.builtins import BUILTINS, LIBRARY
from kernelcore.frontend.calls.intrinsics import Intrinsic
from tools.builtin_table import builtins_markdown
from tools.public_stub import MODULES, stub

MAX_FIRST_LINE = 100
EXPORTED = {name: getattr(kc, name) for name in dir(kc)}
INTRINSICS = {name: found for name, found in EXPORTED.items() if isinstance(found, Intrinsic)}
PUBLIC: dict[str, Any] = {**LIBRARY, **BUILTINS, **INTRINSICS}
DOCS = {name: inspect.getdoc(found) for name, found in [*BUILTINS.items(), *INTRINSICS.items()]} | {
    f"{name}-{k}": inspect.getdoc(overload.pyfunc)
    for name, function in LIBRARY.items()
    for k, overload in enumerate(function.overloads)
}


def test_the_table_of_built_ins_is_current(golden: Callable[[str, str], None]) -> None:
    golden("builtins.md", builtins_markdown())


def test_every_row_of_a_table_has_three_cells() -> None:
    rows = [line for line in builtins_markdown().splitlines() if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {4}
    assert len(rows) > len(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_built_in_has_its_row(name: str) -> None:
    text = builtins_markdown()
    assert f"`{name}(" in text or f" {name}(" in text


@pytest.mark.parametrize("name", DOCS)
def test_the_first_line_is_a_summary(name: str) -> None:
    doc = DOCS[name]
    assert doc, "no docstring"
    first = doc.splitlines()[0]
    assert len(first) <= MAX_FIRST_LINE
    assert first[-1] in ".;:"


@pytest.mark.parametrize("name", PUBLIC)
def test_help_shows_the_texts(name: str) -> None:
    found = getattr(kc, name)
    doc = inspect.getdoc(found)
    assert doc
    assert doc.splitlines()[0] in pydoc.plain(pydoc.render_doc(found))


def test_help_of_a_function_shows_every_overload() -> None:
    text = pydoc.plain(pydoc.render_doc(kc.dot))
    for overload in LIBRARY["dot"].overloads:
        assert str(overload.pyfunc.__doc__).splitlines()[0] in text
    assert inspect.getdoc(kc.Function) == inspect.cleandoc(str(kc.Function.__doc__))


def test_type_checkers_see_every_module_with_built_ins() -> None:
    modules = {entry.module for entry in BUILTINS.values()}
    modules |= {o.pyfunc.__module__ for f in LIBRARY.values() for o in f.overloads}
    text = stub()
    assert {m for m in modules if m.removeprefix("kernelcore.builtins.") not in MODULES} == set()
    assert {name for name in PUBLIC if f"def {name}(" not in text} == set()
