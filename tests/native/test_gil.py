"""Native code relies on Python's global interpreter lock, also under free-threaded Python."""

from __future__ import annotations

import subprocess
import sys

import kernelcore as kc
from tests.helpers.paths import ROOT

PROGRAM = """
import sys
sys._is_gil_enabled = lambda: False
from kernelcore.base.errors import KernelError
try:
    import kernelcore.base.native
except KernelError as error:
    print(error)
"""


def test_the_module_does_not_declare_that_it_works_without_the_gil() -> None:
    assert kc.num_threads() > 0  # of the native module
    assert "FREE_THREADED" not in (ROOT / "csrc" / "CMakeLists.txt").read_text()
    assert getattr(sys, "_is_gil_enabled", lambda: True)()


def test_python_without_the_gil_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "needs Python's global interpreter lock" in done.stdout
    assert "unset PYTHON_GIL" in done.stdout
