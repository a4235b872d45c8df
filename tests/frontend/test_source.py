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
from _pytest.assertion.rewrite import rewrite_asserts

import kernelcore as kc
from kernelcore.base.errors import KernelSyntaxError
from kernelcore.language import syntax_tree
from kernelcore.language.source import parse_definition, read_source
from tests.helpers.environment import ROOT

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

PROGRAM = """\
@kc.func
def f(x: float):
    return x * 2.0
g = kc.func(lambda x: x * 4.0)
@kc.kernel
def k(y: F32):
    n: kc.int32 = 12
    y[0] = f(1.0) + g(0.25) + float(n)
"""


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


def run(
    code: str | ast.Module, file: Path, *texts: str, names: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What ``code`` of ``file`` defines while it holds the first of ``texts``, then the others."""
    first, *later = texts
    file.write_text(first)
    names = {"kc": kc, "F32": F32, **(names or {})}
    exec(compile(code, str(file), "exec", dont_inherit=True), names)
    for text in later:
        file.write_text(text)
    return names


def launched(kernel: Any) -> float:
    out = np.zeros(1, np.float32)
    kc.launch(kernel, 1, [], [out])
    return float(out[0])


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
    text = "@kc.kernel\ndef k(y: F32):\n    y[0] = 2.0\n"
    other = f"@kc.kernel\ndef {header}:\n    y[0] = 3.0\n"
    names = run(text, tmp_path / "changed.py", other)
    with pytest.raises(kc.KernelSyntaxError, match="has changed since it was defined"):
        launched(names["k"])


@pytest.mark.parametrize(("before", "after"), [("x: int", "x"), ("x: float", "x")])
def test_an_annotation_that_changed_is_noticed(tmp_path: Path, before: str, after: str) -> None:
    """Annotations of parameters leave no trace in the code of a function."""
    text = "@kc.func\ndef f({}):\n    return x / 2\n@kc.kernel\ndef k(y: F32):\n    y[0] = f(5.0)\n"
    names = run(text.format(before), tmp_path / "annotated.py", text.format(after))
    with pytest.raises(kc.KernelSyntaxError, match="has changed since it was defined"):
        launched(names["k"])


@pytest.mark.parametrize("old", ["2.0", "4.0", "12"])
def test_a_text_that_was_refused_is_read_anew(tmp_path: Path, old: str) -> None:
    """The original is compiled once it is back, and never the edit."""
    file = tmp_path / "edited.py"
    names = run(PROGRAM, file, PROGRAM.replace(old, f"{old}7"))
    for _ in range(2):
        with pytest.raises(kc.KernelSyntaxError, match="has changed since it was defined"):
            launched(names["k"])
    file.write_text(PROGRAM)
    assert launched(names["k"]) == 15.0


@pytest.mark.parametrize(
    "edited",
    [
        *(PROGRAM.replace("int32", "int64"), PROGRAM.replace("2.0", "3.0"), PROGRAM + "# below\n"),
        *("# above\n" + PROGRAM, PROGRAM.replace("* 4", "* 5"), "", "def f(x):\n\0"),
    ],
)
def test_edits_after_the_definition_change_nothing(tmp_path: Path, edited: str) -> None:
    """As Python runs what was defined."""
    names = run(PROGRAM, tmp_path / "edited.py", PROGRAM, edited)
    assert launched(names["k"]) == 15.0
    assert names["k"].inspect("source") == PROGRAM[PROGRAM.index("@kc.kernel") :]


def test_other_code_of_a_function_is_followed(tmp_path: Path) -> None:
    """Even if it is of the same file."""
    text = "@kc.func\ndef h(x: float):\n    return x * 3.0\n" + PROGRAM
    names = run(text, tmp_path / "one.py", text)
    second = names["h"].overloads[0]
    assert launched(names["k"]) == 15.0
    kernel = PROGRAM[PROGRAM.index("@kc.kernel") :]
    again = run(kernel, tmp_path / "again.py", kernel, names=names)
    names["f"].overloads[0].pyfunc.__code__ = second.pyfunc.__code__
    assert launched(again["k"]) == 16.0


REWRITTEN = """\
import kernelcore as kc
@kc.kernel
def k(y: kc.array(dtype=float)):
    value = 2.0
    if y[0] == 0.0:
        assert (
            value > 1.0
        )
        y[0] = value
    assert value > 0.0, "positive"
"""


@pytest.mark.parametrize("old", ["2.0\n", "== 0.0", "y[0] = value", "value "])
def test_the_text_of_rewritten_assertions_is_checked(tmp_path: Path, old: str) -> None:
    tree = ast.parse(REWRITTEN)
    rewrite_asserts(tree, REWRITTEN.encode())
    file = tmp_path / "rewritten.py"
    names = run(tree, file, REWRITTEN)
    assert launched(names["k"]) == 2.0
    other = REWRITTEN.replace(old, old.translate(str.maketrans("20v", "31w")))
    names = run(tree, file, other)
    with pytest.raises(kc.KernelSyntaxError, match="has changed since it was defined"):
        launched(names["k"])


def test_lines_may_lack_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "s = 1\n@str\ndef f(x):\n    y = x\n    return y\nf = [lambda x: x, lambda x: -x][s]\n"
    function = defined_in(text, monkeypatch)
    monkeypatch.setitem(linecache.cache, "<text>", (1, None, text.splitlines(), "<text>"))
    assert ast.unparse(read_source(function).tree.body[0]) == "return -x"
    # As str.splitlines gives them.
    function = defined_in("#\f\n" + text.replace("x: -x", "x: -x * '\f\u2028'"), monkeypatch)
    assert ast.unparse(read_source(function).tree.body[0]) == r"return -x * '\x0c\u2028'"
    function = defined_in(text.replace("@str\n", "").replace("f = [", "_ = ["), monkeypatch)
    lines = linecache.getlines("<text>")
    monkeypatch.setitem(linecache.cache, "<text>", (1, None, [x[:-1] for x in lines], "<text>"))
    assert ast.unparse(read_source(function).tree.body[1]) == "return y"


@pytest.mark.parametrize("error", [ValueError, MemoryError, RecursionError])
def test_a_text_that_python_cannot_parse_is_a_kernel_error(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable() -> None:
        pass

    def parse(text: str) -> ast.Module:
        raise error(f"{len(text)} characters")

    monkeypatch.setattr(syntax_tree, "parse", parse)
    with pytest.raises(KernelSyntaxError, match=r"cannot parse 'unreadable': \d+ characters") as e:
        read_source(unreadable)
    assert e.value.loc is not None
    assert e.value.loc.line == unreadable.__code__.co_firstlineno
