"""The recipes of docs/internals/adding.md: their edits work, and lists of files are complete."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelcore import _native
from tests.helpers.environment import ROOT

TEXT = (ROOT / "docs" / "internals" / "adding.md").read_text()
SOURCES = ("kernelcore", "csrc", "torch_ext", "jax_ffi", "paddle_ext")
SUFFIXES = {".py", ".cc", ".h"}

PROGRAM = """
import sys
from pathlib import Path

# An editable install finds the sources by a hook; here the copy is wanted.
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__name__.startswith("ScikitBuild")]

import numpy as np
import kernelcore as kc
from tests.helpers import interpreter
from kernelcore.ir.printer import pretty

assert Path(kc.__file__).parents[1] == Path(__file__).parent


@kc.kernel
def new(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    print(i)
    y[i] = kc.square(x[i]) + kc.ease(x[i])


text = pretty(new.func)
assert "square" in text and "print" not in text, text
x = np.linspace(0.1, 0.9, 50)
expected = x * x + x * x * (3.0 - 2.0 * x)
native, meant = np.zeros_like(x), np.zeros_like(x)
kc.launch(new, len(x), [x], [native])
interpreter.run(new.func, [x, meant], len(x))
assert np.allclose(native, expected)
assert np.array_equal(native, meant)
gradient = np.zeros_like(x)
ones = np.ones_like(x)
kc.launch(new, len(x), [x], [native], adj_inputs=[gradient], adj_outputs=[ones], adjoint=True)
assert np.allclose(gradient, 2.0 * x + 6.0 * x * (1.0 - x))
"""


def section(title: str) -> str:
    """The text under a heading of the page."""
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def edits(title: str) -> list[tuple[str, str]]:
    """The files that the blocks of a section change, with the lines of the change."""
    blocks = re.findall(r"^```diff\n(.*?)^```", section(title), re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in block.split("+++ ")[1:]]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def apply(root: Path, file: str, change: str) -> None:
    """Make a change: lines with a minus become those with a plus after them; others are added."""
    path = root / file
    text = path.read_text() if path.exists() else ""
    for old, new in re.findall(r"((?:^-.*\n)*)((?:^\+.*\n)+)", change, re.MULTILINE):
        before, after = (re.sub(r"^[-+]", "", t, flags=re.MULTILINE) for t in (old, new))
        if before:
            assert text.count(before) == 1, f"{file} has no {before!r}"
            text = text.replace(before, after)
        else:
            text += "\n" + after
    path.write_text(text)


def named_in(title: str) -> set[str]:
    return {f for f in re.findall(r"`([\w/]+\.\w+)`", section(title)) if f.split("/")[0] in SOURCES}


def naming(pattern: str, *roots: str) -> set[str]:
    """The files below ``roots`` in which ``pattern`` occurs."""
    files = (p for root in roots for p in (ROOT / root).rglob("*") if p.suffix in SUFFIXES)
    return {
        str(p.relative_to(ROOT))
        for p in files
        if "third_party" not in p.parts and re.search(pattern, p.read_text())
    }


def test_a_built_in_and_a_pass_are_added_as_described(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "kernelcore", tmp_path / "kernelcore", ignore=ignored)
    shutil.copy(_native.__file__, tmp_path / "kernelcore")
    shutil.copytree(ROOT / "tests" / "helpers", tmp_path / "tests" / "helpers", ignore=ignored)
    changes = [*edits("A built-in"), *edits("A pass")]
    assert len(changes) == 4
    for file, change in changes:
        apply(tmp_path, file, change)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KC_CACHE_DIR": str(tmp_path / "c")}
    command = [sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("title", "pattern", "roots"),
    [
        ("An op kind", r"\bATOMIC_CAS\b", ("kernelcore",)),
        ("A dtype", r"bfloat16|BF16|BFloat16", SOURCES),
    ],
)
def test_lists_of_files_are_complete(title: str, pattern: str, roots: tuple[str, ...]) -> None:
    assert named_in(title) == naming(pattern, *roots)
