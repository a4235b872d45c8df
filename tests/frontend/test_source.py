"""Where the text of a definition ends: as Python itself says, for all that can stand in one."""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelSyntaxError
from kernelcore.language.source import parse_definition, read_source
from tests.helpers.paths import ROOT

F32 = kc.array(dtype=float)

FILES = sorted(p for part in ("tests", "kernelcore") for p in (ROOT / part).rglob("*.py"))
AFTER = "\nvalue = 1\n"
DEFINITIONS = {
    "brackets of a signature": "def f(\n    x,\n):\n    return x\n",
    "a decorator over lines": "@d(\n    1,\n)\n@e\ndef f(x):\n    return x\n",
    "a string to the left": 'def f(x):\n    y = """\nleft\n"""\n    return y\n',
    "brackets to the left": "def f(x):\n    y = (\n1,\n2)\n    return y\n",
    "a comment to the left": "def f(x):\n    y = x\n# left\n    return y\n",
    "a continued line": "def f(x):\n    y = x + \\\n1\n    return y\n",
    "one line": "def f(x): return x\n",
    "empty lines": "def f(x):\n\n    y = x\n\n\n    return y\n",
    "more brackets than are tried": "def f(x):\n    y = (\n" + "1,\n" * 20 + ")\n    return y\n",
}


def tree(lines: list[str]) -> str:
    # A block keeps what is indented, and the strings in it, as they are.
    if not lines[0][:1].isspace():
        return ast.dump(ast.parse("".join(lines)).body[0])
    block = ast.parse("if 1:\n" + "".join(lines)).body[0]
    assert isinstance(block, ast.If)
    return ast.dump(block.body[0])


def definition(lines: list[str]) -> str:
    found, _ = parse_definition(lines, 1)
    assert found is not None
    return ast.dump(found)


def defined_in(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function f that ``text`` defines."""
    keep_text(text, monkeypatch)
    scope: dict[str, Any] = {}
    exec(compile(text, "<text>", "exec"), scope)
    return scope["f"]


def keep_text(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = (1, None, text.splitlines(keepends=True), "<text>")
    monkeypatch.setitem(linecache.cache, "<text>", entry)


@pytest.mark.parametrize("after", ["", AFTER], ids=["at the end", "before more"])
@pytest.mark.parametrize("text", DEFINITIONS.values(), ids=list(DEFINITIONS))
def test_a_definition_ends_where_python_says(text: str, after: str) -> None:
    found = definition((text + after).splitlines(keepends=True))
    assert found == tree(text.splitlines(keepends=True))


def test_all_functions_of_the_project_are_cut_out_alike() -> None:
    count = 0
    for file in FILES[::3]:
        lines = file.read_text().splitlines(keepends=True)
        for node in ast.walk(ast.parse("".join(lines))):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1
                wanted = inspect.getblock(lines[first:])
                assert definition(lines[first:]) == tree(wanted), node.name
                count += 1
    assert count > 500


def test_kernels_of_an_archive_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "import kernelcore as kc\n@kc.kernel\n"
        "def twice(x: kc.array(dtype=float)):\n    x[kc.tid()] *= 2.0\n"
    )
    with zipfile.ZipFile(tmp_path / "kernels.zip", "w") as archive:
        archive.writestr("kernels_of_an_archive.py", text)
    monkeypatch.syspath_prepend(tmp_path / "kernels.zip")
    kernel = importlib.import_module("kernels_of_an_archive").twice
    assert "mul" in kernel.inspect("ir")
    assert "twice" in kernel.inspect("source")


@pytest.mark.parametrize("comment", ["é", "e"])
def test_spans_count_characters(comment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["def f(x):\n", f"    y = x  # {comment}\n", f"    '{comment}'; return y\n"]
    source = read_source(defined_in("".join(lines), monkeypatch))
    found = source.loc(source.tree.body[-1])
    assert found is not None
    assert (found.line, found.col, found.end_col) == (3, 9, 17)


@pytest.mark.parametrize("first", ["def f(x):", "@str\n@int\ndef f(x):"])
def test_a_form_feed_before_a_definition_is_no_indentation(first: str) -> None:
    found, _ = parse_definition([f"\f{first}\n", "    return x\n", "\fvalue = 1\n"], 1)
    assert isinstance(found, ast.FunctionDef)


@pytest.mark.parametrize(
    "changed", ["x = (\n", "'''\n", "@d(\n", "    )\n", "def f(x): return $\n"]
)
def test_a_file_that_has_become_no_python_is_refused(
    changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = defined_in("def f(x):\n    return x\n", monkeypatch)
    keep_text(changed, monkeypatch)
    with pytest.raises(KernelSyntaxError, match="has changed since it was defined"):
        read_source(function)


def test_a_lambda_may_start_on_the_line_on_which_a_string_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    function = defined_in("s = '''\nabc'''; f = ['''\nabc''', lambda x: x][1]\n", monkeypatch)
    assert ast.unparse(read_source(function).tree.body[0]) == "return x"


@pytest.mark.parametrize("header", ["other(y: F32)", "k(x: F32)", "k(y: F32, z: F32)", "k()"])
def test_a_file_that_changed_is_noticed(tmp_path: Path, header: str) -> None:
    file = tmp_path / "changed.py"
    text = "@kc.kernel\ndef k(y: F32):\n    y[0] = 2.0\n"
    file.write_text(text)
    names: dict[str, Any] = {"kc": kc, "F32": F32}
    exec(compile(text, str(file), "exec", dont_inherit=True), names)
    file.write_text(f"@kc.kernel\ndef {header}:\n    y[0] = 3.0\n")
    with pytest.raises(kc.KernelSyntaxError, match="has changed since it was defined"):
        kc.launch(names["k"], 1, [], [np.zeros(1, np.float32)])


@pytest.mark.parametrize(("before", "after"), [("x: int", "x"), ("x: float", "x")])
def test_an_annotation_that_changed_is_noticed(tmp_path: Path, before: str, after: str) -> None:
    """Annotations of parameters leave no trace in the code of a function."""
    file = tmp_path / "annotated.py"
    text = "@kc.func\ndef f({}):\n    return x / 2\n@kc.kernel\ndef k(y: F32):\n    y[0] = f(5.0)\n"
    file.write_text(text.format(before))
    names: dict[str, Any] = {"kc": kc, "F32": F32}
    exec(compile(text.format(before), str(file), "exec", dont_inherit=True), names)
    file.write_text(text.format(after))
    with pytest.raises(kc.KernelSyntaxError, match="has changed since it was defined"):
        kc.launch(names["k"], 1, [], [np.zeros(1, np.float32)])


@pytest.mark.parametrize("error", [ValueError, MemoryError, RecursionError])
def test_a_text_that_python_cannot_parse_is_a_kernel_error(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> None:
        pass

    def parse(text: str) -> ast.Module:
        raise error(f"{len(text)} characters")

    monkeypatch.setattr(ast, "parse", parse)
    with pytest.raises(KernelSyntaxError, match=r"cannot parse 'unreadable': \d+ characters") as e:
        read_source(unreadable)
    assert e.value.loc is not None
    assert e.value.loc.line == unreadable.__code__.co_firstlineno
