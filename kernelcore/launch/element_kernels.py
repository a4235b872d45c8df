"""Kernels that clear and add up scalars in arrays of four dimensions."""

# The types of parameters are objects.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

from kernelcore.frontend.calls.intrinsics import atomic_add, tid
from kernelcore.launch.declare import kernel
from kernelcore.runtime.array.array import array


@kernel
def clear_all(total: array(dtype=Any, ndim=4)):
    i, j, k, m = tid()
    total[i, j, k, m] = 0


@kernel
def add(total: array(dtype=Any, ndim=4), term: array(dtype=Any, ndim=4)):
    i, j, k, m = tid()
    total[i, j, k, m] = total[i, j, k, m] + term[i, j, k, m]


@kernel
def add_along(
    total: array(dtype=Any, ndim=4),
    term: array(dtype=Any, ndim=4),
    a: int,
    b: int,
    c: int,
    d: int,
):
    i, j, k, m = tid()
    atomic_add(total, i * a, j * b, k * c, m * d, term[i, j, k, m])
