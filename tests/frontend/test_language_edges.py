"""Corners of the kernel language where the obvious lowering would be silently wrong."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.language import run_both

RNG = np.random.default_rng(5)


@kc.struct
class Walker:
    state: kc.uint32
    place: kc.vec3d


def _floats(count: int) -> np.ndarray:
    return np.zeros(count, np.float32)


def test_condition_of_while_may_update_a_variable() -> None:
    @kc.kernel
    def kernel(out: kc.array(dtype=float)):
        i = kc.tid()
        w = Walker(state=kc.rand_init(7, i))
        n = 0
        while n < 20 and kc.randf(w.state) < 0.8:
            n += 1
            if n == 3:
                continue
            if kc.randf(w.state) > 0.9:
                break
        out[i] = float(n) + kc.randf(w.state)

    @kc.kernel
    def written_out(out: kc.array(dtype=float)):
        i = kc.tid()
        s = kc.rand_init(7, i)
        n = 0
        while n < 20:
            r = kc.randf(s)
            if r >= 0.8:
                break
            n += 1
            if n != 3:
                r = kc.randf(s)
                if r > 0.9:
                    break
        out[i] = float(n) + kc.randf(s)

    (found,) = run_both(kernel, 16, [_floats(16)])
    (want,) = run_both(written_out, 16, [_floats(16)])
    np.testing.assert_array_equal(found, want)


def test_updating_while_returns() -> None:
    @kc.func
    def steps(i: int) -> int:
        s = kc.rand_init(7, i)
        n = 0
        while kc.randf(s) < 0.8:
            n += 1
            if n == 4:
                return -1
        return n

    @kc.kernel
    def kernel(n: kc.array(dtype=int), draws: kc.array2d[float]):
        i = kc.tid()
        n[i] = steps(i)
        s = kc.rand_init(7, i)
        for k in range(4):
            draws[i, k] = kc.randf(s)

    n, draws = run_both(kernel, 16, [np.zeros(16, np.int32), np.zeros((16, 4), np.float32)])
    first = [int(np.argmax(row >= 0.8)) if (row >= 0.8).any() else -1 for row in draws]
    np.testing.assert_array_equal(n, first)


def test_short_circuits_update_where_they_are_evaluated() -> None:
    @kc.kernel
    def kernel(c: kc.array(dtype=float), out: kc.array(dtype=float)):
        i = kc.tid()
        s = kc.rand_init(42, i)
        a = c[i] > 0.5 and kc.randf(s) < 2.0
        b = a or kc.randf(s) < 0.0
        d = 0.0 < c[i] < kc.randf(s) + 5.0
        out[i] = kc.randf(s) + (10.0 if (a and d) or b else 0.0)

    @kc.kernel
    def written_out(c: kc.array(dtype=float), out: kc.array(dtype=float)):
        i = kc.tid()
        s = kc.rand_init(42, i)
        draws = 0
        if c[i] > 0.5:
            draws += 1
        if c[i] <= 0.5:
            draws += 1
        if c[i] > 0.0:
            draws += 1
        for _ in range(draws):
            kc.randf(s)
        out[i] = kc.randf(s) + (10.0 if c[i] > 0.5 else 0.0)

    c = np.array([1.0, 0.25, -1.0, 2.0], np.float32)
    found = run_both(kernel, 4, [c, _floats(4)])[1]
    np.testing.assert_array_equal(found, run_both(written_out, 4, [c, _floats(4)])[1])


def test_loops_carry_values_that_calls_update() -> None:
    @kc.kernel
    def kernel(states: kc.array(dtype=kc.uint32), out: kc.array2d[float]):
        w = Walker(state=kc.rand_init(1))
        s = kc.rand_init(1)
        t = kc.rand_init(1)
        states[0] = t
        for k in range(4):
            out[0, k] = kc.randf(w.state)
            out[1, k] = kc.randf(state=s)
            out[2, k] = kc.randf(t)
            out[3, k] = kc.randf(states[0])

    _, out = run_both(kernel, 1, [np.zeros(1, np.uint32), np.zeros((4, 4), np.float32)])
    assert len(set(out[0])) == 4
    np.testing.assert_array_equal(out, out[[0, 0, 0, 0]])


def test_index_of_an_updated_element_has_no_effects() -> None:
    @kc.kernel
    def kernel(n: kc.array(dtype=int), states: kc.array(dtype=kc.uint32), out: kc.array[float]):
        out[0] = kc.randf(states[kc.atomic_add(n, 0, 1)])

    with pytest.raises(kc.KernelSyntaxError, match="has effects, and the element is updated"):
        _ = kernel.func


def test_alias_of_an_updating_function_is_refused_in_a_loop() -> None:
    @kc.kernel
    def kernel(out: kc.array(dtype=float)):
        s = kc.rand_init(1)
        for k in range(3):
            draw = kc.randf
            out[k] = draw(s)

    with pytest.raises(kc.KernelSyntaxError, match="updates 's'"):
        _ = kernel.func


def test_nested_functions_cannot_assign_captured_names() -> None:
    @kc.kernel
    def part(out: kc.array(dtype=kc.vec3d)):
        v = out[0]

        def change() -> None:
            v.x = 1.0

        change()
        out[0] = v

    @kc.kernel
    def state(out: kc.array(dtype=float)):
        s = kc.rand_init(1)

        def draw() -> float:
            return kc.randf(s)

        out[0] = draw()

    for kernel in (part, state):
        with pytest.raises(kc.KernelSyntaxError, match="of the function around this one"):
            _ = kernel.func


@pytest.mark.parametrize("j", [0, 1])
def test_run_time_indices_of_strided_parts(j: int) -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec4d), m: kc.array(dtype=kc.mat33d), j: int):
        i = kc.tid()
        x[i][::2][j] = 5.0
        x[i][::-1][j] += 7.0
        x[i].wzy[j] = 9.0
        m[i][::-1, ::-1][j, 0] = 3.0
        m[i][::-1][j][::2][j] = 4.0
        m[i][1:][j] = kc.vec3d(1.0, 2.0, 3.0)
        m[i][::2, j] = kc.vec2d(8.0, 9.0)

    x, m = RNG.normal(size=(2, 4)), RNG.normal(size=(2, 3, 3))
    found_x, found_m, _ = run_both(kernel, 2, [x, m, j])
    x[:, ::2][:, j] = 5
    x[:, ::-1][:, j] += 7
    x[:, 3 - j] = 9
    m[:, ::-1, ::-1][:, j, 0] = 3
    m[:, ::-1][:, j][:, ::2][:, j] = 4
    m[:, 1:][:, j] = [1, 2, 3]
    m[:, ::2, j] = [8, 9]
    np.testing.assert_array_equal(found_x, x)
    np.testing.assert_array_equal(found_m, m)


def test_ends_of_slices_beyond_32_bits() -> None:
    @kc.kernel
    def kernel(
        x: kc.array(dtype=float), n: kc.int64, u: kc.uint32, w: kc.uint64, out: kc.array(dtype=int)
    ):
        out[0] = len(x[:n])
        out[1] = len(x[n:])
        out[2] = len(x[-n:])
        out[3] = len(x[:u])
        out[4] = len(x[:w])
        out[5] = len(x[:-n])

    args = [_floats(7), 2**32 + 3, 2**32 - 1, np.uint64(2**63 + 1), np.zeros(6, np.int32)]
    np.testing.assert_array_equal(run_both(kernel, 1, args)[-1], [7, 0, 7, 7, 7, 0])


def test_structs_are_not_added() -> None:
    @kc.kernel
    def kernel(walkers: kc.array(dtype=Walker), w: Walker):
        walkers[kc.tid()] += w

    with pytest.raises(kc.KernelTypeError, match="not defined for Walker and Walker"):
        _ = kernel.func


def test_exits_of_loops_over_static_values() -> None:
    @kc.func
    def look(x: int) -> int:
        for turn in range(3):
            for j in kc.static((3, 1, 2)):
                if j * turn == x:
                    return j * 10 + turn
                if j == 1 and turn == 1:
                    break
                if x == 50:
                    continue
                if turn == 2 and x == 51:
                    return -2
        return -1

    def host(x: int) -> int:
        for turn in range(3):
            for j in (3, 1, 2):
                if j * turn == x:
                    return j * 10 + turn
                if j == 1 and turn == 1:
                    break
                if x == 50:
                    continue
                if turn == 2 and x == 51:
                    return -2
        return -1

    @kc.kernel
    def kernel(x: kc.array(dtype=int), y: kc.array(dtype=int)):
        i = kc.tid()
        total = 0
        for j in kc.static((1, 2, 3, 4)):
            if j == x[i]:
                break
            if j == 2:
                continue
            total += j
        y[i] = 1000 * (total + 10 * j) + look(x[i])

    def outer(x: int) -> int:
        total, j = 0, 0
        for j in (1, 2, 3, 4):
            if j == x:
                break
            if j == 2:
                continue
            total += j
        return 1000 * (total + 10 * j) + host(x)

    x = np.array([*range(9), 50, 51], np.int32)
    _, y = run_both(kernel, len(x), [x, np.zeros_like(x)])
    np.testing.assert_array_equal(y, [outer(int(v)) for v in x])


def test_members_of_tuples_are_called() -> None:
    @kc.func
    def apply(functions: Any, x: kc.float64) -> kc.float64:
        return functions[0](x) + functions[1](x)

    @kc.kernel
    def kernel(x: kc.array(dtype=kc.float64)):
        functions = (kc.sqrt, kc.abs)
        x[0] = apply(functions, x[0]) + functions[0](x[0])

    np.testing.assert_array_equal(run_both(kernel, 1, [np.array([4.0])])[0], [8.0])


def test_results_of_typed_parameters_are_typed() -> None:
    @kc.kernel
    def kernel(y: kc.array(dtype=kc.float64)):
        s = kc.rand_init(3)
        draw = kc.randf(s)
        y[0] = kc.float64(draw if y[0] > 0.0 else -draw)
        y[1] = kc.float64(draw)

    (y,) = run_both(kernel, 1, [np.zeros(2)])
    assert y[0] == -y[1]


def test_min_and_max_take_several() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec3d)):
        i = kc.tid()
        x[i] = kc.max(kc.min(x[i], kc.vec3d(0.5), 0.75), -0.5, x[i] - kc.vec3d(1.0))

    x = RNG.normal(size=(9, 3))
    want = np.maximum(np.maximum(np.minimum(x, 0.5), -0.5), x - 1.0)
    np.testing.assert_array_equal(run_both(kernel, 9, [x])[0], want)


def test_step_of_range_is_not_zero() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=float)):
        for i in range(0, 3, 0):
            x[i] = 1.0

    with pytest.raises(kc.KernelTypeError, match="the step of range"):
        _ = kernel.func


def test_adjoint_through_exits_and_run_time_components() -> None:
    @kc.kernel
    def kernel(x: kc.array(dtype=kc.vec4d), n: kc.array(dtype=int), y: kc.array(dtype=kc.vec4d)):
        i = kc.tid()
        s = kc.rand_init(3, i)
        v = x[i]
        v[::2][n[i]] = v[n[i]] * v.w
        while kc.randf(s) < 0.6:
            v = v * kc.sin(v.x) + x[i]
        for t in kc.static((1.0, 2.0, 3.0)):
            if v.x * t > 1.0:
                v.y *= t
                break
            v.z += t * v.x
        y[i] = v

    count, step = 6, 1e-6
    x, n = RNG.normal(size=(count, 4)), np.array([0, 1, 0, 1, 1, 0], np.int32)
    ct_y = RNG.normal(size=(count, 4))

    def value(x: np.ndarray) -> float:
        y = np.zeros((count, 4))
        kc.launch(kernel, count, [x, n], [y])
        return float((y * ct_y).sum())

    want = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        want[place] = (value(x + shift) - value(x - shift)) / (2 * step)
    ct_x, y = np.zeros_like(x), np.zeros((count, 4))
    kc.launch(kernel, count, [x, n], [y], adj_inputs=[ct_x, None], adj_outputs=[ct_y], adjoint=True)
    np.testing.assert_allclose(ct_x, want, rtol=1e-6, atol=1e-7)
