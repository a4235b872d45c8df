"""Kernels with C++ texts that several tests use."""

from __future__ import annotations

import numpy as np

import kernelcore as kc

RNG = np.random.default_rng(7)
floats = kc.array(dtype=kc.float32)


@kc.func_native(
    "out[tid] = a * x[tid] + y[tid];",
    """
    adj_a += x[tid] * adj_out[tid];
    adj_x[tid] += a * adj_out[tid];
    adj_y[tid] += adj_out[tid];
    """,
)
def saxpy(a: kc.float32, x: floats, y: floats, out: floats, tid: int): ...


@kc.kernel
def saxpy_kernel(a: float, x: floats, y: floats, out: floats):
    saxpy(a, x, y, out, kc.tid())


@kc.func_native("return sqrtf(x) * 2.0f;", "adj_x += adj_ret / sqrtf(x);")
def double_root(x: float) -> float: ...


@kc.kernel
def roots(x: floats, y: floats):
    i = kc.tid()
    if x[i] > 1.0:
        y[i] = 3.0 * double_root(x[i])


@kc.kernel
def repeated_roots(x: floats, n: int, y: floats):
    i = kc.tid()
    s = x[i]
    for _ in range(n):
        s = s * double_root(s)
    y[i] = s


@kc.func_native(
    "out[i] = table[index[i]];",
    "adj_table[index[i]] += adj_out[i];",
)
def gather(table: floats, index: kc.array(dtype=int), out: floats, i: int): ...


@kc.kernel
def gather_kernel(table: floats, index: kc.array(dtype=int), out: floats):
    gather(table, index, out, kc.tid())


@kc.func_native("out[i] = std::exp(x[i]);", "adj_x[i] += out[i] * adj_out[i];")
def exponential(x: floats, out: floats, i: int): ...


@kc.kernel
def exponential_kernel(x: floats, out: floats):
    exponential(x, out, kc.tid())


@kc.func_native("x[i] *= a;", "adj_a += adj_x[i] * x[i] / a; adj_x[i] = a * adj_x[i];")
def scale(x: floats, a: float, i: int): ...


@kc.kernel
def scale_kernel(x: floats, a: float):
    scale(x, a, kc.tid())


def random(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2.0, shape).astype(np.float32)
