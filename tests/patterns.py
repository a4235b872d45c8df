"""Kernels whose derivatives are hard to get right, each with its meaning in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)
F64_2D = kc.array2d(dtype=kc.float64)
I32 = kc.array(dtype=kc.int32)


@dataclass(frozen=True)
class Pattern:
    """A kernel as an operation.

    ``arguments`` makes the operands; ``reference`` computes the results from copies of them, one
    grid point after the other, in plain Python.
    """

    kernel: kc.Kernel
    arguments: Callable[[np.random.Generator], list[Any]]
    reference: Callable[..., tuple[np.ndarray, ...]]
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        return self.kernel.name


PATTERNS: list[Pattern] = []


def pattern(
    arguments: Callable[[np.random.Generator], list[Any]],
    reference: Callable[..., tuple[np.ndarray, ...]],
    **options: Any,
) -> Callable[[kc.Kernel], kc.Kernel]:
    def register(kernel: kc.Kernel) -> kc.Kernel:
        PATTERNS.append(Pattern(kernel, arguments, reference, options))
        return kernel

    return register


def vectors(*sizes: int, low: float = 0.4, high: float = 1.6) -> Callable[..., list[Any]]:
    return lambda rng: [rng.uniform(low, high, size) for size in sizes]


def each(function: Callable[..., float]) -> Callable[..., tuple[np.ndarray, ...]]:
    """A reference that maps ``function`` over the elements of its arguments."""
    return lambda *arrays: (np.array([function(*row) for row in zip(*arrays, strict=True)]),)


def product(x: np.ndarray, n: int) -> tuple[np.ndarray]:
    return (np.array([np.prod([v + 0.1 * k for k in range(n)]) for v in x]),)


@pattern(lambda rng: [rng.uniform(0.5, 1.5, 4), 5], product)
@kc.kernel
def dynamic_product(x: F64, n: int, y: F64):
    i = kc.tid()
    p = 1.0
    for k in range(n):
        p *= x[i] + 0.1 * kc.float64(k)
    y[i] = p


def logistic(x: np.ndarray, r: float, n: int) -> tuple[np.ndarray]:
    v = x.copy()
    for _ in range(n):
        v = r * v * (1.0 - v)
    return (v,)


@pattern(lambda rng: [rng.uniform(0.2, 0.8, 3), 2.7, 7], logistic)
@kc.kernel
def logistic_map(x: F64, r: kc.float64, n: int, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        v = r * v * (1.0 - v)
    y[i] = v


@pattern(vectors(4, low=1.5, high=9.0), each(np.sqrt))
@kc.kernel
def newton_sqrt(x: F64, y: F64):
    i = kc.tid()
    a = x[i]
    v = a
    while kc.abs(v * v - a) > 1.0e-13 * a:
        v = 0.5 * (v + a / v)
    y[i] = v


def until_large(x: float) -> float:
    s = 0.0
    for k in range(20):
        s += x * x * (k + 1)
        if s > 6.0:
            break
        s *= 1.1
    return s


@pattern(vectors(5), each(until_large))
@kc.kernel
def loop_with_break(x: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.0)
    for k in range(20):
        s += x[i] * x[i] * kc.float64(k + 1)
        if s > 6.0:
            break
        s *= 1.1
    y[i] = s


def skip_thirds(x: float) -> float:
    s = 1.0
    for k in range(8):
        if k % 3 == 1:
            continue
        s = s * x + np.sin(s)
    return s


@pattern(vectors(4), each(skip_thirds))
@kc.kernel
def loop_with_continue(x: F64, y: F64):
    i = kc.tid()
    s = 1.0
    for k in range(8):
        if k % 3 == 1:
            continue
        s = s * x[i] + kc.sin(s)
    y[i] = s


@kc.func
def clipped(v: kc.float64, limit: kc.float64):
    if v < limit:
        return v * v
    w = v - limit
    if w > 0.5:
        return 2.0 * w
    return kc.exp(w) * limit


def clipped_reference(v: float, limit: float = 0.9) -> float:
    if v < limit:
        return v * v
    w = v - limit
    return 2.0 * w if w > 0.5 else np.exp(w) * limit


@pattern(vectors(9), each(clipped_reference))
@kc.kernel
def early_return(x: F64, y: F64):
    i = kc.tid()
    y[i] = clipped(x[i], 0.9)


@pattern(vectors(6), each(lambda v: v * v if v > 1.0 else 0.0))
@kc.kernel
def kernel_early_return(x: F64, y: F64):
    i = kc.tid()
    if x[i] <= 1.0:
        return
    y[i] = x[i] * x[i]


@pattern(vectors(4, 4), lambda x, o: (o * x,))
@kc.kernel
def in_place_scale(x: F64, o: F64):
    i = kc.tid()
    o[i] *= x[i]


def powers_in_place(x: np.ndarray, o: np.ndarray) -> tuple[np.ndarray]:
    for k in range(3):
        o = o * x + 0.1 * k * o * o
    return (o,)


@pattern(vectors(4, 4), powers_in_place)
@kc.kernel
def in_place_in_loop(x: F64, o: F64):
    i = kc.tid()
    for k in range(3):
        o[i] = o[i] * x[i] + 0.1 * kc.float64(k) * o[i] * o[i]


@pattern(vectors(4), each(lambda v: v**4 + np.sin(v * v)), outputs=["o"])
@kc.kernel
def overwrite_then_read(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]
    v = o[i]
    o[i] = v * v + kc.sin(v)


@pattern(vectors(4), each(lambda v: np.sin(v)))
@kc.kernel
def stored_twice(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]
    o[i] = kc.sin(x[i])


def twenty(x: float) -> float:
    v = x
    for k in range(20):
        v = np.sin(v) * x + 0.05 * k
    return v


@pattern(vectors(4), each(twenty))
@kc.kernel
def static_loop(x: F64, y: F64):
    i = kc.tid()
    v = x[i]
    for k in range(20):
        v = kc.sin(v) * x[i] + 0.05 * kc.float64(k)
    y[i] = v


@kc.func
def power(x: kc.float64, n: int):
    p = kc.float64(1.0)
    for _ in range(n):
        p *= x
    return p


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 4), np.array([0, 1, 3, 5], np.int32)],
    lambda x, n: (x**n + x * x,),
)
@kc.kernel
def func_with_loop(x: F64, n: I32, y: F64):
    i = kc.tid()
    y[i] = power(x[i], n[i]) + power(x[i], 2)


def stencil(u: np.ndarray, w: float) -> tuple[np.ndarray]:
    right = np.zeros_like(u)
    down = np.zeros_like(u)
    right[:, :-1] = u[:, 1:] - u[:, :-1]
    down[:-1] = u[1:] - u[:-1]
    return (0.5 * u * u + w * np.sqrt(right**2 + down**2 + 0.01),)


@pattern(lambda rng: [rng.uniform(0.0, 1.0, (4, 5)), 0.7], stencil)
@kc.kernel
def tv_stencil(u: F64_2D, w: kc.float64, e: F64_2D):
    i, j = kc.tid()
    ux = kc.float64(0.0)
    uy = kc.float64(0.0)
    if j + 1 < u.shape[1]:
        ux = u[i, j + 1] - u[i, j]
    if i + 1 < u.shape[0]:
        uy = u[i + 1, j] - u[i, j]
    e[i, j] = 0.5 * u[i, j] * u[i, j] + w * kc.sqrt(ux * ux + uy * uy + 0.01)


def triangle(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray]:
    return (np.array([sum(np.sin(a[i, j] * x[j]) for j in range(i + 1)) for i in range(len(x))]),)


@pattern(
    lambda rng: [rng.uniform(-1, 1, (4, 4)), rng.uniform(-1, 1, 4)],
    triangle,
    launch_dims="x",
)
@kc.kernel
def nested_in_row(a: F64_2D, x: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.0)
    for j in range(i + 1):
        s += kc.sin(a[i, j] * x[j])
    y[i] = s


def nested(x: np.ndarray, n: np.ndarray) -> tuple[np.ndarray]:
    out = []
    for v, m in zip(x, n, strict=True):
        s = 1.0
        for k in range(m):
            t = s
            j = 0
            while t < 4.0 and j < 3 + k:
                t = t * v + 0.3
                j += 1
                if t > 3.0:
                    break
            s = 0.5 * s + np.sin(t) * v
        out.append(s)
    return (np.array(out),)


@pattern(
    lambda rng: [rng.uniform(0.8, 1.4, 4), np.array([0, 1, 3, 4], np.int32)],
    nested,
)
@kc.kernel
def while_in_for_with_break(x: F64, n: I32, y: F64):
    i = kc.tid()
    s = kc.float64(1.0)
    for k in range(n[i]):
        t = s
        j = 0
        while t < 4.0 and j < 3 + k:
            t = t * x[i] + 0.3
            j += 1
            if t > 3.0:
                break
        s = 0.5 * s + kc.sin(t) * x[i]
    y[i] = s


def row_recurrence(x: np.ndarray, h: np.ndarray) -> tuple[np.ndarray]:
    h = h.copy()
    for t in range(h.shape[1] - 1):
        h[:, t + 1] = np.tanh(h[:, t] * x + h[:, t + 1])
    return (h,)


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 3), rng.uniform(-1, 1, (3, 5))],
    row_recurrence,
)
@kc.kernel
def recurrence_in_memory(x: F64, h: F64_2D):
    i = kc.tid()
    for t in range(h.shape[1] - 1):
        h[i, t + 1] = kc.tanh(h[i, t] * x[i] + h[i, t + 1])


def gathered(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray]:
    return (np.array([x[k] * x[k] * x[i] for i, k in enumerate(index)]),)


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 5), np.array([3, 0, 3, 1, 3], np.int32)],
    gathered,
)
@kc.kernel
def gather(x: F64, index: I32, y: F64):
    i = kc.tid()
    k = index[i]
    y[i] = x[k] * x[k] * x[i]


def scattered(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray]:
    out = np.zeros(3)
    np.add.at(out, index, np.exp(x))
    return (out,)


@pattern(
    lambda rng: [rng.uniform(-1, 1, 6), np.array([0, 2, 0, 1, 2, 0], np.int32)],
    scattered,
    output_dims=3,
)
@kc.kernel
def scatter_add(x: F64, index: I32, out: F64):
    i = kc.tid()
    kc.atomic_add(out, index[i], kc.exp(x[i]))


@pattern(vectors(3, 3), lambda x, o: (o + x * x,), outputs=(), in_out=("o",))
@kc.kernel
def accumulate_in_place(x: F64, o: F64):
    i = kc.tid()
    o[i] += x[i] * x[i]


def two_outputs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(x) * y, np.array([np.sum(x * y * y)])


@pattern(vectors(4, 4), two_outputs, output_dims={"total": 1})
@kc.kernel
def map_and_sum(x: F64, y: F64, out: F64, total: F64):
    i = kc.tid()
    out[i] = kc.sin(x[i]) * y[i]
    total[0] += x[i] * y[i] * y[i]


@pattern(vectors(5), each(lambda v: np.sqrt(v - 0.8) if v > 0.8 else v**3))
@kc.kernel
def guarded_branch(x: F64, y: F64):
    i = kc.tid()
    y[i] = kc.sqrt(x[i] - 0.8) if x[i] > 0.8 else x[i] ** 3.0


def swapped(x: np.ndarray, n: int) -> tuple[np.ndarray]:
    out = []
    for v in x:
        a, b = v, 1.0
        for _ in range(n):
            a, b = b * v, a + b
        out.append(a * b)
    return (np.array(out),)


@pattern(lambda rng: [rng.uniform(0.5, 1.5, 3), 6], swapped)
@kc.kernel
def tuple_swap_in_loop(x: F64, n: int, y: F64):
    i = kc.tid()
    a, b = x[i], kc.float64(1.0)
    for _ in range(n):
        a, b = b * x[i], a + b
    y[i] = a * b


def backwards(x: np.ndarray) -> tuple[np.ndarray]:
    n = len(x)
    s = 0.5
    for k in range(n - 1, -1, -2):
        s = s * x[k] + x[k] ** 2
    return (np.full(1, s),)


@pattern(vectors(5), backwards, launch_dims=1, output_dims=1)
@kc.kernel
def negative_step(x: F64, y: F64):
    i = kc.tid()
    s = kc.float64(0.5)
    for k in range(len(x) - 1, -1, -2):
        s = s * x[k] + x[k] * x[k]
    y[i] = s


@pattern(
    lambda rng: [rng.uniform(0.5, 1.5, 4).astype(np.float32)],
    lambda x: (np.sin(x.astype(np.float64)) * x.astype(np.float64) ** 2,),
)
@kc.kernel
def through_a_cast(x: kc.array(dtype=kc.float32), y: F64):
    i = kc.tid()
    v = kc.float64(x[i])
    y[i] = kc.sin(v) * v * v
