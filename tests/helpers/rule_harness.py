"""What tests of custom derivative rules share: one-line kernels, gradients and tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.verify import verify
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.pipeline import normalize, optimize
from tests.helpers.kernel_harness import agree

floats = kc.array(dtype=float)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def gradient(kernel: kc.Kernel, x: np.ndarray, *rest: Any, ct: Any = None) -> np.ndarray:
    """The cotangents of ``x`` for cotangents of one result that is as long."""
    adj, out = np.zeros_like(x), np.zeros_like(x)
    ct = np.ones_like(x) if ct is None else ct
    nones = [None] * len(rest)
    kc.launch(kernel, x.size, [x, *rest], [out], [adj, *nones], [ct], adjoint=True)
    return adj


def tangent(kernel: kc.Kernel, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    derived = normalize(jvp(kernel.func, [0]).func)
    verify(derived)
    found = agree(optimize(derived), [x, np.zeros_like(x), t, np.zeros_like(x)], x.size)
    return found[-1]


def mapped(function: Any) -> kc.Kernel:
    @kc.kernel
    def run(x: floats, y: floats):
        i = kc.tid()
        y[i] = function(x[i])

    return run


def refused(build: Callable[[], Any], text: str) -> kc.KernelError:
    with pytest.raises(kc.KernelError, match=text) as found:
        build()
    assert found.value.remedy
    return found.value
