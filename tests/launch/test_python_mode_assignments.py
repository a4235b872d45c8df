"""Assignments to several places, in Python mode as in compiled code."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc

Floats = kc.array(dtype=float)


@kc.struct
class Pair:
    first: float
    second: float


@kc.kernel
def fields(x: Floats, y: Floats):
    i = kc.tid()
    p = Pair(x[i], 2.0)
    p.first, p.second = p.second, p.first
    y[i] = p.first - p.second


@kc.kernel
def components(x: Floats, y: Floats):
    i = kc.tid()
    v = kc.vec3(x[i], 2.0, 3.0)
    v.x, v.y = v.y, v.x
    v[1], v[2] = v[2], v[1]
    y[i] = v.x - 2.0 * v.y + 5.0 * v.z


@kc.kernel
def elements(x: Floats, y: Floats):
    i = kc.tid()
    y[i], x[i] = x[i], y[i]
    y[i], factor = y[i] + 1.0, 3.0
    a = b = x[i]
    if a < 8.0:
        x[i], a = a * b, 0.0
    y[i] = y[i] * factor + a


@kc.func
def swapped(v: kc.vec2) -> Any:
    v.x, v.y = v.y, v.x
    return v


@kc.kernel
def calls(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = swapped(kc.vec2(x[i], 0.5)).x


@pytest.mark.parametrize("kernel", [fields, components, elements, calls], ids=lambda k: k.name)
def test_several_places_take_what_compiled_code_gives_them(kernel: kc.Kernel) -> None:
    compiled = [np.arange(4, dtype=np.float32), np.arange(7, 11, dtype=np.float32)]
    python = [a.copy() for a in compiled]
    kc.launch(kernel, 4, compiled)
    with kc.python_mode():
        kc.launch(kernel, 4, python)
    for found, expected in zip(python, compiled, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(compiled[1], np.arange(7, 11))
