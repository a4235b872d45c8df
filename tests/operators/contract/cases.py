"""Operators of the contract suite, each with arguments and what NumPy makes of them."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kernelcore as kc

Floats = kc.array(dtype=float)
Floats2 = kc.array2d(dtype=float)
Ints = kc.array(dtype=int)
Vectors = kc.array(dtype=kc.vec3)


@kc.struct
class Pair:
    left: Floats
    right: Floats
    factor: float


@kc.struct
class Body:
    position: kc.vec3
    mass: float


AnyRank = kc.arraynd[float]


@dataclass(frozen=True)
class Case:
    """A call of an operator.

    Attributes:
        name: Of the case.
        op: The operator.
        args: NumPy arrays, numbers, and mappings from fields to these.
        oracle: What NumPy makes of the arguments, in float64: a tuple of results.
        wrt: The arguments to differentiate with respect to.
        batched: The arguments of which a batch is made.
        options: Named arguments of the call.
        dtypes: What the elements of kernelcore arrays are, by argument.
        names: The names of several results.
        frameworks: Where it runs.
    """

    name: str
    op: Any
    args: tuple[Any, ...]
    oracle: Callable[..., Any]
    wrt: tuple[int, ...] = ()
    batched: tuple[int, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    dtypes: Mapping[int, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ("torch", "jax", "paddle", "numpy", "kernelcore")


@kc.op
@kc.kernel
def wave(x: Floats, a: float, y: Floats):
    i = kc.tid()
    y[i] = kc.sin(a * x[i])


@kc.op
@kc.kernel
def polar(x: Floats, y: Floats, radius: Floats, slope: Floats):
    i = kc.tid()
    radius[i] = kc.sqrt(x[i] * x[i] + y[i] * y[i])
    slope[i] = y[i] / x[i]


@kc.op(in_out="y")
@kc.kernel
def axpy(a: float, x: Floats, y: Floats):
    i = kc.tid()
    y[i] = y[i] + a * x[i]


@kc.op(output_dims=1)
@kc.kernel
def total(x: Floats, y: Floats):
    i = kc.tid()
    y[0] += x[i] * x[i]


@kc.op(output_dims={"sums": "bins"})
@kc.kernel
def histogram(x: Floats, place: Ints, bins: int, sums: Floats):
    i = kc.tid()
    kc.atomic_add(sums, place[i], x[i])


@kc.op(output_dims={"rows": "x.shape[0]"}, launch_dims="x.shape[0]")
@kc.kernel
def row_sums(x: Floats2, rows: Floats):
    i = kc.tid()
    found = 0.0
    for j in range(x.shape[1]):
        found += x[i, j] * x[i, j]
    rows[i] = found


@kc.op
@kc.kernel
def weighted(p: Pair, y: Floats):
    i = kc.tid()
    y[i] = p.factor * p.left[i] * p.right[i]


@kc.op
@kc.kernel
def momentum(bodies: kc.array(dtype=Body), v: Vectors, p: Vectors):
    i = kc.tid()
    p[i] = bodies[i].mass * (v[i] + bodies[i].position)


@kc.op
@kc.kernel
def norms(v: Vectors, n: Floats):
    i = kc.tid()
    n[i] = kc.dot(v[i], v[i])


@kc.op
@kc.kernel
def shifted(v: Vectors, by: kc.vec3, w: Vectors):
    i = kc.tid()
    w[i] = v[i] + 2.0 * by


@kc.op(outputs="y")
@kc.kernel
def doubled(x: kc.array1d[Any], y: kc.array1d[Any]):
    i = kc.tid()
    y[i] = x[i] + x[i]


@kc.op(launch_dims=("h", "w"))
@kc.kernel
def ramp(h: int, w: int, scale: float, image: Floats2):
    i, j = kc.tid()
    image[i, j] = scale * (10.0 * float(i) + float(j))


@kc.op(launch_dims=lambda x: (2 * x[0],))
@kc.kernel
def repeated(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = 3.0 * x[i // 2]


@kc.op(output_dims=lambda x, n: (x[0] * n,), launch_dims="x")
@kc.kernel
def spaced(x: Floats, n: int, y: Floats):
    i = kc.tid()
    y[i * n] = x[i] * x[i]


@kc.op(defaults={"a": 0.5})
@kc.kernel
def faded(x: Floats, a: float, y: Floats):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


@kc.op
@kc.kernel
def turned(x: Floats2, y: Floats2):
    i, j = kc.tid()
    y[i, j] = kc.exp(x[i, j])


@kc.op(outputs="y")
@kc.kernel
def scanned(x: Floats2, y: Floats2):
    i, j = kc.tid()
    y[i, j] += x[i, j]
    y[i, j] *= 2.0


@kc.op
@kc.kernel
def swish(x: AnyRank, slope: float, y: AnyRank):
    i = kc.tid()
    y[i] = x[i] / (1.0 + kc.exp(-slope * x[i]))


@kc.op
@kc.kernel
def product(x: AnyRank, y: AnyRank, z: AnyRank, w: AnyRank):
    i = kc.tid()
    z[i] = x[i] * y[i]
    w[i] = x[i] + y[i]


@kc.op(outputs="y")
@kc.kernel
def cubed(x: kc.array(dtype=Any, ndim=...), y: kc.array(dtype=Any, ndim=...)):
    i = kc.tid()
    y[i] = x[i] * x[i] * x[i]


@kc.kernel
def squares(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def plus(x: Floats, y: Floats, z: Floats):
    i = kc.tid()
    z[i] = x[i] + y[i]


@kc.op
def quartic(x: Floats, y: Floats):
    inner = kc.zeros(x.shape, dtype=float)
    kc.launch(squares, x.shape[0], [x, inner])
    kc.launch(squares, x.shape[0], [inner, y])


@kc.op(outputs=["first", "second"])
def stages(x: Floats, first: Floats, second: Floats):
    kc.launch(squares, x.shape[0], [x, first])
    kc.launch(plus, x.shape[0], [x, first, second])


def floats(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Numbers from 0.5 to 1.5."""
    return np.asarray(np.random.default_rng(seed).uniform(0.5, 1.5, shape), np.float32)


