"""Programs of NVIDIA Warp's users: control flow, options, constants, conversions, statements."""

# They are written for another library.
# ruff: noqa: UP018, RUF046, F811
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

from typing import Any

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.array([3.0, -1.0, 4.0, -1.5, 5.0, 9.0], np.float32)
WHOLE = np.array([5, -3, 0, 12, 7, -8], np.int32)


@program
def search_that_breaks(wp):
    @wp.kernel
    def first_above(a: wp.array(dtype=float), limit: float, out: wp.array(dtype=float)):
        found = int(-1)
        for k in range(a.shape[0]):
            if a[k] > limit:
                found = k
                value = a[k]
                break
        if found >= 0:
            out[0] = value
            out[1] = float(found)

    return *outputs(wp, first_above, 1, [wp.array(NUMBERS), 3.5], (2, float)), *outputs(
        wp, first_above, 1, [wp.array(NUMBERS), 99.0], (2, float)
    )


@program
def set_and_used_under_one_condition(wp):
    @wp.kernel
    def guarded(a: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        if a[i] > 0:
            x = a[i] * 2
        out[i] = 1
        if a[i] > 0:
            out[i] = x

    return outputs(wp, guarded, 6, [wp.array(WHOLE)], int)


@program
def loop_variable_after_its_loop(wp):
    @wp.kernel
    def last(n: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        k = int(-1)
        for k in range(n[i]):
            if k == 6:
                break
        out[i] = k

    return outputs(wp, last, 3, [wp.array(np.array([3, 9, 1], np.int32))], int)


@program
def nested_loops_with_continue(wp):
    @wp.kernel
    def counted(n: int, out: wp.array(dtype=int)):
        i = wp.tid()
        total = int(0)
        for a in range(n):
            if a == i:
                continue
            b = int(0)
            while b < n:
                b += 1
                if b % 2 == 0:
                    continue
                if b > 5:
                    break
                total += a * b
        out[i] = total

    return outputs(wp, counted, 4, [8], int)


@program
def early_returns(wp):
    @wp.func
    def kind(x: float):
        if x < 0.0:
            return -1
        if x > 4.0:
            return 1
        return 0

    @wp.kernel
    def kinds(a: wp.array(dtype=float), out: wp.array(dtype=int)):
        i = wp.tid()
        if i == 5:
            return
        out[i] = kind(a[i])

    return outputs(wp, kinds, 6, [wp.array(NUMBERS)], int)


@program
def ranges_of_three_arguments(wp):
    @wp.kernel
    def summed(step: int, out: wp.array(dtype=int)):
        i = wp.tid()
        a = int(0)
        for k in range(10, i, -3):
            a = a * 10 + k
        b = int(0)
        for k in range(i, 10, step):
            b += k
        out[i] = a + 1000000 * b

    return outputs(wp, summed, 4, [2], int)


@program
def reversed_ranges(wp):
    @wp.kernel
    def digits(out: wp.array(dtype=int)):
        i = wp.tid()
        a = int(0)
        for k in reversed(range(i + 2)):
            a = a * 10 + k
        out[i] = a

    return outputs(wp, digits, 4, [], int)


@program
def options_of_kernels(wp):
    @wp.kernel(enable_backward=False)
    def doubled(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 2.0 * a[i]

    @wp.kernel(module="unique")
    def tripled(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 3.0 * a[i]

    a = wp.array(NUMBERS)
    return *outputs(wp, doubled, 6, [a], float), *outputs(wp, tripled, 6, [a], float)


@program
def names_of_kernels(wp):
    @wp.kernel(module="unique")
    def scaled(a: wp.array(dtype=float)):
        a[wp.tid()] = 2.0

    return np.array(
        [
            scaled.key.endswith("scaled"),
            isinstance(scaled, wp.Kernel),
            scaled.module is not None,
            isinstance(scaled.options, dict),
        ]
    )


@program
def overloads_as_decorators(wp):
    @wp.kernel
    def scale(x: wp.array(dtype=Any), s: Any, out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = x[i] * s

    @wp.overload
    def scale(x: wp.array(dtype=wp.float32), s: wp.float32, out: wp.array(dtype=wp.float32)): ...

    @wp.overload
    def scale(x: wp.array(dtype=wp.vec2), s: wp.float32, out: wp.array(dtype=wp.vec2)): ...

    v = wp.array(NUMBERS.reshape(3, 2), dtype=wp.vec2)
    return *outputs(wp, scale, 6, [wp.array(NUMBERS), 2.0], float), *outputs(
        wp, scale, 3, [v, 3.0], wp.vec2
    )


@program
def overloads_by_types(wp):
    @wp.kernel
    def copied(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = x[i] + x[i]

    of_ints = wp.overload(copied, [wp.array(dtype=int), wp.array(dtype=int)])
    by_name = wp.overload(
        copied, {"x": wp.array(dtype=wp.float64), "out": wp.array(dtype=wp.float64)}
    )
    return *outputs(wp, of_ints, 6, [wp.array(WHOLE)], int), *outputs(
        wp, by_name, 6, [wp.array(NUMBERS.astype(float))], wp.float64
    )


@program
def generic_kernels(wp):
    @wp.func
    def squared(x: Any):
        return x * x

    @wp.kernel
    def sums(x: wp.array(dtype=Any), y: wp.array(dtype=Any), out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = squared(x[i]) + squared(y[i]) + type(x[i])(1)

    return (
        *outputs(wp, sums, 6, [wp.array(WHOLE), wp.array(WHOLE)], int),
        *outputs(wp, sums, 6, [wp.array(NUMBERS), wp.array(NUMBERS)], float),
    )


@program
def kernels_without_decorators(wp):
    def doubled(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 2.0 * a[i]

    kernel = wp.Kernel(func=doubled, key="doubled_by_hand")
    return outputs(wp, kernel, 6, [wp.array(NUMBERS)], float)


@program
def constants(wp):
    @wp.kernel
    def all_of_them(out: wp.array(dtype=float)):
        out[0] = wp.pi + wp.PI
        out[1] = wp.tau + wp.TAU
        out[2] = wp.e + wp.E
        out[3] = wp.half_pi + wp.HALF_PI
        out[4] = wp.inf + wp.INF
        out[5] = wp.nan
        out[6] = wp.phi + wp.PHI
        out[7] = wp.ln2 + wp.LN10 + wp.log2e + wp.LOG10E

    return outputs(wp, all_of_them, 1, [], (8, float))


@program
def constants_of_programs(wp):
    N = wp.constant(3)
    V = wp.constant(wp.vec3(1.0, 2.0, 3.0))
    M = wp.constant(wp.mat22(1.0, 2.0, 3.0, 4.0))
    B = wp.constant(True)
    W = 0.5

    @wp.kernel
    def used(out: wp.array(dtype=float)):
        for k in range(N):
            out[k] = V[k] * W + M[1, 0]
        if B:
            out[3] = 1.0

    return outputs(wp, used, 1, [], (4, float))
