"""The command line: what it prints, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelcore.__main__ import main
from kernelcore.compiler.stages import STAGES

PROGRAM = """\
import kernelcore as kc
from beside import FACTOR

@kc.kernel
def scale(x: kc.array(dtype=float), out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = x[i] * FACTOR

not_a_kernel = 1
"""
MARKS = {
    "source": "@kc.kernel",
    "ir": "scale",
    "jvp": "t_x",
    "vjp": "ct_x",
    "llvm": "define",
    "asm": "scale:",
    "ptx": ".visible .entry scale(",
}


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("KC_CACHE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    (tmp_path / "beside.py").write_text("FACTOR = 2.5\n")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("stage", STAGES)
def test_inspect_prints_every_stage(
    program: Path, capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    assert main(["inspect", f"{program}:scale", "--stage", stage]) == 0
    assert MARKS[stage] in capsys.readouterr().out


def test_inspect_takes_an_architecture(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = ["inspect", f"{program}:scale", "--stage", "ptx", "--arch"]
    assert main([*named, "sm_90"]) == 0
    assert ".target sm_90\n" in capsys.readouterr().out
    assert main([*named, "sm_20"]) == 1
    assert "expected one of sm_75" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("{}:absent", "no kernel 'absent' in {}; there are scale"),
        ("{}:not_a_kernel", "no kernel 'not_a_kernel'"),
        ("{}.gone:scale", "no file '{}.gone'"),
        ("scale", "expected FILE:KERNEL, found 'scale'"),
    ],
)
def test_inspect_names_missing_files_and_kernels(
    program: Path, capsys: pytest.CaptureFixture[str], named: str, message: str
) -> None:
    assert main(["inspect", named.format(program)]) == 1
    assert message.format(program, program) in capsys.readouterr().err


def test_the_cache_is_listed_and_cleared(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = f"import runpy; runpy.run_path({str(program)!r})['scale'].executable.signature"
    env = {**os.environ, "PYTHONPATH": str(program.parent)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert main(["cache", "ls"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (entry,) = (program.parent / "cache").glob("*.o")
    assert line.split()[:2] == [entry.stem, str(entry.stat().st_size)]
    kinds = sorted(path.suffix for path in entry.parent.iterdir())
    # Sources that have just been changed are not taken for known.
    known = [".host", ".ir", ".launch", ".launch", ".o"]
    assert kinds in (known, [*known, ".sources", ".sources"])
    assert main(["cache", "clear"]) == 0
    assert f"{len(kinds)} entries removed" in capsys.readouterr().out
    assert list((program.parent / "cache").iterdir()) == []
    assert main(["cache", "ls"]) == 0
    assert capsys.readouterr().out == ""


def test_info_says_where_the_cache_is(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    found = capsys.readouterr().out
    rows = dict(line.split(maxsplit=1) for line in found.splitlines())
    assert rows["cache"] == f"{program.parent / 'cache'}, 0 kernels, 0 bytes"
    assert int(rows["threads"]) >= 1
    assert {"kernelcore", "python", "numpy", "llvmlite", "target"} <= set(rows)


def test_the_module_runs(program: Path) -> None:
    command = [sys.executable, "-m", "kernelcore", "inspect", f"{program}:scale"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "scale" in done.stdout
    assert subprocess.run([*command[:3], "unknown"], capture_output=True).returncode == 2