PLACES = np.array([0, 2, 2, 1, 0], np.int32)
BODIES = {"position": floats(4, 3, seed=3), "mass": floats(4, seed=4)}
PAIR = {"left": floats(5), "right": floats(5, seed=1), "factor": 1.5}


def _spread(x: Any, n: int) -> Any:
    made = np.zeros(len(x) * n)
    made[::n] = x * x
    return made


def _binned(x: Any, place: Any, bins: int) -> Any:
    made = np.zeros(bins)
    np.add.at(made, place, x)
    return made


ARRAYS = ("torch", "jax", "numpy", "kernelcore")

CASES = [
    Case("elementwise", wave, (floats(7), 1.3), lambda x, a: (np.sin(a * x),), (0,), (0,)),
    Case(
        "several results",
        polar,
        (floats(5), floats(5, seed=1)),
        lambda x, y: (np.sqrt(x * x + y * y), y / x),
        (0, 1),
        (0,),
        names=("radius", "slope"),
    ),
    Case(
        "in-out",
        axpy,
        (0.5, floats(5), floats(5, seed=2)),
        lambda a, x, y: (y + a * x,),
        (1, 2),
        (1,),
    ),
    Case("sum", total, (floats(9),), lambda x: ((x * x).sum(keepdims=True),), (0,), (0,)),
    Case(
        "histogram",
        histogram,
        (floats(5), PLACES, 3),
        lambda x, p, n: (_binned(x, p, n),),
        (0,),
        (0,),
    ),
    Case("rows", row_sums, (floats(3, 4),), lambda x: ((x * x).sum(1),), (0,), (0,)),
    Case(
        "struct of arrays",
        weighted,
        (PAIR,),
        lambda p: (p["factor"] * p["left"] * p["right"],),
    ),
    Case(
        "array of structs",
        momentum,
        (BODIES, floats(4, 3)),
        lambda b, v: (b["mass"][:, None] * (v + b["position"]),),
        (1,),
        (1,),
        dtypes={0: Body, 1: kc.vec3},
    ),
    Case(
        "vectors",
        norms,
        (floats(4, 3),),
        lambda v: ((v * v).sum(1),),
        (0,),
        (0,),
        dtypes={0: kc.vec3},
    ),
    Case(
        "vector value",
        shifted,
        (floats(4, 3), (0.5, 1.0, 2.0)),
        lambda v, by: (v + 2.0 * np.asarray(by),),
        (0,),
        dtypes={0: kc.vec3},
    ),
    Case("generic float32", doubled, (floats(4),), lambda x: (x + x,), (0,), (0,)),
    Case("generic float64", doubled, (floats(4).astype(np.float64),), lambda x: (x + x,), (0,)),
    Case("generic int32", doubled, (PLACES,), lambda x: (x + x,)),
    Case(
        "integer extents",
        ramp,
        (3, 4, 0.5),
        lambda h, w, s: (s * (10.0 * np.arange(h)[:, None] + np.arange(w)),),
        frameworks=("numpy",),
    ),
    Case("extents of a function", repeated, (floats(4),), lambda x: (3 * np.repeat(x, 2),), (0,)),
    Case("extents of two arguments", spaced, (floats(3), 2), lambda x, n: (_spread(x, n),), (0,)),
    Case(
        "extents of the call",
        wave,
        (floats(7), 2.0),
        lambda x, a: (np.sin(a * x)[:4],),
        (0,),
        options={"launch_dims": 4},
    ),
    Case(
        "output extents of the call",
        total,
        (floats(7),),
        lambda x: (np.array([(x * x).sum(), 0, 0]),),
        (0,),
        options={"output_dims": {"y": 3}},
    ),
    Case("default", faded, (floats(4),), lambda x: (0.5 * x * x,), (0,), (0,)),
    Case("named", faded, (floats(4),), lambda x, a: (a * x * x,), (0,), options={"a": 2.0}),
    Case("two dimensions", turned, (floats(2, 3),), lambda x: (np.exp(x),), (0,), (0,)),
    Case("strided", turned, (floats(3, 2).T,), lambda x: (np.exp(x),), (0,)),
    Case("output that is loaded", scanned, (floats(2, 3),), lambda x: (2.0 * x,), (0,), (0,)),
    Case("empty", wave, (floats(0), 1.0), lambda x, a: (np.sin(a * x),), (0,)),
    Case("empty sum", total, (floats(0),), lambda x: (np.zeros(1),), (0,)),
    Case(
        "any rank",
        swish,
        (floats(2, 3, 2), 1.5),
        lambda x, s: (x / (1 + np.exp(-s * x)),),
        (0,),
        (0,),
    ),
    Case("one dimension", swish, (floats(4), 1.5), lambda x, s: (x / (1 + np.exp(-s * x)),), (0,)),
    Case("no dimension", swish, (floats(), 1.5), lambda x, s: (x / (1 + np.exp(-s * x)),), (0,)),
    Case(
        "any rank and strides",
        product,
        (floats(3, 2).T, floats(2, 6, seed=1)[:, ::2]),
        lambda x, y: (x * y, x + y),
        (0, 1),
        (1,),
        names=("z", "w"),
    ),
    Case("generic of any rank", cubed, (floats(2, 3),), lambda x: (x**3,), (0,), (0,)),
    Case("empty of any rank", cubed, (floats(2, 0),), lambda x: (x**3,)),
    Case(
        "function of several kernels",
        quartic,
        (floats(5),),
        lambda x: (x**4,),
        (0,),
        (0,),
        frameworks=ARRAYS,
    ),
    Case(
        "function with two results",
        stages,
        (floats(5),),
        lambda x: (x * x, x + x * x),
        (0,),
        (0,),
        names=("first", "second"),
        frameworks=ARRAYS,
    ),
]
