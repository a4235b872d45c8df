"""Where the text of a definition ends: as Python itself says, for all that can stand in one."""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kernelcore.frontend.source import parse_definition, read_source

ROOT = Path(__file__).parents[1]
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
    monkeypatch.setitem(linecache.cache, "<spans>", (1, None, lines, "<spans>"))
    scope: dict[str, Any] = {}
    exec(compile("".join(lines), "<spans>", "exec"), scope)
    source = read_source(scope["f"])
    found = source.loc(source.tree.body[-1])
    assert found is not None
    assert (found.line, found.col, found.end_col) == (3, 9, 17)
