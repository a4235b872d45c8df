"""A kernel with a parameter of every kind of value, and what its gradients are."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.autograd.jacobian import jacobian


@kc.struct
class Inner:
    offset: kc.vec2d
    gain: kc.float64


@kc.struct
class Outer:
    inner: Inner
    turns: int
    frame: kc.mat22d


@kc.kernel
def every_value(
    x: kc.array(dtype=kc.float64),
    s: kc.float64,
    v: kc.vec3d,
    m: kc.mat33d,
    q: kc.quatd,
    t: kc.transformd,
    o: Outer,
    y: kc.array(dtype=kc.float64),
):
    i = kc.tid()
    p = kc.transform_point(t, kc.quat_rotate(q, m * v)) * x[i]
    w = o.frame * o.inner.offset
    y[i] = s * kc.dot(p, v) + kc.sin(s * x[i]) * o.inner.gain * w[0] * w[1] * kc.float64(o.turns)


SIZE = 4
# Names of the float parameters of the IR but for x, and their shapes.
SHAPES: dict[str, tuple[int, ...]] = {
    "s": (),
    "v": (3,),
    "m": (3, 3),
    "q": (4,),
    "t": (7,),
    "o.inner.offset": (2,),
    "o.inner.gain": (),
    "o.frame": (2, 2),
}
TURNS = 2


def values() -> dict[str, np.ndarray]:
    """Components by name, ``x`` among them."""
    rng = np.random.default_rng(11)
    return {"x": rng.random(SIZE), **{n: rng.random(shape) for n, shape in SHAPES.items()}}


def arguments(given: dict[str, np.ndarray]) -> list[Any]:
    """``given`` as launches take them."""
    inner, outer = Inner(), Outer()
    inner.offset, inner.gain = kc.vec2d(*given["o.inner.offset"]), float(given["o.inner.gain"])
    outer.inner, outer.turns = inner, TURNS
    outer.frame = kc.mat22d(*given["o.frame"].ravel())
    return [
        given["x"],
        float(given["s"]),
        kc.vec3d(*given["v"]),
        kc.mat33d(*given["m"].ravel()),
        kc.quatd(*given["q"]),
        kc.transformd(*given["t"]),
        outer,
    ]


def leaves(given: dict[str, Any]) -> list[Any]:
    """``given`` as operators take them: one operand per parameter of the IR."""
    names = ["x", "s", "v", "m", "q", "t", "o.inner.offset", "o.inner.gain"]
    return [*(given[n] for n in names), TURNS, given["o.frame"]]


def gradients(given: dict[str, np.ndarray], ct: np.ndarray) -> dict[str, np.ndarray]:
    """The cotangents of all parameters, for ``ct`` of y."""
    found = jacobian(every_value, SIZE, arguments(given), [np.zeros(SIZE)])
    return {name: (ct @ rows).reshape(given[name].shape) for (name, _), rows in found.items()}
