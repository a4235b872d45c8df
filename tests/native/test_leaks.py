"""The native module frees what it makes."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
