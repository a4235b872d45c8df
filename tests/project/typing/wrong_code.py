"""Mistakes; each line with ``# error`` is one that type checkers report, and no other line is."""

from typing import Literal

import kernelcore as kc


@kc.struct
class Body:
    position: kc.vec3
    mass: float


@kc.func
def weight(b: Body, g: float) -> float:
    return b.mass * g


@kc.kernel
def fall(bodies: kc.array[Body], points: kc.array2d[kc.vec3], y: kc.array[float]):
    i = kc.tid()
    points[i, 0] = 1.0  # error
    y[i] = points[i, 0]  # error
    y[i, 0] = 1.0  # error
    y[i] = bodies[i].speed  # error
    bodies[i] = 2.0  # error
    y[i] = kc.sin("x")  # error
    y[i] = weight(bodies[i])  # error
    y[i] = kc.vec3(1.0, 2.0)  # error
    y[i] = points[i, 0].w  # error
    y[i] = kc.sine(1.0)  # error
    y[i] = kc.vec3() + kc.vec2()  # error
    kc.atomic_add(y, 0, kc.vec3())  # error
    kc.randf()  # error


kc.launch(fall, dims=3)  # error
kc.launch(weight, 3)  # error
Body(position=kc.vec3(), mass="heavy")  # error
Body(position=kc.vec3(), weight=1.0)  # error


@kc.kernel
def ranks(x: kc.array[float], grid: kc.array[kc.vec3, Literal[2]]):
    i = kc.tid()
    x[i] = grid[i, 0]  # error
    grid[i, 0] = 1.0  # error
    x[i, 0] = 1.0  # error
    x[i] = x[i, 0]  # error
    x[i] = weight(grid)  # error
