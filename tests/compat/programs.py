"""Programs as users of NVIDIA Warp write them; each takes the module ``wp`` and returns results."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false
# mypy: ignore-errors

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: dict[str, Callable[[Any], Any]] = {}

INTS = np.array([-7, 7, -7, 7, 0, 5, -9, 3], np.int32)
DIVISORS = np.array([2, 2, -3, -3, 3, 1, 7, 3], np.int32)
FLOATS = np.array([-7.5, 7.5, -0.0, 0.0, 2.5, -2.5, 0.5, -0.5, 0.49999997, 1.5], np.float32)
OTHERS = np.array([2.0, -2.0, 3.0, 1.5, -1.0, 0.25, -0.5, 4.0, 2.0, 1.5], np.float32)
SPECIAL = np.array([np.nan, 1.0, np.inf, -np.inf, -0.0], np.float32)


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[function.__name__] = function
    return function


def outputs(wp, kernel, dim, inputs, *dtypes):
    """What a launch over ``dim`` points writes: an array per dtype, of ``dim`` or given lengths."""
    made = [d if isinstance(d, tuple) else (dim, d) for d in dtypes]
    arrays = [wp.zeros(n, dtype=dtype, device="cpu") for n, dtype in made]
    wp.launch(kernel, dim, inputs, arrays, device="cpu")
    return tuple(a.numpy() for a in arrays)


@program
def integer_division(wp):
    @wp.kernel
    def divided(
        a: wp.array(dtype=int),
        b: wp.array(dtype=int),
        q: wp.array(dtype=int),
        f: wp.array(dtype=int),
    ):
        i = wp.tid()
        q[i] = a[i] / b[i]
        f[i] = a[i] // b[i]

    q, f = wp.zeros(8, dtype=int), wp.zeros(8, dtype=int)
    wp.launch(divided, 8, [wp.array(INTS), wp.array(DIVISORS)], [q, f], device="cpu")
    return q.numpy(), f.numpy()


@program
def integer_remainder(wp):
    @wp.kernel
    def rest(a: wp.array(dtype=int), b: wp.array(dtype=int), r: wp.array(dtype=int)):
        i = wp.tid()
        r[i] = a[i] % b[i] + 10 * wp.mod(a[i], b[i])

    r = wp.zeros(8, dtype=int)
    wp.launch(rest, 8, [wp.array(INTS), wp.array(DIVISORS)], [r], device="cpu")
    return r.numpy()


@program
def unsigned_and_wide_remainders(wp):
    @wp.kernel
    def rest(
        a: wp.array(dtype=wp.uint32), b: wp.array(dtype=wp.int64), r: wp.array2d(dtype=wp.int64)
    ):
        i = wp.tid()
        r[i, 0] = wp.int64(a[i] % wp.uint32(3))
        r[i, 1] = wp.int64(a[i] / wp.uint32(3))
        r[i, 2] = b[i] % wp.int64(-4)
        r[i, 3] = b[i] / wp.int64(-4)

    a = np.array([0, 7, 2**32 - 1], np.uint32)
    b = np.array([-(2**40), 7, -7], np.int64)
    r = wp.zeros((3, 4), dtype=wp.int64)
    wp.launch(rest, 3, [wp.array(a), wp.array(b)], [r], device="cpu")
    return r.numpy()


@program
def augmented_assignments(wp):
    @wp.kernel
    def reduced(a: wp.array(dtype=int), x: wp.array(dtype=float)):
        i = wp.tid()
        n = a[i]
        n %= 4
        a[i] = n
        y = x[i]
        y /= 2.0
        y -= 1.0
        x[i] = y

    a, x = wp.array(INTS), wp.array(FLOATS[:8])
    wp.launch(reduced, 8, [], [a, x], device="cpu")
    return a.numpy(), x.numpy()


@program
def float_operators(wp):
    @wp.kernel
    def combined(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = x[i] / y[i]
        out[i, 1] = x[i] // y[i]
        out[i, 2] = x[i] % y[i]
        out[i, 3] = wp.mod(x[i], y[i])

    out = wp.zeros((10, 4), dtype=float)
    wp.launch(combined, 10, [wp.array(FLOATS), wp.array(OTHERS)], [out], device="cpu")
    return out.numpy()


@program
def signs_and_rounding(wp):
    @wp.kernel
    def rounded(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.sign(x[i])
        out[i, 1] = wp.round(x[i])
        out[i, 2] = wp.rint(x[i])
        out[i, 3] = wp.trunc(x[i])
        out[i, 4] = wp.floor(x[i])
        out[i, 5] = wp.ceil(x[i])
        out[i, 6] = wp.nonzero(x[i])
        out[i, 7] = wp.step(x[i])
        out[i, 8] = round(x[i])

    out = wp.zeros((10, 9), dtype=float)
    wp.launch(rounded, 10, [wp.array(FLOATS)], [out], device="cpu")
    return out.numpy()


@program
def signs_of_integers(wp):
    @wp.kernel
    def signs(a: wp.array(dtype=int), out: wp.array2d(dtype=int)):
        i = wp.tid()
        out[i, 0] = wp.sign(a[i])
        out[i, 1] = wp.abs(a[i])
        out[i, 2] = wp.min(a[i], 2)
        out[i, 3] = max(a[i], 2)
        out[i, 4] = wp.clamp(a[i], -2, 4)

    out = wp.zeros((8, 5), dtype=int)
    wp.launch(signs, 8, [wp.array(INTS)], [out], device="cpu")
    return out.numpy()


@program
def minima_with_nan(wp):
    @wp.kernel
    def extrema(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.min(x[i], 2.0)
        out[i, 1] = wp.min(2.0, x[i])
        out[i, 2] = wp.max(x[i], 2.0)
        out[i, 3] = wp.max(2.0, x[i])
        out[i, 4] = wp.clamp(x[i], -1.0, 0.5)
        v = wp.vec3(1.0, x[i], 3.0)
        out[i, 5] = wp.min(v)
        out[i, 6] = wp.max(v)
        out[i, 7] = wp.min(v, wp.vec3(2.0, 2.0, 2.0))[1]
        out[i, 8] = min(x[i], 2.0)

    out = wp.zeros((5, 9), dtype=float)
    wp.launch(extrema, 5, [wp.array(SPECIAL)], [out], device="cpu")
    return out.numpy()


@program
def classification(wp):
    @wp.kernel
    def classified(x: wp.array(dtype=float), out: wp.array2d(dtype=int)):
        i = wp.tid()
        v = wp.vec3(1.0, x[i], 3.0)
        m = wp.mat22(1.0, 2.0, x[i], 3.0)
        out[i, 0] = int(wp.isnan(x[i]))
        out[i, 1] = int(wp.isinf(x[i]))
        out[i, 2] = int(wp.isfinite(x[i]))
        out[i, 3] = int(wp.isnan(v))
        out[i, 4] = int(wp.isinf(v))
        out[i, 5] = int(wp.isfinite(v))
        out[i, 6] = int(wp.isnan(m))
        out[i, 7] = int(wp.isinf(m))
        out[i, 8] = int(wp.isfinite(m))

    out = wp.zeros((5, 9), dtype=int)
    wp.launch(classified, 5, [wp.array(SPECIAL)], [out], device="cpu")
    return out.numpy()


@program
def arcs(wp):
    @wp.kernel
    def angles(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.acos(x[i])
        out[i, 1] = wp.asin(x[i])

    x = np.array([-2.0, -1.0, 0.25, 1.0, 1.5], np.float32)
    out = wp.zeros((5, 2), dtype=float)
    wp.launch(angles, 5, [wp.array(x)], [out], device="cpu")
    return out.numpy()


@program
def bounds_in_sorted_arrays(wp):
    @wp.kernel
    def found(a: wp.array(dtype=float), x: wp.array(dtype=float), out: wp.array2d(dtype=int)):
        i = wp.tid()
        out[i, 0] = wp.lower_bound(a, x[i])
        out[i, 1] = wp.lower_bound(a, 1, 3, x[i])

    a = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    x = np.array([0.5, 2.0, 2.5, 9.0], np.float32)
    out = wp.zeros((4, 2), dtype=int)
    wp.launch(found, 4, [wp.array(a), wp.array(x)], [out], device="cpu")
    return out.numpy()


@program
def functions_divide_as_kernels(wp):
    @wp.func
    def half(n: int):
        return n / 2

    @wp.func
    def wrapped(n: int, m: int):
        return ((n % m) + m) % m

    @wp.kernel
    def applied(a: wp.array(dtype=int), out: wp.array2d(dtype=int)):
        i = wp.tid()
        out[i, 0] = half(a[i])
        out[i, 1] = wrapped(a[i], 4)

    out = wp.zeros((8, 2), dtype=int)
    wp.launch(applied, 8, [wp.array(INTS)], [out], device="cpu")
    return out.numpy()


@program
def indices_of_a_flat_grid(wp):
    @wp.kernel
    def unravelled(width: int, out: wp.array2d(dtype=int)):
        t = wp.tid()
        out[t, 0] = t / width
        out[t, 1] = t % width

    out = wp.zeros((12, 2), dtype=int)
    wp.launch(unravelled, 12, [4], [out], device="cpu")
    return out.numpy()


@program
def gradients_of_remainders(wp):
    @wp.kernel
    def waves(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
        i = wp.tid()
        y = x[i] % 2.0
        wp.atomic_add(loss, 0, y * y + wp.round(x[i]) + wp.max(x[i], 0.5) * wp.min(x[i], 3.0))

    x = wp.array(np.array([-3.25, 0.75, 4.5], np.float32), requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(waves, 3, [x], [loss], device="cpu")
    tape.backward(loss)
    return loss.numpy(), x.grad.numpy()
