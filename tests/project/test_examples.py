"""Every example runs, the demo with few iterations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

EXAMPLES = ROOT / "examples"


def run(name: str, *args: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *args]
    done = subprocess.run(command, capture_output=True, text=True, cwd=EXAMPLES.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    tested = {"00_how_it_works.py", "01_tv_denoise.py", "02_composites.py"}
    tested |= {"05_adam_in_torch.py", "06_adam_in_paddle.py"}
    assert {p.name for p in EXAMPLES.glob("*.py")} == tested


def test_the_code_in_documents_runs(tmp_path: Path) -> None:
    """The blocks of a document are one script. One process runs all, to import frameworks once."""
    scripts: list[str] = []
    for name in ("README.md", "docs/language.md", "docs/frameworks.md"):
        text = (ROOT / name).read_text()
        blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
        assert blocks
        scripts.append(str(tmp_path / f"{Path(name).stem}.py"))
        Path(scripts[-1]).write_text("\n".join(blocks))
    runner = tmp_path / "runner.py"
    runner.write_text("import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path)\n")
    run(str(runner), *scripts)


def test_every_stage_is_printed() -> None:
    text = run("00_how_it_works.py")
    signs = ["@kc.kernel", "grid 1 {", "normalize_rows_vjp(", "define ", ".globl"]
    positions = [text.index(sign) for sign in signs]
    assert positions == sorted(positions)


def test_denoising_runs_and_the_three_ways_agree(tmp_path: Path) -> None:
    picture = tmp_path / "tv.png"
    text = run("01_tv_denoise.py", "--iterations", "4", "--output", str(picture))
    difference = float(text.split("between the three: ")[1].split()[0])
    assert difference < 1e-4
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_composites_agree_with_numpy() -> None:
    lines = run("02_composites.py").splitlines()
    assert len(lines) == 7
    assert all(float(line.split()[-1]) < 1e-12 for line in lines)


@pytest.mark.parametrize("name", ["05_adam_in_torch.py", "06_adam_in_paddle.py"])
def test_optimisers_of_frameworks_find_the_minimum(name: str) -> None:
    lines = run(name, "--steps", "8000", "--points", "20").splitlines()
    sums = [float(line.split()[-1]) for line in lines if "sum of squares" in line]
    minima = [line.partition("at (")[2].rstrip(")") for line in lines if "minimum at" in line]
    assert len(sums) == 2
    assert all(left < 1e-12 for left in sums)
    assert minima
    for point in minima:
        # Steps of a fixed rate keep points moving around the minimum.
        assert all(abs(float(x) - 1.0) < 0.02 for x in point.split(", "))
