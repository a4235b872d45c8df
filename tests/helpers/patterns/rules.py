"""Patterns of functions with their own derivatives, which are the true ones, and of gradients."""

from __future__ import annotations

import numpy as np

import kernelcore as kc
from tests.helpers.patterns.declare import (
    F64,
    I32,
    MAT33,
    VEC3,
    each,
    pattern,
    rows,
    tensors,
    vectors,
)


@kc.func
def root(x: kc.float64):
    return kc.sqrt(x)


@kc.func_grad(root)
def root_grad(x: kc.float64, adj_ret: kc.float64):
    if x <= 0.0:
        return
    kc.adjoint[x] += adj_ret / (2.0 * root(x))


@pattern(vectors(4), each(lambda x: np.sqrt(x) * np.sqrt(np.sqrt(x) + 1.0)))
@kc.kernel
def adjoint_rule(x: F64, y: F64):
    i = kc.tid()
    first = root(x[i])
    y[i] = first * root(first + 1.0)


@kc.func
def cube(x: kc.float64):
    return x * x * x


@kc.func_jvp(cube)
def cube_jvp(x: kc.float64, t_x: kc.float64):
    return 3.0 * x * x * t_x


def cubes(x: float, n: int) -> float:
    for _ in range(n):
        x = 0.3 * x**3 + 0.5 if x > 0.4 else x * x + 0.4
    return x


@pattern(lambda rng: [rng.uniform(0.3, 0.9, 4), 3], rows(cubes))
@kc.kernel
def tangent_rule_in_a_loop(x: F64, n: int, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        v = 0.3 * cube(v) + 0.5 if v > 0.4 else v * v + 0.4
    y[i] = v


@kc.func
def polar(r: kc.float64, n: int, angle: kc.float64):
    return r * kc.cos(angle * kc.float64(n)), n + 1, r * kc.sin(angle * kc.float64(n))


@kc.func_grad(polar)
def polar_grad(r, n, angle, adj_x, adj_n, adj_y):
    scale = kc.float64(n)
    c, s = kc.cos(angle * scale), kc.sin(angle * scale)
    kc.adjoint[r] += adj_x * c + adj_y * s
    kc.adjoint[angle] += scale * r * (adj_y * c - adj_x * s)


@pattern(vectors(5, 5), each(lambda r, a: r * np.cos(2 * a) * 3 + (r * np.sin(2 * a)) ** 2))
@kc.kernel
def several_results(r: F64, angle: F64, out: F64):
    i = kc.tid()
    x, n, y = polar(r[i], 2, angle[i])
    out[i] = x * kc.float64(n) + y * y


@kc.func
def turned(m: kc.mat33d, v: kc.vec3d):
    return m * v


@kc.func_grad(turned)
def turned_grad(m: kc.mat33d, v: kc.vec3d, adj_ret: kc.vec3d):
    kc.adjoint[v] += kc.transpose(m) * adj_ret
    for i in range(3):
        for j in range(3):
            kc.adjoint[m][i, j] += adj_ret[i] * v[j]


@pattern(
    tensors((4, 3, 3), (4, 3)),
    rows(lambda m, v: np.sum((m @ v) * np.sin(m @ v)), 2),
)
@kc.kernel
def composite_rule(m: MAT33, v: VEC3, out: F64):
    i = kc.tid()
    w = turned(m[i], v[i])
    out[i] = kc.dot(w, kc.vec3d(kc.sin(w.x), kc.sin(w.y), kc.sin(w.z)))


@kc.func
def looked_up(table: F64, i: int, x: kc.float64):
    return table[i] * table[i] * x


@kc.func_grad(looked_up)
def looked_up_grad(table: F64, i: int, x: kc.float64, adj_ret: kc.float64):
    kc.adjoint[table][i] += 2.0 * table[i] * x * adj_ret
    kc.adjoint[x] += table[i] * table[i] * adj_ret


@kc.func_jvp(looked_up)
def looked_up_jvp(table: F64, i: int, x: kc.float64, t_table: F64, t_x: kc.float64):
    return 2.0 * table[i] * x * t_table[i] + table[i] * table[i] * t_x


@pattern(
    lambda rng: [rng.uniform(0.4, 1.6, 3), np.array([2, 0, 2, 1], np.int32), rng.uniform(0, 1, 4)],
    lambda table, index, x: (table[index] ** 2 * x,),
    launch_dims="x",
)
@kc.kernel
def array_rule(table: F64, index: I32, x: F64, y: F64):
    i = kc.tid()
    y[i] = looked_up(table, index[i], x[i])


@kc.func
def put(out: F64, i: int, x: kc.float64):
    out[i] = 3.0 * x * x


@kc.func_grad(put)
def put_grad(out: F64, i: int, x: kc.float64):
    kc.adjoint[x] += 6.0 * x * kc.adjoint[out][i]


@kc.func_jvp(put)
def put_jvp(out: F64, i: int, x: kc.float64, t_out: F64, t_x: kc.float64):
    t_out[i] = 6.0 * x * t_x


@pattern(vectors(4), each(lambda x: 3.0 * np.sin(x) ** 2))
@kc.kernel
def writing_rule(x: F64, y: F64):
    i = kc.tid()
    put(y, i, kc.sin(x[i]))


@kc.func
def power(x: kc.float64, n: int, y: kc.float64):
    p = x
    for _ in range(n):
        p *= y
    return p


def gradients(x: float, y: float) -> float:
    # d/dx = y^3, d/dy = 3 x y^2, and the derivative of 3 y^2 x with respect to x
    return y**3 + np.sin(3.0 * x * y**2) + np.cos(x)


@pattern(vectors(4, 4), each(gradients))
@kc.kernel
def gradients_in_the_kernel(x: F64, y: F64, out: F64):
    i = kc.tid()
    d_x, d_n, d_y = kc.grad(power)(x[i], 3, y[i])
    out[i] = d_x + kc.sin(d_y) + kc.grad(kc.sin)(x[i]) + kc.float64(d_n)


@pattern(vectors(4), each(lambda x: 0.5 / np.sqrt(x) + 6.0 * x))
@kc.kernel
def gradients_of_rules(x: F64, y: F64):
    i = kc.tid()
    second = kc.grad(kc.grad(cube))
    y[i] = kc.grad(root)(x[i]) + second(x[i])
