"""The kernels of ``bench_trees``: the suite's, and others for each special case of the CPU code."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportAttributeAccessIssue=false

# Types of parameters are made by calls; literals that loops change are not.
# pyright: basic, reportInvalidTypeForm=false
# ruff: noqa: UP018

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import kernelcore as kc
from tests.bench import framework_kernels
from tests.bench.suite import CASES
from tests.bench.suite.prepared import in_language

Run = Callable[[], object]
F1, F2, I1, I2 = (kc.array(t, n) for t in (kc.float32, kc.int32) for n in (1, 2))
V1, M1, Q1 = (kc.array(t, 1) for t in (kc.vec3, kc.mat33, kc.quat))
POINTS = 100_000
queries = framework_kernels.attention(kc, kc.float32)


@kc.struct
class Particle:
    x: kc.vec3
    v: kc.vec3
    mass: float


S1 = kc.array(dtype=Particle)


@kc.kernel
def scaled(a: float, x: F2, y: F2):
    i, j = kc.tid()
    y[i, j] = a * x[i, j] + y[i, j]


@kc.kernel
def waves(a: float, x: F2, y: F2):
    i, j = kc.tid()
    v = x[i, j]
    y[i, j] = a * kc.sin(v) * kc.exp(-v * v)


@kc.kernel
def smooth(x: F2, w: F1, y: F2):
    i, j = kc.tid()
    total = float(0.0)
    for k in range(16):
        total += w[k] * x[i, j + k]
    y[i, j] = total


@kc.kernel
def convolution(x: F1, w: F1, y: F1):
    i = kc.tid()
    total = float(0.0)
    for k in range(w.shape[0]):
        total += w[k] * x[i + k]
    y[i] = total


@kc.kernel
def inverse(a: M1, x: V1, y: V1):
    i = kc.tid()
    y[i] = kc.inverse(a[i]) * x[i]


@kc.kernel
def rotate(q: Q1, x: V1, y: V1):
    i = kc.tid()
    y[i] = kc.quat_rotate(q[i], x[i])


@kc.kernel
def energy(p: S1, out: F1):
    i = kc.tid()
    s = p[i]
    out[i] = 0.5 * s.mass * kc.dot(s.v, s.v) + kc.exp(-kc.length(s.x))


@kc.kernel
def moved(p: S1, out: F1):
    i = kc.tid()
    s = p[i]
    s.x = s.x + s.v * 1.0e-3
    p[i] = s
    out[i] = s.mass


@kc.kernel
def springs(x: V1, start: I1, other: I1, rest: F1, k: float, force: V1):
    i = kc.tid()
    here = x[i]
    total = kc.vec3(0.0, 0.0, 0.0)
    for e in range(start[i], start[i + 1]):
        d = x[other[e]] - here
        size = kc.length(d)
        total += d * (k * (size - rest[e]) / size)
    force[i] = total


@kc.kernel
def gaussians(x: F1, at: I2, y: F1):
    i = kc.tid()
    total = float(0.0)
    for e in range(at.shape[1]):
        d = x[at[i, e]] - x[i]
        total += kc.exp(-d * d)
    y[i] = total


@kc.kernel
def sparse(x: F1, at: I2, w: F2, y: F1):
    i = kc.tid()
    total = float(0.0)
    for e in range(at.shape[1]):
        total += w[i, e] * x[at[i, e]]
    y[i] = total


@kc.kernel
def edges(x: V1, a: I1, b: I1, force: V1):
    i = kc.tid()
    d = x[b[i]] - x[a[i]]
    pull = d * (1.0 - 1.0 / kc.length(d))
    kc.atomic_add(force, a[i], pull)
    kc.atomic_add(force, b[i], -pull)


@kc.kernel
def layer(w: F2, b: F1, x: F2, y: F2):
    i, j = kc.tid()
    total = b[j]
    for k in range(x.shape[1]):
        total += x[i, k] * w[k, j]
    y[i, j] = kc.tanh(total)


@kc.kernel
def row_sums(x: F2, y: F1):
    i = kc.tid()
    total = float(0.0)
    for k in range(x.shape[1]):
        total += x[i, k] * x[i, k]
    y[i] = total


@kc.kernel
def softmax(x: F2, y: F2):
    i = kc.tid()
    largest = x[i, 0]
    for k in range(x.shape[1]):
        largest = kc.max(largest, x[i, k])
    total = float(0.0)
    for k in range(x.shape[1]):
        total += kc.exp(x[i, k] - largest)
    for k in range(x.shape[1]):
        y[i, k] = kc.exp(x[i, k] - largest) / total


@kc.kernel
def layer_norm(x: F2, scale: F1, shift: F1, y: F2):
    i = kc.tid()
    count = float(x.shape[1])
    total = float(0.0)
    for k in range(x.shape[1]):
        total += x[i, k]
    mean = total / count
    spread = float(0.0)
    for k in range(x.shape[1]):
        spread += (x[i, k] - mean) * (x[i, k] - mean)
    factor = 1.0 / kc.sqrt(spread / count + 1.0e-5)
    for k in range(x.shape[1]):
        y[i, k] = (x[i, k] - mean) * factor * scale[k] + shift[k]


@kc.kernel
def attention(q: F2, keys: F2, values: F2, y: F2):
    i = kc.tid()
    largest, total = float(-1.0e30), float(0.0)
    for j in range(keys.shape[0]):
        score = float(0.0)
        for c in range(q.shape[1]):
            score += q[i, c] * keys[j, c]
        before = largest
        largest = kc.max(largest, score)
        scale, part = kc.exp(before - largest), kc.exp(score - largest)
        total = total * scale + part
        for c in range(y.shape[1]):
            y[i, c] = y[i, c] * scale + part * values[j, c]
    for c in range(y.shape[1]):
        y[i, c] = y[i, c] / total


@kc.func
def gate(a: float, b: float, x: float, y: float) -> float:
    return 1.0 / (1.0 + kc.exp(-(a * x + b * y)))


@kc.kernel
def cells(w: F1, x: F1, y: F1):
    i = kc.tid()
    first, second = x[i], x[i]
    kept, long_kept = float(0.0), float(0.0)
    for _ in range(1000):
        kept = gate(w[0], w[1], first, x[i]) * kept + gate(w[2], w[3], first, x[i])
        first = gate(w[4], w[5], first, x[i]) * kc.tanh(kept)
        added = gate(w[6], w[7], second, first) * kc.tanh(w[8] * second + w[9] * first)
        long_kept = gate(w[10], w[11], second, first) * long_kept + added
        second = gate(w[12], w[13], second, first) * kc.tanh(long_kept)
    y[i] = second


def dense_layer(size: int) -> kc.Kernel:
    """A layer of a network whose thread holds a vector; loops over components are unrolled."""
    numbers, vector = tuple(range(size)), kc.types.vector(size, kc.float32)

    @kc.kernel
    def dense_layer(w: F2, x: kc.array(vector, 1), y: kc.array(vector, 1)):
        i = kc.tid()
        inner, outer = x[i], vector()
        for a in kc.static(numbers):
            total = float(0.0)
            for b in kc.static(numbers):
                total += w[a, b] * inner[b]
            outer[a] = kc.tanh(total)
        y[i] = outer

    return dense_layer


@kc.kernel
def line_stencil(u: F1, v: F1):
    i = kc.tid()
    if i > 1 and i < u.shape[0] - 2:
        near, far = u[i - 1] + u[i + 1], u[i - 2] + u[i + 2]
        v[i] = 2.0 * u[i] - 0.1 * near + 0.01 * far


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 2, shape).astype(np.float32)


def indices(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, shape).astype(np.int32)


def _pair(kernel: Any, dim: tuple[int, ...], make: Callable[[], list[Any]]) -> tuple[Run, Run]:
    """Launches of a kernel whose last argument is the result, and of its adjoint."""
    *inputs, result = make()
    zeros = [
        np.zeros_like(a) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else None
        for a in inputs
    ]
    seeds = {"adj_inputs": zeros, "adj_outputs": [np.ones_like(result)], "adjoint": True}
    forward = partial(kc.launch, kernel, dim, inputs, [result])
    return forward, partial(kc.launch, kernel, dim, inputs, [result], **seeds)


def _suite(name: str, size: int | None = None) -> tuple[Run, Run | None]:
    case = next(c for c in CASES if c.name == name)
    prepared = in_language(kc, case, case.data(size or case.size))
    return prepared.forward, prepared.adjoint


def _strided(name: str, size: int) -> tuple[Run, Run]:
    """A kernel of the suite over every second element of its arrays."""
    case = next(c for c in CASES if c.name == name)
    data = case.data(size)
    args = [np.repeat(a, 2, 0)[::2] if isinstance(a, np.ndarray) else a for a in data.args]
    return _pair(case.make(kc), data.dim, lambda: args)


def _structs(kernel: Any) -> tuple[Run, None]:
    data = floats(POINTS, 7).view(kc.dtype_to_numpy(Particle)).reshape(POINTS)
    args = [kc.array(data.copy(), dtype=Particle, device="cpu")]
    args.append(kc.zeros(POINTS, dtype=kc.float32, device="cpu"))
    return partial(kc.launch, kernel, POINTS, args), None


def _springs(degree: int, count: int = 20_000) -> list[Any]:
    start = np.arange(count + 1, dtype=np.int32) * degree
    near = np.arange(count * degree) // degree + indices(200, count * degree)
    other = (near % count).astype(np.int32)
    return [floats(count, 3), start, other, floats(count * degree), 2.0, floats(count, 3)]


def kernels() -> dict[str, Callable[[], Any]]:
    """Makers of launches by name; a name that ends in ' is that of an adjoint."""
    pairs: dict[str, Callable[[], tuple[Run, Run | None]]] = {}
    for case in CASES:
        pairs[case.name] = partial(_suite, case.name)
    for name, size in (("matmul", 300), ("matmul", 63), ("n-body", 1000), ("Newton while", 1010)):
        pairs[f"{name} {size}"] = partial(_suite, name, size)
    for name in ("transcendental mix", "n-body", "saxpy"):
        pairs[f"{name}, strided"] = partial(_strided, name, 1024 if name == "n-body" else POINTS)
    for rows, columns in ((POINTS, 3), (2000, 37), (300, 380), (40, 1000)):
        for kernel in (scaled, waves):
            shape = rows, columns
            pairs[f"{kernel.name} {rows} x {columns}"] = partial(
                _pair, kernel, shape, lambda s=shape: [0.5, floats(*s), floats(*s)]
            )
    made: dict[str, tuple[Any, tuple[int, ...], Callable[[], list[Any]]]] = {
        "smooth": (smooth, (300, 300), lambda: [floats(300, 316), floats(16), floats(300, 300)]),
        "inverse": (
            inverse,
            (POINTS,),
            lambda: [floats(POINTS, 3, 3), floats(POINTS, 3), floats(POINTS, 3)],
        ),
        "rotate": (
            rotate,
            (POINTS,),
            lambda: [floats(POINTS, 4), floats(POINTS, 3), floats(POINTS, 3)],
        ),
        "gaussians": (
            gaussians,
            (20_000,),
            lambda: [floats(20_000), indices(20_000, 20_000, 20), floats(20_000)],
        ),
        "sparse": (
            sparse,
            (20_000,),
            lambda: [
                floats(20_000),
                indices(20_000, 20_000, 20),
                floats(20_000, 20),
                floats(20_000),
            ],
        ),
        "edges": (
            edges,
            (200_000,),
            lambda: [
                floats(20_000, 3),
                indices(20_000, 200_000),
                indices(20_000, 200_000)[::-1].copy(),
                floats(20_000, 3),
            ],
        ),
        "layer 512 x 64": (
            layer,
            (512, 64),
            lambda: [floats(64, 64), floats(64), floats(512, 64), floats(512, 64)],
        ),
        "layer 100 x 10": (
            layer,
            (100, 10),
            lambda: [floats(200, 10), floats(10), floats(100, 200), floats(100, 10)],
        ),
        "row sums": (row_sums, (1000,), lambda: [floats(1000, 100), floats(1000)]),
        "row sums 4096 x 512": (row_sums, (4096,), lambda: [floats(4096, 512), floats(4096)]),
        "row sums 50 x 7": (row_sums, (50,), lambda: [floats(50, 7), floats(50)]),
        "row softmax": (softmax, (4096,), lambda: [floats(4096, 512), floats(4096, 512)]),
        "row softmax of 8": (softmax, (POINTS,), lambda: [floats(POINTS, 8), floats(POINTS, 8)]),
        "row norm": (
            layer_norm,
            (4096,),
            lambda: [floats(4096, 512), floats(512), floats(512), floats(4096, 512)],
        ),
        "row attention": (attention, (1024,), lambda: [floats(1024, 64) for _ in range(4)]),
        "queries of 64": (queries, (1024,), lambda: [floats(1024, 64) for _ in range(4)]),
        "line stencil": (line_stencil, (1 << 20,), lambda: [floats(1 << 20), floats(1 << 20)]),
    }
    for size in (60, 1000):
        made[f"convolution {size}"] = (
            convolution,
            (size,),
            lambda n=size: [floats(n + 16), floats(16), floats(n)],
        )
    for size in (14, 32):
        made[f"cells {size}"] = cells, (size,), lambda n=size: [floats(14), floats(n), floats(n)]
    for size in (20, 32):
        made[f"dense layer {size}"] = (
            dense_layer(size),
            (4096,),
            lambda n=size: [floats(n, n), floats(4096, n), floats(4096, n)],
        )
    for degree in (5, 12, 24):
        made[f"springs {degree}"] = (springs, (20_000,), partial(_springs, degree))
    pairs |= {name: partial(_pair, *given) for name, given in made.items()}
    pairs |= {k.name: partial(_structs, k) for k in (energy, moved)}
    # The adjoint of a launch needs what it overwrites.
    single = {"row attention", *(c.name for c in CASES if not c.adjoint)}
    single |= {name for name in pairs if name.startswith((scaled.name, energy.name, moved.name))}
    found: dict[str, Callable[[], Any]] = {}
    for name, pair in pairs.items():
        found[name] = lambda p=pair: p()[0]
        if name not in single:
            found[name + "'"] = lambda p=pair: p()[1]
    return found
