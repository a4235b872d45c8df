"""Patterns of functions: several results, nesting, functions as arguments, overloads, generics."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import (
    F64,
    F64_2D,
    I32,
    MAT33,
    VEC3,
    pattern,
    rows,
    tensors,
    vectors,
)

Float = TypeVar("Float", bound=kc.types.AnyFloat)
FloatVector = TypeVar("FloatVector", bound=kc.vector(length=Any, dtype=kc.types.AnyFloat))


@kc.func
def polar(x: kc.float64, y: kc.float64) -> tuple[kc.float64, kc.float64, kc.float64]:
    r = kc.sqrt(x * x + y * y)
    if x > y:
        return r, kc.atan2(y, x), x
    if r > 1.5:
        return r * y, y / x, r
    return x, y, r * x


def polar_reference(x: float, y: float) -> float:
    r = np.hypot(x, y)
    if x > y:
        a, b, c = r, np.arctan2(y, x), x
    elif r > 1.5:
        a, b, c = r * y, y / x, r
    else:
        a, b, c = x, y, r * x
    return a * b + c * c * b


@pattern(vectors(8, 8), rows(polar_reference, 2))
@kc.kernel
def several_results(x: F64, y: F64, z: F64):
    i = kc.tid()
    a, b, c = polar(x[i], y[i])
    z[i] = a * b + c * c * b


@pattern(vectors(4, 4), lambda x, y: (np.sin(x * y) * y + (x + y) ** 2 * y,))
@kc.kernel
def nested_functions(x: F64, y: F64, z: F64):
    i = kc.tid()
    scale = y[i]

    def outer(v: kc.float64) -> kc.float64:
        def inner(w: kc.float64) -> kc.float64:
            return kc.sin(w * scale)

        return inner(v) * scale

    def square(v: kc.float64) -> kc.float64:
        s = v + scale
        return s * s * y[i]

    z[i] = outer(x[i]) + square(x[i])


@kc.func
def integral(f: Callable[..., Any], a: kc.float64, b: kc.float64, n: int) -> kc.float64:
    h = (b - a) / kc.float64(n)
    s = 0.5 * (f(a) + f(b))
    for k in range(1, n):
        s += f(a + kc.float64(k) * h)
    return s * h


@kc.func
def twice(f: Callable[..., Any], x: Any) -> Any:
    return f(f(x))


@kc.func
def bump(x: kc.float64) -> kc.float64:
    if x < 1.0:
        return kc.exp(-x * x)
    return kc.exp(-1.0) / x


def bumped(x: float) -> float:
    return np.exp(-x * x) if x < 1.0 else np.exp(-1.0) / x


def integrated(a: float, b: float, n: int) -> float:
    points = np.linspace(a, a + b, n + 1)

    def trapezoid(f: Callable[[float], float]) -> float:
        values = [f(p) for p in points]
        return (sum(values) - 0.5 * (values[0] + values[-1])) * b / n

    return trapezoid(bumped) * trapezoid(np.sqrt) + bumped(bumped(a))


@pattern(lambda rng: [*vectors(3, 3, low=0.3, high=0.9)(rng), 4], rows(integrated, 2))
@kc.kernel
def functions_as_arguments(a: F64, b: F64, n: int, y: F64):
    i = kc.tid()
    stop = a[i] + b[i]
    y[i] = integral(bump, a[i], stop, n) * integral(kc.sqrt, a[i], stop, n) + twice(bump, a[i])


@kc.func
def size(x: Float) -> Any:
    return kc.sqrt(x * x + 1.0)


@kc.func
def size(x: FloatVector) -> Any:  # noqa: F811
    s = x.dtype(0.0)
    for k in range(len(x)):
        s += size(x[k]) * x[k]
    return s


@kc.func
def size(x: kc.mat33d) -> kc.float64:  # noqa: F811
    return size(x[0]) * size(x[1]) - size(kc.vec2d(x[2, 0], x[2, 2]))


def size_reference(x: np.ndarray) -> float:
    return float(np.sum(np.sqrt(x * x + 1.0) * x))


@pattern(
    tensors((2, 3, 3), (2, 3)),
    rows(
        lambda m, v: (
            np.sqrt(v[0] ** 2 + 1) * size_reference(m[0]) * size_reference(m[1])
            - np.sqrt(v[0] ** 2 + 1) * size_reference(m[2, ::2])
            + size_reference(v)
        ),
        2,
    ),
)
@kc.kernel
def overloads_and_generics(m: MAT33, x: VEC3, y: F64):
    i = kc.tid()
    y[i] = size(m[i]) * size(x[i].x) + size(x[i])


@kc.kernel
def generic_kernel(x: kc.array(dtype=Any), s: Any, y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = size(x[i]) * x[i] * s


pattern(
    lambda rng: [rng.uniform(0.4, 1.6, (3, 3)), 0.7],
    rows(lambda x, s: size_reference(x) * x * s),
)(kc.overload(generic_kernel, {"x": VEC3, "s": kc.float64, "y": VEC3}))


@kc.func
def smoothed(row: F64, w: kc.float64) -> kc.float64:
    before = row[0]
    for k in range(1, len(row)):
        old = row[k]
        row[k] = old * w + before * before
        before = old
    return before * row[0]


def smoothed_reference(h: np.ndarray, w: float) -> tuple[np.ndarray, float]:
    total = 0.0
    for _ in range(2):
        last = h[-1]
        h = np.append(h[0], h[1:] * w + h[:-1] ** 2)
        total += last * h[0]
    return h, total


@pattern(tensors((3, 4), (3,)), rows(smoothed_reference, 2), launch_dims="w")
@kc.kernel
def function_that_updates_a_view(h: F64_2D, w: F64, y: F64):
    i = kc.tid()
    first = smoothed(h[i], w[i])
    y[i] = first + smoothed(h[i], w[i])


@kc.func
def residual(v: kc.float64, a: kc.float64) -> tuple[kc.float64, kc.float64]:
    return v * v * v + a * v - 1.0, 3.0 * v * v + a


@kc.func
def far(v: kc.float64, a: kc.float64) -> bool:
    f, _ = residual(v, a)
    return kc.abs(f) > 1.0e-13


def root(a: float) -> float:
    v = 1.0
    for _ in range(30):
        v -= (v**3 + a * v - 1.0) / (3.0 * v * v + a)
    return v * a


@pattern(vectors(4), rows(root))
@kc.kernel
def function_as_loop_condition(a: F64, y: F64):
    i = kc.tid()
    v = kc.float64(1.0)
    while far(v, a[i]):
        f, slope = residual(v, a[i])
        v -= f / slope
    # One more step, for the derivatives.
    f, slope = residual(v, a[i])
    v -= f / slope
    f, slope = residual(v, a[i])
    y[i] = (v - f / slope) * a[i]


@kc.func
def found(x: F64, limit: kc.float64) -> tuple[int, kc.float64]:
    s = kc.float64(1.0)
    for k in range(len(x)):
        s *= x[k]
        if s > limit:
            return k, s
    return -1, s


def lookup(limit: float, n: int, x: np.ndarray) -> float:
    s, k = 1.0, -1
    for j, v in enumerate(x):
        s *= v
        if s > limit:
            k = j
            break
    if k < 0:
        return s * limit
    return sum(x[j] * x[n] for j in range(k + 1)) * s


@pattern(
    lambda rng: [
        np.array([1.2, 2.0, 9.0, 2.8]),
        np.array([0, 2, 1, 3], np.int32),
        rng.uniform(1.1, 1.5, 4),
    ],
    rows(lookup, 2),
)
@kc.kernel
def loop_bounds_from_functions(limit: F64, n: I32, x: F64, y: F64):
    i = kc.tid()
    k, s = found(x, limit[i])
    if k < 0:
        y[i] = s * limit[i]
        return
    total = kc.float64(0.0)
    for j in range(k + 1):
        total += x[j] * x[n[i]]
    y[i] = total * s


@kc.func
def hat(x: kc.float64, width: kc.float64 = 0.8, power: int = 2) -> kc.float64:
    v = kc.max(width - kc.abs(x), 0.0)
    for _ in range(power):
        v *= kc.max(width - kc.abs(x), 0.0)
    return v


def hat_reference(x: float, w: float) -> float:
    def one(x: float, width: float = 0.8, power: int = 2) -> float:
        return max(width - abs(x), 0.0) ** (power + 1)

    return one(x) + one(x, width=w * x) * x + one(x - 1.0, w, 1)


@pattern(vectors(6, 6), rows(hat_reference, 2))
@kc.kernel
def default_arguments(x: F64, w: F64, y: F64):
    i = kc.tid()
    v = x[i]
    y[i] = hat(v) + hat(v, width=w[i] * v) * v + hat(v - 1.0, w[i], 1)
