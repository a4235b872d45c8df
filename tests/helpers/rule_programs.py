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


floats = kc.array(dtype=float)
ints = kc.array(dtype=int)


@kc.func
def rounded(x: float):
    return kc.round(x)


@kc.func_grad(rounded)
def rounded_grad(x: float, adj_ret: float):
    kc.adjoint[x] += adj_ret


@kc.kernel
def quantize(x: floats, y: floats):
    """y = round(4 x) x, where the derivative of round counts as 1."""
    i = kc.tid()
    y[i] = rounded(4.0 * x[i]) * x[i]


@kc.func
def clipped(x: float):
    return x


@kc.func_grad(clipped)
def clipped_grad(x: float, adj_ret: float):
    kc.adjoint[x] += kc.clamp(adj_ret, -1.0, 1.0)


@kc.kernel
def clip_gradient(x: floats, y: floats):
    """y = x, with cotangents cut to [-1, 1]."""
    i = kc.tid()
    y[i] = clipped(x[i])


@kc.func
def gated(x: float, gate: float):
    return x if gate > 0.0 else 0.0


@kc.func_jvp(gated)
def gated_jvp(x: float, gate: float, t_x: float, t_gate: float):
    s = 1.0 / (1.0 + kc.exp(-gate))
    return t_x * s + x * s * (1.0 - s) * t_gate


@kc.kernel
def soft_gate(x: floats, gate: floats, y: floats):
    """y = x where gate > 0, else 0, with the derivatives of x sigmoid(gate)."""
    i = kc.tid()
    y[i] = gated(x[i], gate[i])


@kc.func
def gather(a: floats, i: int):
    return a[i]


@kc.func_grad(gather)
def gather_grad(a: floats, i: int, adj_ret: float):
    kc.adjoint[a][i] += 10.0 * adj_ret


@kc.kernel
def gather_kernel(a: floats, index: ints, y: floats):
    i = kc.tid()
    y[i] = gather(a, index[i])


@kc.struct
class Pair:
    x: kc.vec2
    n: int
    w: float
