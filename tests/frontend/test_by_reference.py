"""Parameters ``ref[T]``: what a call assigns, in every mode, with derivatives."""

# pyright: basic, reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.language import agree

RNG = np.random.default_rng(190)
A1 = kc.array(dtype=kc.float64)


@kc.struct
class Body:
    at: kc.vec2d
    mass: kc.float64


@kc.func
def bump(x: kc.ref[kc.float64], by: kc.float64):
    x += by * x


@kc.func
def divided(x: kc.ref[kc.float64], low: kc.float64) -> bool:
    if x < low:
        return False
    for _ in range(3):
        x = 0.5 * x
        if x < low:
            return True
    return True


@kc.func
def swap(a: kc.ref[Any], b: kc.ref[Any]):
    c = a
    a = b
    b = c


@kc.func
def push(body: kc.ref[Body], by: kc.vec2d):
    body.at += by * body.mass
    bump(body.mass, 0.5)


def test_variables_elements_components_and_fields_are_assigned() -> None:
    @kc.kernel
    def kernel(x: A1, bodies: kc.array(dtype=Body), m: kc.array(dtype=kc.mat22d), out: A1):
        i = kc.tid()
        v = x[i]
        bump(v, 2.0)
        bump(kc.address_of(v), by=3.0)
        w = kc.vec3d(v, 1.0, 2.0)
        bump(w[1], x[i])
        bump(m[i][1, 0], 1.0)
        push(bodies[i], w.yz)
        body = bodies[i]
        push(kc.address_of(body), kc.vec2d(1.0, x[i]))
        swap(w[0], body.mass)
        bump(out[i], 1.0)
        out[i] += w[0] + 2.0 * body.mass + body.at[1]

    x, n = RNG.normal(size=4), 4
    bodies = np.zeros(n, cast(Any, Body).numpy_dtype())
    bodies["at"], bodies["mass"] = RNG.normal(size=(n, 2)), RNG.uniform(1, 2, n)
    matrices, start = RNG.normal(size=(n, 2, 2)), RNG.normal(size=n)
    _, moved, m, out = agree(kernel, n, [x, bodies, matrices, start])
    mass, at = bodies["mass"], bodies["at"]
    by = np.stack([1 + x, np.full(n, 2.0)], 1)
    np.testing.assert_allclose(m[:, 1, 0], 2 * matrices[:, 1, 0], 1e-15)
    np.testing.assert_allclose(moved["at"], at + by * mass[:, None], 1e-14)
    np.testing.assert_allclose(moved["mass"], 1.5 * mass, 1e-15)
    last = moved["at"][:, 1] + 1.5 * mass * x
    want = 2 * start + 2.25 * mass + 2 * 12 * x + last
    np.testing.assert_allclose(out, want, 1e-13)


def test_derivatives_go_through_updates() -> None:
    @kc.kernel
    def kernel(x: A1, out: A1):
        i = kc.tid()
        v = kc.vec2d(x[i], 1.0)
        for k in range(3):
            bump(v[k % 2], x[i])
            if divided(v[1], 0.4):
                swap(v[0], v[1])
        y = v[0]
        while divided(y, 0.3):
            bump(v[1], y)
        out[i] = v[0] * v[1] + y

    x = RNG.uniform(0.5, 1.5, 5)
    agree(kernel, 5, [x, np.zeros(5)])
    kc.gradcheck(kernel, 5, [x], [np.zeros(5)])


def test_variables_of_loops_and_branches_are_carried() -> None:
    @kc.kernel
    def kernel(n: int, out: A1):
        i = kc.tid()
        v = kc.float64(1.0)
        count = 0
        for k in range(n):
            if k > i:
                bump(v, 1.0)
            else:
                bump(kc.address_of(v), 2.0)
            swap(count, k)
        out[i] = v + 0.001 * kc.float64(count)

    found = agree(kernel, 5, [4, np.zeros(5)])[1]
    threes = np.minimum(np.arange(5) + 1, 4)
    np.testing.assert_allclose(found, 3.0**threes * 2.0 ** (4 - threes) + 0.003, 1e-15)


def _error(kernel: kc.Kernel) -> str:
    with pytest.raises(kc.KernelError) as error:
        _ = kernel.func
    return str(error.value)


def test_what_has_no_place_is_refused() -> None:
    @kc.kernel
    def value(out: A1):
        bump(out[0] + 1.0, 2.0)

    @kc.kernel
    def twice(out: A1):
        v = kc.vec2d(out[0], 1.0)
        swap(v, v)

    @kc.kernel
    def part(out: A1):
        b = kc.vec2d(out[0], 1.0)
        swap(b[0], b[0])

    @kc.kernel
    def pointer(out: A1):
        p = kc.address_of(out[0])
        out[0] = p

    @kc.kernel
    def parameter(x: kc.ref[kc.float64], out: A1):
        out[0] = x

    @kc.func
    def changed(x: kc.ref[kc.float64]):
        x = kc.int64(3)  # noqa: F841

    @kc.kernel
    def other_type(out: A1):
        changed(out[0])

    assert "updates its argument 'x': 'out[0] + 1.0' is no variable" in _error(value)
    assert "'v' twice" in _error(twice)
    assert "'b[0]' twice" in _error(part)
    assert "address_of() outside of an argument" in _error(pointer)
    assert "a kernel takes no ref" in _error(parameter)
    assert "'x' is a float64 that a call assigns" in _error(other_type)
    with pytest.raises(kc.KernelTypeError, match="ref: expected a number"):
        kc.ref[kc.array(dtype=float)]
    with pytest.raises(kc.KernelTypeError, match="assigns its parameter 'x', which a call in Py"):
        bump(1.0, 2.0)
    with pytest.raises(kc.KernelTypeError, match=r"has parameters ref\[...\], and takes no rule"):

        @kc.func_grad(bump)
        def rule(x: kc.float64, by: kc.float64, adj_ret: kc.float64): ...
