"""Values of programs written for Warp: composites of parts, structs, names that may be unset."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: basic, reportInvalidTypeForm=false, reportCallIssue=false, reportRedeclaration=false
# pyright: reportArgumentType=false, reportOperatorIssue=false, reportUndefinedVariable=false

from __future__ import annotations

import pickle
from collections.abc import Iterator
from enum import IntFlag

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.language import agree, run_both

RNG = np.random.default_rng(24)
A1 = kc.array(dtype=kc.float64)


def test_a_variable_that_a_call_assigns_keeps_its_type() -> None:
    @kc.kernel
    def kernel(m: kc.array(dtype=kc.mat33d)):
        q, d = kc.mat33d(), kc.vec3()
        kc.eig3(m[0], q, d)

    with pytest.raises(kc.KernelTypeError, match="vec3d"):
        _ = kernel.func


def test_decompositions_assign_their_arguments() -> None:
    @kc.kernel
    def kernel(m: kc.array(dtype=kc.mat33d), out: kc.array(dtype=kc.float64, ndim=2)):
        i = kc.tid()
        u, s, v = kc.mat33d(), kc.vec3d(), kc.mat33d()
        kc.svd3(m[i], u, s, v)
        q, d = kc.mat33d(), kc.vec3d()
        kc.eig3(m[i] + kc.transpose(m[i]), q, d)
        r = kc.mat33d()
        kc.qr3(m[i], q, r)
        axis, angle = kc.vec3d(), kc.float64(0.0)
        kc.quat_to_axis_angle(kc.quatd(m[i][0, 0], m[i][0, 1], m[i][0, 2], m[i][1, 1]), axis, angle)
        for k in range(3):
            out[i, k] = s[k] + d[k] + r[k, k] * r[k, k] + axis[k] * angle

    @kc.kernel
    def returned(m: kc.array(dtype=kc.mat33d), out: kc.array(dtype=kc.float64, ndim=2)):
        i = kc.tid()
        _u, s, _v = kc.svd3(m[i])
        _q, d = kc.eig3(m[i] + kc.transpose(m[i]))
        _q, r = kc.qr3(m[i])
        axis, angle = kc.quat_to_axis_angle(
            kc.quatd(m[i][0, 0], m[i][0, 1], m[i][0, 2], m[i][1, 1])
        )
        for k in range(3):
            out[i, k] = s[k] + d[k] + r[k, k] * r[k, k] + axis[k] * angle

    m = RNG.normal(size=(4, 3, 3))
    found = agree(kernel, 4, [m, np.zeros((4, 3))])[1]
    np.testing.assert_array_equal(found, agree(returned, 4, [m, np.zeros((4, 3))])[1])
    kc.gradcheck(kernel, 4, [m], [np.zeros((4, 3))])


def test_composites_are_made_of_their_parts() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec3d), out: kc.array(dtype=kc.vec3d)):
        i = kc.tid()
        turn = kc.types.quaternion(x[i] * 0.1, kc.float64(0.9))
        t = kc.transformd(p=x[i], q=kc.normalize(turn))
        out[i] = kc.transform_point(t, x[i]) + kc.transformd(p=x[i]).p
        out[i] += kc.types.vector(3, dtype=kc.float64)(2.0) + kc.transformd(q=turn).q[:3]
        out[i] += kc.vec3d(kc.types.vector(kc.vec3(x[i]), dtype=kc.float16))
        m = kc.types.matrix(kc.mat33(2.0), shape=(3, 3), dtype=kc.float64)
        pose = kc.types.transformation(x[i], turn, dtype=kc.float64)
        out[i] += m * pose.p

    x = RNG.normal(size=(4, 3)).astype(np.float16).astype(np.float64)
    _, out = agree(kernel, 4, [x, np.zeros((4, 3))])
    for row, found in zip(x, out, strict=True):
        turn = kc.quatd(kc.vec3d(row) * 0.1, 0.9)
        t = kc.transformd(p=kc.vec3d(row), q=kc.normalize(turn))
        want = np.array(kc.transform_point(t, kc.vec3d(row))) + 3 * row / 1 - row + 2.0
        want += row * 0.1 + 2 * row.sum()
        np.testing.assert_allclose(found, want, 1e-12, 1e-12)


def test_composites_on_the_host_are_made_of_sequences_and_parts() -> None:
    assert kc.mat22([1, 2, 3, 4]) == kc.mat22(1.0, 2.0, 3.0, 4.0)
    assert kc.transform(q=kc.quat(1.0, 0.0, 0.0, 0.0)).p == kc.vec3()
    assert kc.transform(p=(1, 2, 3)) == kc.transform(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
    assert kc.transform(kc.vec3(1.0), q=(1, 0, 0, 0)) == kc.transform(
        p=kc.vec3(1.0), q=(1, 0, 0, 0)
    )
    assert kc.types.vector(kc.vec3(1.5), dtype=kc.float64) == kc.vec3d(1.5)
    assert kc.types.vector(kc.vec3d(1.5)) == kc.vec3d(1.5)
    assert kc.types.matrix(kc.mat22(2.0), dtype=kc.float64) == kc.mat22d(2.0)
    with pytest.raises(kc.KernelTypeError, match="mat22"):
        kc.mat22([1, 2, 3])
    with pytest.raises(kc.KernelTypeError, match="expected 3 components"):
        kc.transform(p=(1, 2))


def test_host_vectors_have_the_operators_of_kernels() -> None:
    @kc.kernel
    def kernel(a: kc.array(dtype=kc.vec3), b: kc.vec3, n: kc.vec3i, m: kc.array(dtype=kc.vec3i)):
        a[0] = b % kc.vec3(2.0, -1.5, 0.5)
        a[1] = b // kc.vec3(2.0, -1.5, 0.5)
        a[2] = b ** kc.vec3(2.0, 0.5, -1.0)
        a[3] = b**2.5
        m[0] = n % kc.vec3i(2, -3, 0)
        m[1] = n // 2

    b, n = kc.vec3(5.5, 6.25, 7.0), kc.vec3i(-5, 7, 3)
    a, m = np.zeros((4, 3), np.float32), np.zeros((2, 3), np.int32)
    kc.launch(kernel, 1, [a, b, n, m])
    other = kc.vec3(2.0, -1.5, 0.5)
    want = [b % other, b // other, b ** kc.vec3(2.0, 0.5, -1.0), b**2.5]
    np.testing.assert_array_equal(a, want)
    np.testing.assert_array_equal(m, [n % kc.vec3i(2, -3, 0), n // 2])
    assert 7.0 % kc.vec3(2.0) == kc.vec3(1.0)
    with pytest.raises(kc.KernelError):
        _ = b % "text"


@pytest.fixture
def debug_mode() -> Iterator[None]:
    kc.config.mode = "debug"
    yield
    kc.config.mode = "release"


def test_a_name_is_set_under_the_condition_of_its_use(debug_mode: None) -> None:
    @kc.kernel
    def kernel(x: A1, n: int, out: A1):
        i = kc.tid()
        if i < n:
            scale = 2.0 * x[i]
            v = kc.vec2d(x[i], 1.0)
        found = False
        at = -1
        for j in range(i, len(x)):
            if x[j] > 0.5:
                found = True
                at = j
                value = x[j] * x[j]
                break
        if i < n:
            out[i] = scale * v.x + v.y
        if found:
            out[i] += value
        if at >= 0 and found:
            out[i] += 10.0 * value
        for k in range(3):
            last = kc.float64(k) * x[i]
        out[i] += last + kc.float64(k)

    x = np.array([-1.0, 2.0, 0.25, 3.0, 0.125])
    out = agree(kernel, 5, [x, 3, np.zeros(5)])[2]
    want = np.where(np.arange(5) < 3, 2 * x * x + 1, 0.0) + 2.0 * x + 2.0
    np.testing.assert_array_equal(out, want + 11.0 * np.array([4.0, 4.0, 9.0, 9.0, 0.0]))
    kc.gradcheck(kernel, 5, [x, 3], [np.zeros(5)])


def test_what_may_be_unset_is_zero_and_debug_mode_warns() -> None:
    @kc.kernel
    def kernel(x: A1, n: int, out: A1):
        i = kc.tid()
        if x[i] > 0.0:
            v = kc.vec2d(x[i], 1.0)
            count = 3
        for j in range(n):
            last = j
        out[i] = v.x + 2.0 * v.y + kc.float64(count) + kc.float64(last)

    x = np.array([2.0, -2.0])
    out = run_both(kernel, 2, [x, 4, np.zeros(2)])[2]
    np.testing.assert_array_equal(out, [2.0 + 2.0 + 3.0 + 3.0, 3.0])
    np.testing.assert_array_equal(run_both(kernel, 2, [x, 0, np.zeros(2)])[2], [7.0, 0.0])
    kc.gradcheck(kernel, 2, [x, 4], [np.zeros(2)])
    kc.config.mode = "debug"
    try:
        with pytest.warns(kc.KernelWarning, match="may be unset here") as warned:
            kc.launch(kernel, 2, [x, 4, np.zeros(2)])
    finally:
        kc.config.mode = "release"
    assert {str(w.message).partition(" ")[0] for w in warned} == {"'v'", "'count'", "'last'"}


def test_one_compilation_reports_every_mistake() -> None:
    @kc.kernel
    def kernel(x: A1, n: int):
        i = kc.tid()
        a = x[i] + undefined  # noqa: F821
        b = n + x[i]
        for j in range(n):
            c = kc.sin(j)
            x[j] = c + a
        if n > 2:
            x[i, i] = 1.0
        x[i] = b

    with pytest.raises(kc.KernelNameError) as caught:
        _ = kernel.func
    first, *others = (caught.value, *caught.value.others)
    start = kernel.pyfunc.__code__.co_firstlineno
    lines = [one.loc.line - start for one in (first, *others) if one.loc]
    assert lines == [3, 4, 6, 9]
    text = str(caught.value)
    assert text.count("File") == 4
    assert text.endswith("4 errors")
    assert isinstance(others[0], kc.KernelTypeError)


def test_mistakes_of_functions_are_reported_once() -> None:
    @kc.func
    def wrong(x: kc.float64):
        y = x + missing  # noqa: F821
        z = kc.sin(1, 2)
        return y + z

    @kc.kernel
    def kernel(x: A1):
        i = kc.tid()
        x[i] = wrong(x[i]) + wrong(1.0)
        x[i] += wrong(x[i])
        if unknown:  # noqa: F821
            x[i] = 0.0

    with pytest.raises(kc.KernelNameError, match="3 errors") as caught:
        _ = kernel.func
    assert len(caught.value.others) == 2


@kc.struct
class Grid:
    cells: A1
    width: kc.float64 = 0.5
    count: int
    origin: kc.vec2d = kc.vec2d(1.0, 2.0)


@kc.struct
class Nothing:
    pass


@kc.func
def grid_of(cells: A1, count: int) -> Grid:
    grid = Grid()
    grid.cells = cells
    grid.count = count
    return grid


@kc.func
def halves(grid: Grid, nothing: Nothing):
    other = Grid(grid.cells, count=grid.count)
    other.width = grid.width / 2.0
    return other, grid.count


def test_functions_return_structs_that_hold_arrays() -> None:
    @kc.kernel
    def kernel(x: A1, n: int, out: A1):
        i = kc.tid()
        grid = grid_of(x, n)
        fine, count = halves(grid, Nothing())
        if not Grid().cells and fine.cells:
            out[i] = fine.cells[i] * fine.width + grid.origin.y + kc.float64(count)
        for k in range(len(grid.cells)):
            out[i] += grid.cells[k] * grid.width

    x = RNG.normal(size=4)
    out = agree(kernel, 4, [x, 3, np.zeros(4)])[2]
    np.testing.assert_allclose(out, x / 4 + 5.0 + x.sum() / 2, 1e-14)
    kc.gradcheck(kernel, 4, [x, 3], [np.zeros(4)])


def test_structs_have_null_arrays() -> None:
    @kc.kernel
    def empty(out: A1):
        grid = Grid()
        out[0] = kc.float64(len(grid.cells) + grid.cells.shape[0] + 1)

    assert run_both(empty, 1, [np.zeros(1)])[0] == [1.0]

    @kc.kernel
    def unassigned(x: A1):
        grid = Grid()
        grid.cells[0] = x[0]

    with pytest.raises(kc.KernelTypeError, match="no array was assigned to"):
        _ = unassigned.func


def test_fields_have_default_values() -> None:
    grid = Grid(count=2)
    assert (grid.width, grid.count, grid.origin) == (0.5, 2, kc.vec2d(1.0, 2.0))
    assert grid.cells is None
    assert Nothing() == pickle.loads(pickle.dumps(Nothing()))
    assert pickle.loads(pickle.dumps(grid)).width == 0.5
    with pytest.raises(kc.KernelTypeError, match="'count'"):

        @kc.struct
        class Wrong:
            count: int = 1.5  # pyright: ignore[reportAssignmentType]


@kc.struct
class Inputs:
    x: A1
    scale: kc.float64


def test_none_stands_for_an_empty_array() -> None:
    @kc.kernel
    def kernel(given: Inputs, y: A1, out: A1):
        i = kc.tid()
        out[i] = given.scale
        if given.x:
            out[i] += given.x[i]
        if y:
            out[i] *= y[i]

    x, y = RNG.normal(size=3), RNG.normal(size=3)
    for inner, outer in ((x, y), (None, y), (x, None), (None, None)):
        want = (2.0 + (0.0 if inner is None else x)) * (1.0 if outer is None else y)
        for mode in ("release", "debug", "python"):
            out = np.zeros(3)
            kc.config.mode = mode
            try:
                kc.launch(kernel, 3, [Inputs(x=inner, scale=2.0), outer], [out])
            finally:
                kc.config.mode = "release"
            np.testing.assert_array_equal(out, want)


class Flags(IntFlag):
    ON = 1
    FAST = 2


def test_numbers_and_flags_are_bools() -> None:
    @kc.kernel
    def kernel(is_on: bool, out: A1):
        i = kc.tid()
        if is_on:
            out[i] = 1.0

    for given in (1, Flags.FAST, Flags.ON & Flags.FAST, np.int32(2), 0, True):
        out = np.zeros(1)
        kc.launch(kernel, 1, [given], [out])
        assert out[0] == bool(given)


@kc.struct
class Spring:
    stiffness: kc.float64
    rest: kc.vec2d


@kc.func
def energy(s: Spring, x: kc.vec2d) -> kc.float64:
    d = x - s.rest
    return 0.5 * s.stiffness * kc.dot(d, d)


@kc.func_grad(energy)
def _energy_gradient(s: Spring, x: kc.vec2d, ct: kc.float64):
    d = x - s.rest
    kc.adjoint[s.stiffness] += 0.5 * kc.dot(d, d) * ct
    kc.adjoint[s.rest] -= s.stiffness * ct * d
    kc.adjoint[x.x] += s.stiffness * ct * d.x
    kc.adjoint[x[1]] += s.stiffness * ct * d.y


def test_the_cotangent_of_a_part_is_a_part_of_the_cotangent() -> None:
    @kc.kernel
    def kernel(k: A1, x: kc.array(dtype=kc.vec2d), out: A1):
        i = kc.tid()
        out[i] = energy(Spring(k[i], 2.0 * x[i] + kc.vec2d(1.0)), x[i])

    args = [RNG.normal(size=3), RNG.normal(size=(3, 2))]
    kc.gradcheck(kernel, 3, args, [np.zeros(3)])
