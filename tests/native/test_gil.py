"""Native code relies on Python's global interpreter lock, and frees what it makes."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernelcore as kc
from tests.helpers.environment import ROOT

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


LEAK_SCRIPT = """
import numpy as np
from kernelcore import _native
from tests.native import kernels
signature = kernels.axpy().signature()
x = np.ones(4, np.float32)
for bad in (None, x.astype(float)):
    try:
        _native.launch(signature, 4, (bad, 1.0, x, x))
    except TypeError:
        pass
_native.launch(signature, 4, (x, 1.0, x, x))
_native.set_resolver(lambda key, code: None)
_native.set_resolver(None)
"""


def test_the_module_leaks_no_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_LEAK_WARNINGS", "1")
    done = subprocess.run([sys.executable, "-c", LEAK_SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "leaked" not in done.stderr
