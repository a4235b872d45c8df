"""``python -m kernelcore port``: right in every line of programs written for it.

A line of ``port_programs`` that does not simply run says so: ``# port: differs %; missing tile``.
"""

from __future__ import annotations

import ast
import io
import re
import shutil
import sys
import tokenize
from pathlib import Path
from typing import Any

import pytest

import kernelcore as kc
import kernelcore.compat.warp as wp
from kernelcore.__main__ import main
from kernelcore.compat.warp.port import read_program
from kernelcore.compat.warp.port.differences import DIFFERENCES
from kernelcore.compat.warp.port.imports import with_own_imports
from kernelcore.compat.warp.port.reading import FileReport
from kernelcore.language.function import Function
from tests.helpers.environment import ROOT

PROGRAMS = Path(__file__).parent / "port_programs"
FOLDERS = ("particles", "fields", "robots")
_MARK = re.compile(r"# port: (.*)")


def expected(source: str) -> dict[int, set[str]]:
    """The findings that comments ask for, as 'differs %', by line."""
    found: dict[int, set[str]] = {}
    for number, line in enumerate(source.splitlines(), 1):
        mark = _MARK.search(line)
        for part in mark[1].split("; ") if mark else ():
            verdict, *names = part.split()
            found.setdefault(number, set()).update(f"{verdict} {name}" for name in names)
    return found


def lines_with_warp(source: str) -> set[int]:
    """The lines that have a name which an import of Warp binds."""
    names = {"warp"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.asname and a.name.startswith("warp")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("warp"):
            names |= {a.asname or a.name for a in node.names}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0] for t in tokens if t.type == tokenize.NAME and t.string in names}


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_line_of_a_program_is_judged_right(folder: str) -> None:
    reports = read_program(PROGRAMS / folder)
    assert sum(r.kernels for r in reports) >= 30
    for report in reports:
        found: dict[int, set[str]] = {}
        for f in report.findings:
            found.setdefault(f.line, set()).add(f"{f.verdict.value} {f.name}")
        assert found == expected(report.text), report.path.name
        assert set(report.runs) == lines_with_warp(report.text) - set(found), report.path.name
    assert {r.path.name for r in reports} == {p.name for p in (PROGRAMS / folder).glob("*.py")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_runs_compiles_after_its_imports_are_rewritten(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(PROGRAMS / folder, tmp_path / folder)
    assert main(["port", str(tmp_path / folder), "--write"]) == 1
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / folder), *sys.path])
    compiled = 0
    for report in read_program(PROGRAMS / folder):
        if any(_is_at_import(report, f.line) for f in report.missing):
            continue
        names: dict[str, Any] = {"__name__": report.path.stem}
        path = tmp_path / folder / report.path.name
        exec(compile(path.read_text(), str(path), "exec"), names)
        kernels = [v for v in names.values() if isinstance(v, kc.Kernel) and not v.is_generic]
        assert not kc.compile_all(kernels).failed
        compiled += len(kernels)
    assert compiled >= 7


def _is_at_import(report: FileReport, line: int) -> bool:
    """Whether a line runs when the file is imported, or belongs to a kernel."""
    for node in ast.parse(report.text).body:
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            is_host = isinstance(node, ast.FunctionDef) and not node.decorator_list
            return not (is_host or isinstance(node, ast.ClassDef))
    return True


OWN = "kernelcore.compat.warp"


@pytest.mark.parametrize(
    ("source", "rewritten"),
    [
        ("import warp as wp", f"import {OWN} as wp"),
        ("import warp", f"import {OWN} as warp"),
        ("import os, warp as wp, sys", f"import os, {OWN} as wp, sys"),
        ("import warp.optim as o", f"import {OWN}.optim as o"),
        (
            "import warp.jax_experimental.ffi",
            f"import {OWN} as warp, {OWN}.jax_experimental.ffi",
        ),
        ("from warp import vec3, mat33 as m", f"from {OWN} import vec3, mat33 as m"),
        ("from warp.utils import (\n  map,\n)", f"from {OWN}.utils import (\n  map,\n)"),
        ("try:\n    import warp as é; y = 'ü'", f"try:\n    import {OWN} as é; y = 'ü'"),
        ("s = 'import warp'\r\nimport warp\r\n", f"s = 'import warp'\r\nimport {OWN} as warp\r\n"),
        ("import warp.render", "import warp.render"),
        ("from warp.sparse import bsr_zeros", "from warp.sparse import bsr_zeros"),
        ("import warplike\nfrom .warp import x", "import warplike\nfrom .warp import x"),
    ],
)
def test_imports_are_rewritten_and_nothing_else(source: str, rewritten: str) -> None:
    end = "\nfinally: pass\n" if source.startswith("try") else ""
    assert with_own_imports(source + end) == rewritten + end
    assert with_own_imports(rewritten + end) == rewritten + end


def test_the_command_prints_lines_and_writes_imports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import warp as wp\n\n\n@wp.kernel\ndef k(n: wp.array(dtype=int)):\n    n[0] = n[0] / 2\n"
    )
    assert main(["port", str(program), "--write", "--all"]) == 0
    printed = capsys.readouterr().out
    assert "    6 differs  / of integers: kernelcore gives an error (`//` rounds down)" in printed
    assert "    4 runs     @wp.kernel" in printed
    assert "imports rewritten" in printed
    assert program.read_text().startswith("import kernelcore.compat.warp as wp\n")
    assert main(["port", str(program)]) == 0
    assert "nothing here imports warp" in capsys.readouterr().out


def test_the_command_refuses_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["port", str(tmp_path / "absent")]) == 1
    assert "expected a file or a folder" in capsys.readouterr().err
    (tmp_path / "broken.py").write_text("def f(:\n")
    assert main(["port", str(tmp_path)]) == 1
    assert "expected Python" in capsys.readouterr().err


def test_reading_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import warp as wp\nraise SystemExit\nA = wp.zeros(1 << 60)\n"
        "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n    x[0] = x[0] % A\n"
    )
    (report,) = read_program(tmp_path)
    assert [(f.line, f.name) for f in report.findings] == [(6, "%")]


def test_negative_literals_count_from_the_end_in_arrays_only(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import warp as wp\n@wp.kernel\n"
        "def k(a: wp.array2d(dtype=wp.vec3), w: wp.vec3, b: wp.array(dtype=float)):\n"
        "    v = a[0, -1]\n    b[-1] = v[-1] + w[-2]\n    b[0] = a[-1][2][0]\n    b[-n] = 1.0\n"
    )
    (report,) = read_program(tmp_path)
    assert [(f.line, f.name) for f in report.findings] == [(4, "[]"), (5, "[]"), (6, "[]")]


def test_every_function_of_its_own_is_in_the_table_of_differences() -> None:
    own = {n for n, f in vars(wp).items() if isinstance(f, Function) and f is not getattr(kc, n, f)}
    assert own <= {name for d in DIFFERENCES for name in d.names}


def test_the_page_has_the_table_of_differences() -> None:
    page = (ROOT / "docs/warp.md").read_text()
    for d in DIFFERENCES:
        assert f"| {d.title} | {d.plain} | {d.warp} |" in page, d.title
