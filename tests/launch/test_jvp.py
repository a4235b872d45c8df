"""Forward mode of plain launches against central differences, the adjoint, and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kernelcore as kc
from kernelcore.language.types import element_type
from kernelcore.operators.operation import evaluate
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.passes.autodiff.atomic_extrema import extremum_arrays
from tests.helpers.patterns import PATTERNS, Pattern

F64 = kc.array(dtype=kc.float64)
Numbers = npt.NDArray[Any]


@kc.kernel
def product(x: F64, a: kc.float64, n: int, y: F64):
    i = kc.tid()
    v = kc.sin(x[i]) * a
    for _ in range(n):
        v = v * x[i] + a
    y[i] = v


@kc.kernel
def in_place(x: F64):
    i = kc.tid()
    x[i] = x[i] * x[i] + 1.0


@kc.kernel
def totals(x: F64, t: F64):
    i = kc.tid()
    kc.atomic_add(t, 0, x[i] * x[i])


@kc.kernel
def largest(x: F64, m: F64):
    i = kc.tid()
    kc.atomic_max(m, 0, x[i])


@kc.kernel
def spin(p: kc.array(dtype=kc.vec3d), axis: kc.vec3d, out: kc.array(dtype=kc.vec3d)):
    i = kc.tid()
    out[i] = kc.cross(axis, p[i])


@kc.struct
class Body:
    mass: kc.float64
    x: kc.vec3d
    name: int


@kc.kernel
def energy(bodies: kc.array(dtype=Body), e: F64):
    i = kc.tid()
    b = bodies[i]
    e[i] = 0.5 * b.mass * kc.dot(b.x, b.x)


@kc.kernel
def pair(x: F64, y: F64, z: F64):
    i = kc.tid()
    y[i] = 2.0 * x[i]
    if x[i] > 0.0:
        z[i] = x[i] * x[i]


@kc.kernel
def count(x: F64, n: kc.array(dtype=int)):
    i = kc.tid()
    n[i] = int(x[i])


def differences(run: Any, x: Numbers, t: Numbers, step: float = 1e-6) -> Numbers:
    """The central difference of ``run`` along ``t``."""
    return (run(x + step * t) - run(x - step * t)) / (2 * step)


def values(n: int, seed: int = 0) -> Numbers:
    return np.random.default_rng(seed).normal(size=n)


def test_values_and_tangents() -> None:
    x, t, y = values(9), values(9, 1), np.zeros(9)

    def run(x: Numbers) -> Numbers:
        out = np.zeros(9)
        kc.launch(product, 9, [x, 1.5, 3], [out])
        return out

    found = kc.jvp(product, 9, [x, 1.5, 3], [t, None, None], [y])
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(y, run(x))
    np.testing.assert_allclose(found, differences(run, x, t), rtol=1e-7, atol=1e-8)


def test_tangents_of_numbers() -> None:
    x, y = values(9), np.zeros(9)

    def run(a: Numbers) -> Numbers:
        out = np.zeros(9)
        kc.launch(product, 9, [x, float(a), 3], [out])
        return out

    found = kc.jvp(product, 9, [x, 1.5, 3], [None, 2.0, None], [y])
    wanted = differences(run, np.asarray(1.5), np.asarray(2.0))
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)


def test_forward_and_reverse_agree() -> None:
    x, t, ct = values(9), values(9, 1), values(9, 2)
    y = np.zeros(9)
    t_y = kc.jvp(product, 9, [x, 1.5, 3], [t, None, None], [y])
    ct_x = np.zeros(9)
    kc.launch(product, 9, [x, 1.5, 3], [y], [ct_x, None, None], [ct.copy()], adjoint=True)
    np.testing.assert_allclose(np.dot(ct, t_y), np.dot(ct_x, t), rtol=1e-12)


def test_arrays_that_are_updated_in_place() -> None:
    x, t = values(5), values(5, 1)
    before, direction = x.copy(), t.copy()
    found = kc.jvp(in_place, 5, [x], [t])
    assert found is t
    np.testing.assert_allclose(x, before**2 + 1)
    np.testing.assert_allclose(t, 2 * before * direction)


def test_sums_add_to_the_tangents_that_are_given() -> None:
    x, t = values(100), values(100, 1)
    total, t_total = np.full(1, 5.0), np.full(1, 7.0)
    found = kc.jvp(totals, 100, [x], [t], [total], [t_total])
    assert found is t_total
    np.testing.assert_allclose(total, 5 + np.sum(x * x))
    np.testing.assert_allclose(t_total, 7 + np.sum(2 * x * t))


def test_arrays_of_kernelcore_vectors_and_values() -> None:
    p, t = values(12).reshape(4, 3), values(12, 1).reshape(4, 3)
    axis, t_axis = kc.vec3d(1.0, 2.0, 3.0), kc.vec3d(0.5, 0.0, -1.0)
    a, b = (kc.array(v, dtype=kc.vec3d) for v in (p, t))
    out = kc.zeros(4, dtype=kc.vec3d)
    found = kc.jvp(spin, 4, [a, axis], [b, t_axis], [out])
    assert isinstance(found, kc.Array)
    assert found.dtype is kc.vec3d
    np.testing.assert_allclose(out.numpy(), np.cross(np.array(axis), p))
    wanted = np.cross(np.array(t_axis), p) + np.cross(np.array(axis), t)
    np.testing.assert_allclose(found.numpy(), wanted)


def test_structs() -> None:
    rows = [(2.0, (1.0, 2.0, 3.0), 1), (3.0, (0.0, 1.0, 0.0), 2)]
    steps = [(1.0, (0.0, 1.0, 0.0), 0), (0.0, (2.0, 3.0, 0.0), 0)]

    def made(table: Any) -> Any:
        return kc.array([Body(mass=m, x=kc.vec3d(*x), name=n) for m, x, n in table], dtype=Body)

    bodies, t = made(rows), made(steps)
    e = np.zeros(2)
    found = kc.jvp(energy, 2, [bodies], [t], [e])
    mass, x = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    t_mass, t_x = np.array([r[0] for r in steps]), np.array([r[1] for r in steps])
    np.testing.assert_allclose(e, 0.5 * mass * np.sum(x * x, 1))
    np.testing.assert_allclose(found, 0.5 * t_mass * np.sum(x * x, 1) + mass * np.sum(x * t_x, 1))


def test_two_results_and_elements_that_are_not_written() -> None:
    x, t = np.array([1.0, -1.0]), np.array([3.0, 4.0])
    y, z = np.zeros(2), np.full(2, 9.0)
    t_y, t_z = kc.jvp(pair, 2, [x], [t], [y, z], [None, np.array([8.0, 8.0])])
    assert t_y.tolist() == [6, 8]
    assert z.tolist() == [1, 9]
    assert t_z.tolist() == [6, 8]


def test_a_direction_of_zero_and_empty_and_strided_arrays() -> None:
    x, y = values(6), np.zeros(6)
    assert not kc.jvp(product, 6, [x, 1.0, 2], [None, None, None], [y]).any()
    empty = np.zeros(0)
    assert kc.jvp(product, 0, [empty, 1.0, 2], [empty, None, None], [np.zeros(0)]).shape == (0,)
    wide, t = values(12), values(12, 1)
    found = kc.jvp(product, 6, [wide[::2], 1.0, 2], [t[::2], None, None], [y])
    dense = kc.jvp(product, 6, [wide[::2].copy(), 1.0, 2], [t[::2].copy(), None, None], [y])
    np.testing.assert_array_equal(found, dense)
    same = np.broadcast_to(np.ones(1), 6)
    ones = kc.jvp(product, 6, [x, 1.0, 2], [np.ones(6), None, None], [y])
    np.testing.assert_array_equal(kc.jvp(product, 6, [x, 1.0, 2], [same, None, None], [y]), ones)


def is_of_float64(kernel: kc.Kernel) -> bool:
    """Whether its arguments are taken as they are, and differences of float32 are not needed."""
    dtypes = [element_type(p.type) for p in kernel.func.params]
    return kernel.is_plain and all(d.bits == 64 for d in dtypes if d.is_float)


@pytest.mark.parametrize(
    "pattern", [p for p in PATTERNS if is_of_float64(p.kernel)], ids=lambda p: p.name
)
def test_every_pattern_against_central_differences(pattern: Pattern) -> None:
    rng = np.random.default_rng(3)
    op, point = kernel_operation(pattern.kernel, **pattern.options), pattern.arguments(rng)
    shapes = [np.shape(p) for p in point]
    grid = evaluate(op.grid, shapes)
    args: list[Any] = []
    steps: list[Any] = []
    for bound, param in zip(op.bindings, op.func.params, strict=True):
        dtype = element_type(param.type)
        if bound.operand < 0:
            args.append(np.zeros(evaluate(op.results[bound.result].shape, shapes), dtype.numpy))
            steps.append(None)
            continue
        given = point[bound.operand]
        args.append(np.array(given, dtype.numpy) if np.ndim(given) else given)
        step = rng.normal(size=np.shape(given))
        steps.append((step if np.ndim(step) else float(step)) if dtype.is_float else None)
    effects = zip(pattern.kernel.effects, op.func.params, strict=True)
    written = [e.writes and is_float(p) for e, p in effects]

    def results(arrays: list[Any]) -> list[Numbers]:
        return [a for a, is_written in zip(arrays, written, strict=True) if is_written]

    def run(by: float) -> list[Numbers]:
        moved = [copied(a) if s is None else a + by * s for a, s in zip(args, steps, strict=True)]
        kc.launch(pattern.kernel, grid, moved)
        return results(moved)

    made, directions = [copied(a) for a in args], [copied(s) for s in steps]
    if extremum_arrays(op.func, [i for i, s in enumerate(steps) if s is not None]):
        with pytest.raises(kc.KernelArgumentError, match="atomic minima or maxima"):
            kc.jvp(pattern.kernel, grid, made, directions)
        return
    found = kc.jvp(pattern.kernel, grid, made, directions)
    for after, wanted in zip(results(made), run(0.0), strict=True):
        np.testing.assert_array_equal(after, wanted)
    tangents = found if sum(written) > 1 else [found]
    for tangent, low, high in zip(tangents, run(-1e-6), run(1e-6), strict=True):
        np.testing.assert_allclose(tangent, (high - low) / 2e-6, rtol=2e-6, atol=2e-7)


def copied(value: Any) -> Any:
    return np.array(value) if np.ndim(value) else value


def test_a_tape_records_the_kernel_and_takes_tangents_for_constants() -> None:
    x, out = (kc.array(values(3, k), requires_grad=True) for k in range(2))
    with kc.Tape() as tape:
        t = kc.jvp(product, 3, [x, 1.0, 0], [kc.ones(3, dtype=kc.float64), None, None], [out])
    np.testing.assert_allclose(t.numpy(), np.cos(x.numpy()))
    tape.backward(grads={out: kc.ones(3, dtype=kc.float64)})
    np.testing.assert_allclose(np.array(x.grad), np.cos(x.numpy()))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (([values(3), 1.0, 2], [values(4), None, None], [np.zeros(3)]), "tangent of 'x'"),
        (([values(3), 1.0, 2], [values(3).astype("f"), None, None], [np.zeros(3)]), "float32"),
        (([values(3), 1.0, 2], [values(3), None, 1], [np.zeros(3)]), "has no tangent"),
        (([values(3), 1.0, 2], [values(3)], [np.zeros(3)]), "expected 3 entries, found 1"),
        (
            ([values(3), 1.0], [values(3), None], [np.zeros(3)]),
            r"expected 4 arguments \(.*\), found 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(args: Any, text: str) -> None:
    with pytest.raises(kc.KernelArgumentError, match=text):
        kc.jvp(product, 3, *args)
    assert not args[2][0].any()


def test_shared_memory_and_kernels_without_tangents_are_refused() -> None:
    x, y = values(3), np.zeros(3)
    with pytest.raises(kc.KernelArgumentError, match="share memory"):
        kc.jvp(product, 3, [x, 1.0, 1], [x, None, None], [x])
    with pytest.raises(kc.KernelArgumentError, match="share memory"):
        kc.jvp(product, 3, [x, 1.0, 1], [y, None, None], [np.zeros(3)], [y])
    with pytest.raises(kc.KernelArgumentError, match="no tangent"):
        kc.jvp(count, 3, [x], [x], [np.zeros(3, np.int32)])
    with pytest.raises(kc.KernelArgumentError, match="atomic minima or maxima"):
        kc.jvp(largest, 3, [x], [values(3)], [np.zeros(1)])
    other: Any = len
    with pytest.raises(kc.KernelArgumentError, match="expected a kernel"):
        kc.jvp(other, 3, [x], [x])
