"""Programs of NVIDIA Warp's users: conversions, conditions, slices, operators of bits."""

# They are written for another library.
# ruff: noqa: UP018, RUF046, B007, PIE790
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

from typing import Any

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.array([3.0, -1.0, 4.0, -1.5, 5.0, 9.0], np.float32)
WHOLE = np.array([5, -3, 0, 12, 7, -8], np.int32)


@program
def conversions(wp):
    @wp.kernel
    def converted(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = float(int(x[i]))
        out[i, 1] = float(wp.int8(x[i]))
        out[i, 2] = float(wp.float16(x[i] * 1.001))
        out[i, 3] = float(bool(x[i]))
        out[i, 4] = float(wp.int64(x[i]) * wp.int64(3))
        out[i, 5] = wp.float32(wp.float64(x[i]) / wp.float64(3.0))

    out = wp.zeros((6, 6), dtype=float)
    wp.launch(converted, 6, [wp.array(NUMBERS)], [out], device="cpu")
    return out.numpy()


@program
def conversions_with_cast(wp):
    @wp.kernel
    def bits(x: wp.array(dtype=float), out: wp.array(dtype=int)):
        i = wp.tid()
        out[i] = wp.cast(x[i], int)

    return outputs(wp, bits, 6, [wp.array(NUMBERS)], int)


@program
def builtins_without_the_name_of_the_module(wp):
    vec3, dot, sin = wp.vec3, wp.dot, wp.sin

    @wp.kernel
    def applied(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        v = vec3(x[i], 1.0, 2.0)
        out[i] = dot(v, v) + sin(x[i])

    return outputs(wp, applied, 6, [wp.array(NUMBERS)], float)


@program
def numbers_as_conditions(wp):
    @wp.kernel
    def chosen(a: wp.array(dtype=int), out: wp.array2d(dtype=int)):
        i = wp.tid()
        out[i, 0] = wp.where(a[i] & 1, 1, 2)
        if a[i]:
            out[i, 1] = 1
        if not a[i]:
            out[i, 2] = 1
        out[i, 3] = int(a[i] > 0 and i > 1)
        out[i, 4] = int(a[i] == 0 or i == 1)
        n = int(0)
        while a[i] - n > 6:
            n += 1
        out[i, 5] = n

    out = wp.zeros((6, 6), dtype=int)
    wp.launch(chosen, 6, [wp.array(WHOLE)], [out], device="cpu")
    return out.numpy()


@program
def logic_of_numbers(wp):
    @wp.kernel
    def logic(a: wp.array(dtype=int), out: wp.array(dtype=int)):
        i = wp.tid()
        if i and a[i]:
            out[i] += 1
        if i or a[i]:
            out[i] += 2

    return outputs(wp, logic, 6, [wp.array(WHOLE)], int)


@program
def flags(wp):
    import enum

    class Flag(enum.IntFlag):
        A = 1
        B = 4

    class Kind(enum.IntEnum):
        X = 3

    @wp.kernel
    def flagged(a: wp.array(dtype=int), on: bool, kind: int, out: wp.array(dtype=int)):
        i = wp.tid()
        if a[i] & int(Flag.B):
            out[i] = int(Kind.X)
        if on and kind == Kind.X:
            out[i] += 10

    return outputs(wp, flagged, 6, [wp.array(WHOLE), Flag.A, Kind.X], int)


@program
def absent_arrays(wp):
    @wp.kernel
    def added(x: wp.array(dtype=float), bias: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i]
        if bias:
            out[i] += bias[i]

    x = wp.array(NUMBERS)
    return *outputs(wp, added, 6, [x, None], float), *outputs(wp, added, 6, [x, x], float)


@program
def slices_of_vectors(wp):
    @wp.kernel
    def sliced(x: wp.array(dtype=wp.vec4), out: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        v = x[i]
        a = v[1:3]
        v[0:2] = a
        out[i] = v[:2] + v[2:]

    x = wp.array(np.arange(8.0, dtype=np.float32).reshape(2, 4), dtype=wp.vec4)
    return outputs(wp, sliced, 2, [x], wp.vec2)


@program
def slices_of_matrices(wp):
    @wp.kernel
    def sliced(m: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        a = m[i]
        row = a[1]
        column = a[:, 2]
        a[0] = row + column
        out[i] = a[0] + a[2]

    m = wp.array(np.arange(18.0, dtype=np.float32).reshape(2, 3, 3), dtype=wp.mat33)
    return outputs(wp, sliced, 2, [m], wp.vec3)


@program
def slices_of_arrays(wp):
    @wp.func
    def total(a: wp.array(dtype=float)):
        t = float(0.0)
        for k in range(a.shape[0]):
            t += a[k]
        return t

    @wp.kernel
    def rows(a: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = total(a[i])

    return outputs(wp, rows, 2, [wp.array(NUMBERS.reshape(2, 3))], float)


@program
def arrays_made_in_kernels(wp):
    @wp.kernel
    def local(out: wp.array(dtype=float)):
        i = wp.tid()
        a = wp.zeros(shape=(2, 3), dtype=float)
        for j in range(2):
            for k in range(3):
                a[j, k] = float(i + j * k)
        out[i] = a[1, 2] + a[0, 1]

    return outputs(wp, local, 3, [], float)


@program
def arrays_at_addresses_in_kernels(wp):
    @wp.kernel
    def read(address: wp.uint64, n: int, out: wp.array(dtype=float)):
        i = wp.tid()
        a = wp.array(ptr=address, shape=(n,), dtype=float)
        out[i] = 2.0 * a[i]

    a = wp.array(NUMBERS, device="cpu")
    return outputs(wp, read, 6, [wp.uint64(a.ptr), 6], float)


@program
def static_expressions(wp):
    n = 3
    weights = [0.5, 1.5, 2.5]

    @wp.func
    def cubed(x: float):
        return x * x * x

    @wp.kernel
    def evaluated(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        y = wp.static(cubed)(x[i])
        for k in range(wp.static(n)):
            y += wp.static(sum(weights))
        out[i] = y + float(wp.static(len(weights)))

    return outputs(wp, evaluated, 6, [wp.array(NUMBERS)], float)


@program
def lengths_of_vectors(wp):
    @wp.func
    def mean(v: Any):
        total = v[0]
        for k in range(1, len(v)):
            total += v[k]
        return total / type(v[0])(len(v))

    @wp.kernel
    def means(out: wp.array(dtype=float)):
        out[0] = mean(wp.vec3(1.0, 2.0, 6.0))
        out[1] = mean(wp.vec2(1.0, 2.0))

    return outputs(wp, means, 1, [], (2, float))


@program
def functions_as_arguments_of_factories(wp):
    def make(f, s):
        @wp.kernel
        def applied(x: wp.array(dtype=float), out: wp.array(dtype=float)):
            i = wp.tid()
            out[i] = f(x[i]) * s

        return applied

    @wp.func
    def inc(x: float):
        return x + 1.0

    @wp.func
    def dec(x: float):
        return x - 1.0

    a = wp.array(NUMBERS)
    return *outputs(wp, make(inc, 2.0), 6, [a], float), *outputs(wp, make(dec, 3.0), 6, [a], float)


@program
def statements_of_one_expression(wp):
    @wp.kernel
    def noted(out: wp.array(dtype=int)):
        """A docstring is one."""
        i = wp.tid()
        wp.atomic_add(out, 0, i)
        pass
        assert i >= 0, "indices are not negative"

    return outputs(wp, noted, 4, [], (1, int))


@program
def conditional_expressions_and_chains(wp):
    @wp.kernel
    def chosen(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i] if -2.0 < x[i] < 4.5 else -x[i]

    return outputs(wp, chosen, 6, [wp.array(NUMBERS)], float)


@program
def operators_of_bits(wp):
    @wp.kernel
    def bits(a: wp.array(dtype=int), out: wp.array2d(dtype=int)):
        i = wp.tid()
        out[i, 0] = a[i] & 6
        out[i, 1] = a[i] | 8
        out[i, 2] = a[i] ^ 5
        out[i, 3] = a[i] << 2
        out[i, 4] = a[i] >> 1
        out[i, 5] = ~a[i]
        n = a[i]
        n &= 3
        n |= 8
        n ^= 1
        out[i, 6] = n

    out = wp.zeros((6, 7), dtype=int)
    wp.launch(bits, 6, [wp.array(WHOLE)], [out], device="cpu")
    return out.numpy()


@program
def custom_gradients(wp):
    @wp.func
    def clipped(x: float):
        return wp.sqrt(x)

    @wp.func_grad(clipped)
    def clipped_gradient(x: float, ct: float):
        wp.adjoint[x] += 7.0 * ct

    @wp.kernel
    def loss(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        wp.atomic_add(out, 0, clipped(x[wp.tid()]))

    x = wp.array(np.array([4.0, 9.0], np.float32), requires_grad=True)
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss, 2, [x], [out], device="cpu")
    tape.backward(out)
    return out.numpy(), x.grad.numpy()


@program
def printed_lines(wp):
    @wp.kernel
    def said(out: wp.array(dtype=int)):
        i = wp.tid()
        if i < 0:
            print(i)
            wp.printf("%d\n", i)
        out[i] = i

    return outputs(wp, said, 3, [], int)


@program
def expectations(wp):
    @wp.kernel
    def checked(x: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        wp.expect_eq(x[i], x[i])
        wp.expect_near(x[i], x[i] + 1.0e-7, 1.0e-5)
        wp.expect_neq(x[i], x[i] + 1.0)
        out[i] = x[i]

    return outputs(wp, checked, 6, [wp.array(NUMBERS)], float)
