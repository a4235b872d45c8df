"""Kernels of the torch tests, each with the same function in plain torch."""

from __future__ import annotations

import torch

import kernelcore as kc


@kc.kernel
def quadratic(x: kc.array(dtype=kc.float64), a: kc.float64, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


def quadratic_torch(x, a):
    return a * x * x


@kc.kernel
def blend(
    x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64), z: kc.array(dtype=kc.float64)
):
    i = kc.tid()
    z[i] = kc.sin(x[i]) * y[i] + kc.exp(x[i] * y[i])


def blend_torch(x, y):
    return torch.sin(x) * y + torch.exp(x * y)


@kc.kernel
def neighbours(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = x[i] * x[(i + 1) % x.shape[0]]


def neighbours_torch(x):
    return x * torch.roll(x, -1)


@kc.kernel
def product(
    m: kc.array2d(dtype=kc.float64), v: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)
):
    i = kc.tid()
    total = kc.float64(0.0)
    for k in range(v.shape[0]):
        total += m[i, k] * v[k] * v[k]
    y[i] = total


def product_torch(m, v):
    return m @ (v * v)


@kc.kernel
def polar(
    x: kc.array(dtype=kc.float64),
    y: kc.array(dtype=kc.float64),
    squared: kc.array(dtype=kc.float64),
    mixed: kc.array(dtype=kc.float64),
):
    i = kc.tid()
    squared[i] = x[i] * x[i] + y[i] * y[i]
    mixed[i] = x[i] * kc.cos(y[i])


def polar_torch(x, y):
    return x * x + y * y, x * torch.cos(y)


@kc.kernel
def energy(x: kc.array(dtype=kc.float64), total: kc.array(dtype=kc.float64)):
    i = kc.tid()
    kc.atomic_add(total, 0, x[i] * x[i] * x[i])


def energy_torch(x):
    return (x**3).sum().reshape(1)


@kc.kernel
def grow(x: kc.array(dtype=kc.float64), state: kc.array(dtype=kc.float64)):
    i = kc.tid()
    state[i] *= x[i]
    state[i] = state[i] * state[i]


def grow_torch(x, state):
    return (state * x) ** 2


@kc.kernel
def take(
    x: kc.array(dtype=kc.float64),
    index: kc.array(dtype=int),
    offset: int,
    negate: bool,
    y: kc.array(dtype=kc.float64),
):
    i = kc.tid()
    value = x[index[i] + offset]
    if negate:
        value = -value
    y[i] = value * value * value


def take_torch(x, index, offset, negate):
    value = x[index.long() + offset]
    return (-value if negate else value) ** 3


@kc.kernel
def rounded(
    x: kc.array(dtype=kc.float64),
    y: kc.array(dtype=kc.float64),
    floor: kc.array(dtype=kc.float64),
    mixed: kc.array(dtype=kc.float64),
    whole: kc.array(dtype=int),
):
    i = kc.tid()
    floor[i] = kc.floor(x[i])
    mixed[i] = x[i] * y[i]
    whole[i] = int(x[i])


@kc.kernel
def powers(a: kc.float64, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = a * a * kc.float64(i)


def powers_torch(a):
    return a * a * torch.arange(4)


@kc.kernel
def quartic(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = x[i] ** 4


@kc.kernel
def scaled(x: kc.array(dtype=kc.float64), a: kc.float64, n: int, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = a * a * x[i] * kc.float64(n)


def scaled_torch(x, a, n):
    return a * a * x * n


@kc.kernel
def weighted(
    x: kc.array(dtype=kc.float32), a: kc.float32, b: kc.float32, y: kc.array(dtype=kc.float32)
):
    i = kc.tid()
    y[i] = x[i] * a * b


@kc.kernel
def λ(
    α: kc.array(dtype=kc.float64),
    β: kc.float64,
    NoneType: kc.float64,
    y: kc.array(dtype=kc.float64),
):
    i = kc.tid()
    y[i] = α[i] * α[i] * β * NoneType
