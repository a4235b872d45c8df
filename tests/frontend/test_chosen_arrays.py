"""Names that stand for one array or another, as the path of a thread decides."""

# Annotations of kernels are read by kernelcore.
# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.passes.pipeline import optimize
from tests.device import emulation
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import agree

A1 = kc.array(dtype=kc.float64)
A2 = kc.array(dtype=kc.float64, ndim=2)
V1 = kc.array(dtype=kc.vec3d)
RNG = np.random.default_rng(8)


@kc.struct
class Shape:
    """A part of an array, and how it is scaled."""

    points: V1
    weights: A1
    scale: kc.float64


def run_all(kernel: kc.Kernel, dim: int, args: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays after a launch, which the interpreter, machine code, PTX and Python agree on."""
    flat = [a for arg in args for a in (arg if isinstance(arg, tuple) else (arg,))]
    found = agree(kernel.func, flat, dim)
    if IS_CPU:
        device = [a.copy() if isinstance(a, np.ndarray) else a for a in flat]
        assert emulation.run(optimize(kernel.func), device, dim).status == 0
        for one, other in zip((a for a in device if isinstance(a, np.ndarray)), found, strict=True):
            np.testing.assert_allclose(one, other, 1e-15)
    python = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    with kc.python_mode():
        kc.launch(kernel, dim, python)
    for one, other in zip((a for a in python if isinstance(a, np.ndarray)), found, strict=True):
        np.testing.assert_allclose(one, other, 1e-15)
    return found


def test_branches_choose_arrays() -> None:
    @kc.kernel
    def kernel(x: A1, y: A1, z: A1, out: A1):
        i = kc.tid()
        a = x
        if i % 3 == 1:
            a = y
        elif i % 3 == 2:
            a = z
        b = x if i > 3 else z
        c = kc.where(i % 2 == 0, a, b)
        out[i] = a[i] + 10.0 * b[i] + 100.0 * c[i] + kc.float64(len(a) + a.shape[0])
        a[i] = 7.0
        b[i] += 2.0
        if c:
            kc.atomic_add(c, i, 1.0)

    x, y, z = (RNG.normal(size=n) for n in (6, 7, 8))
    args = [x, y, z, np.zeros(6)]
    *_, out = run_all(kernel, 6, args)
    choice = [(x, y, z)[i % 3] for i in range(6)]
    other = [x if i > 3 else z for i in range(6)]
    last = [a if i % 2 == 0 else b for i, (a, b) in enumerate(zip(choice, other, strict=True))]
    rows = zip(choice, other, last, strict=True)
    expected = [a[i] + 10 * b[i] + 100 * c[i] + 2 * len(a) for i, (a, b, c) in enumerate(rows)]
    np.testing.assert_allclose(out, expected, 1e-14)


def test_loops_exchange_arrays() -> None:
    @kc.kernel
    def kernel(x: A2, y: A2, n: int, out: A2):
        i = kc.tid()
        source, target = x, y
        for _ in range(n):
            target[i, 0] = 2.0 * source[i, 0] + 1.0
            source, target = target, source
        k = 0
        row = source[i]
        while k < i:
            row = target[i] if k == 1 else row[1:]
            k += 1
        out[i, 0] = source[i, 0]
        out[i, 1] = kc.float64(len(row))

    for n in (0, 1, 4):
        x, y = RNG.normal(size=(4, 5)), np.zeros((4, 5))
        _, _, out = run_all(kernel, 4, [x, y, n, np.zeros((4, 2))])
        np.testing.assert_allclose(out[:, 0], x[:, 0] * 2.0**n + 2.0**n - 1.0, 1e-13)
        assert out[:, 1].tolist() == [5, 4, 5, 4]


@kc.func
def shape_of(a: V1, b: V1, w: A1, kind: int):
    shape = Shape()
    if kind == 0:
        shape.points = a
        shape.scale = 2.0
    else:
        shape.points = b
        shape.scale = 3.0
    if kind > 1:
        shape.weights = w
    return shape


@kc.kernel
def weighted(a: V1, b: V1, w: A1, out: A1):
    i = kc.tid()
    shape = shape_of(a, b, w, i % 3)
    total = kc.float64(0.0)
    for k in range(len(shape.points)):
        total += shape.points[k].y * shape.points[k][2] * shape.scale
    if shape.weights:
        total *= shape.weights[i]
    out[i] = total


def weighted_args() -> list[Any]:
    return [RNG.normal(size=(3, 3)), RNG.normal(size=(4, 3)), RNG.normal(size=6), np.zeros(6)]


def test_functions_return_structs_of_other_arrays() -> None:
    a, b, w, out = args = weighted_args()
    out = run_all(weighted, 6, args)[3]
    sums = [2.0 * (a[:, 1] * a[:, 2]).sum(), *[3.0 * (b[:, 1] * b[:, 2]).sum()] * 2] * 2
    factors = [w[i] if i % 3 == 2 else 1.0 for i in range(6)]
    np.testing.assert_allclose(out, np.multiply(sums, factors), 1e-13)


def test_gradients_reach_the_array_that_was_chosen() -> None:
    a, b, w, out = weighted_args()
    kc.gradcheck(weighted, 6, [a, b, w], [out])

    @kc.kernel
    def kernel(x: A1, y: A1, out: A1):
        i = kc.tid()
        a, b = x, y
        for k in range(i):
            if k % 2 == 0:
                a, b = b, a
            kc.atomic_add(out, i, a[k] * b[i])

    kc.gradcheck(kernel, 4, [RNG.normal(size=4), RNG.normal(size=4)], [np.zeros(4)])


def test_rows_that_are_exchanged_stay_those_of_the_thread() -> None:
    @kc.kernel
    def kernel(x: A2, n: int, p: A2, q: A2):
        i = kc.tid()
        old, new = p[i], q[i]
        if n == 2:
            old, new = new, old
        for k in range(x.shape[1]):
            old[k] = x[i, k]
        for _ in range(n):
            for k in range(x.shape[1]):
                new[k] = old[k] * x[i, k]
            old, new = new, old

    for n in (0, 1, 2, 5):
        x = RNG.normal(size=(4, 3))
        _, p, q = run_all(kernel, 4, [x, n, np.zeros((4, 3)), np.zeros((4, 3))])
        last = q if n % 2 == (n != 2) else p
        np.testing.assert_allclose(last, x ** (n + 1), 1e-13)
        kc.gradcheck(kernel, 4, [x, n], [np.zeros((4, 3)), np.zeros((4, 3))])


def test_numbers_that_are_exchanged_keep_their_signs() -> None:
    @kc.kernel
    def kernel(n: int, out: A1):
        i = kc.tid()
        a, b = kc.float64(0.0), kc.float64(-0.0)
        for _ in range(n):
            a, b = b, a
        out[i] = 1.0 / a

    for n in (0, 1, 2):
        (out,) = run_all(kernel, 2, [n, np.zeros(2)])
        assert out.tolist() == [[np.inf, -np.inf][n % 2]] * 2


def test_returns_give_other_arrays() -> None:
    @kc.func
    def one_of(x: A1, y: A2, k: int) -> A1:
        if k == 0:
            return x
        return y[k]

    @kc.func
    def pair_of(x: A1, y: A2, k: int):
        if k == 0:
            return Shape(weights=x, scale=1.0), kc.float64(1.0)
        if k == 1:
            return Shape(scale=2.0), kc.float64(0.5)
        return Shape(weights=y[0], scale=3.0), kc.float64(k) * 2.0

    @kc.kernel
    def kernel(x: A1, y: A2, out: A1):
        i = kc.tid()
        row = one_of(x, y, i)
        shape, factor = pair_of(x, y, i)
        out[i] = row[1] + shape.scale * factor
        if shape.weights:
            out[i] += shape.weights[2]
        row[0] = 5.0

    x, y = RNG.normal(size=3), RNG.normal(size=(3, 4))
    _, new_y, out = run_all(kernel, 3, [x, y, np.zeros(3)])
    expected = [x[1] + 1 + x[2], y[1, 1] + 1, y[2, 1] + 12 + y[0, 2]]
    np.testing.assert_allclose(out, expected, 1e-14)
    assert new_y[1:, 0].tolist() == [5, 5]


def test_null_arrays_have_no_elements() -> None:
    @kc.kernel
    def kernel(w: A1, n: int, out: A1):
        i = kc.tid()
        shape = Shape()
        if n > 0:
            shape.weights = w
        if n != 2:
            out[i] = shape.weights[i]
        out[i] += kc.float64(len(shape.weights))

    assert kc.array(run_all(kernel, 2, [np.ones(3), 1, np.zeros(2)])[1]).numpy().tolist() == [4, 4]
    with pytest.raises(kc.KernelError, match="no array was assigned to"):
        kc.launch(kernel, 2, [np.ones(3), 0, np.zeros(2)])


def test_arrays_of_other_types_are_not_joined() -> None:
    @kc.kernel
    def of_ranks(x: A1, y: A2, n: int):
        a = x
        if n > 0:
            a = y
        a[0] = 1.0

    @kc.kernel
    def of_loops(x: A2, n: int):
        a = x
        for _ in range(n):
            a = a[0]
        a[0, 0] = 1.0

    for kernel, what in ((of_ranks, "'a'"), (of_loops, "'a'")):
        with pytest.raises(kc.KernelTypeError, match=what):
            _ = kernel.func


def test_native_functions_take_one_array() -> None:
    @kc.func_native("return x[0];")
    def first(x: A1) -> kc.float64: ...

    @kc.kernel
    def kernel(x: A1, y: A1, out: A1):
        a = x
        if kc.tid() > 0:
            a = y
        out[0] = first(a)

    with pytest.raises(kc.KernelTypeError, match="found y or x, as the path decides"):
        _ = kernel.func


def test_a_type_is_refused_where_a_number_is_returned() -> None:
    @kc.func
    def chosen(x: float) -> float:
        return kc.float32  # pyright: ignore[reportReturnType]

    @kc.kernel
    def kernel(x: kc.array[float]):
        x[0] = chosen(x[0])

    with pytest.raises(kc.KernelTypeError, match="where the annotation says"):
        _ = kernel.func
