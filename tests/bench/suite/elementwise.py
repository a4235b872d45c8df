"""Kernels without loops: saxpy, transcendental functions, vectors."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.suite.case import Case, Data, random_floats


def saxpy(m: ModuleType) -> Any:
    @m.kernel
    def saxpy(a: float, x: m.array(dtype=float), y: m.array(dtype=float), z: m.array(dtype=float)):
        i = m.tid()
        z[i] = a * x[i] + y[i]

    return saxpy


def sin_exp(m: ModuleType) -> Any:
    @m.kernel
    def sin_exp(x: m.array(dtype=float), z: m.array(dtype=float)):
        i = m.tid()
        v = x[i]
        z[i] = m.sin(v) * m.exp(-v * v)

    return sin_exp


def mix(m: ModuleType) -> Any:
    @m.kernel
    def mix(x: m.array(dtype=float), y: m.array(dtype=float), z: m.array(dtype=float)):
        i = m.tid()
        v = x[i]
        wave = m.sin(v) * m.exp(-v * v)
        z[i] = wave + m.pow(m.abs(v) + 0.5, y[i]) + m.log(1.0 + v * v) * m.tanh(v)

    return mix


def vec3_dot(m: ModuleType) -> Any:
    @m.kernel
    def vec3_dot(x: m.array(dtype=m.vec3), y: m.array(dtype=m.vec3), z: m.array(dtype=float)):
        i = m.tid()
        z[i] = m.dot(x[i], y[i])

    return vec3_dot


def rows_dot(m: ModuleType) -> Any:
    @m.kernel
    def rows_dot(x: m.array2d(dtype=float), y: m.array2d(dtype=float), z: m.array(dtype=float)):
        i = m.tid()
        z[i] = x[i, 0] * y[i, 0] + x[i, 1] * y[i, 1] + x[i, 2] * y[i, 2]

    return rows_dot


def vec3_normalise(m: ModuleType) -> Any:
    @m.kernel
    def vec3_normalise(x: m.array(dtype=m.vec3), z: m.array(dtype=m.vec3)):
        i = m.tid()
        z[i] = m.normalize(x[i])

    return vec3_normalise


def _saxpy_data(n: int) -> Data:
    x = random_floats((2, n), -1, 1)
    return Data((n,), (0.5, x[0].copy(), x[1].copy(), np.zeros(n, np.float32)), 3)


def _unary_data(n: int) -> Data:
    return Data((n,), (random_floats(n, -2, 2), np.zeros(n, np.float32)), 1)


def _mix_data(n: int) -> Data:
    x = random_floats((2, n), -2, 2)
    return Data((n,), (x[0].copy(), x[1].copy(), np.zeros(n, np.float32)), 2)


def _dot_data(n: int) -> Data:
    return replace(_rows_data(n), vectors=frozenset({0, 1}))


def _rows_data(n: int) -> Data:
    x = random_floats((2, n, 3), -1, 1)
    return Data((n,), (x[0].copy(), x[1].copy(), np.zeros(n, np.float32)), 2)


def _normalise_data(n: int) -> Data:
    args = (random_floats((n, 3), -1, 1), np.zeros((n, 3), np.float32))
    return Data((n,), args, 1, frozenset({0, 1}))


def _mix_reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    del z
    v, p = x.astype(float), y.astype(float)
    wave = np.sin(v) * np.exp(-v * v)
    return [wave + (np.abs(v) + 0.5) ** p + np.log1p(v * v) * np.tanh(v)]


def _dot_reference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    del z
    return [np.einsum("ij,ij->i", x.astype(float), y.astype(float))]


def _normalise_reference(x: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    del z
    v = x.astype(float)
    return [v / np.linalg.norm(v, axis=1, keepdims=True)]


CASES = (
    Case("saxpy", saxpy, _saxpy_data, 1 << 20, lambda a, x, y, z: [a * x.astype(float) + y]),
    Case(
        "sin*exp",
        sin_exp,
        _unary_data,
        1 << 20,
        lambda x, z: [np.sin(x.astype(float)) * np.exp(-(x.astype(float) ** 2))],
        compute_bound=True,
    ),
    Case("transcendental mix", mix, _mix_data, 1 << 20, _mix_reference, compute_bound=True),
    Case("vec3 dot", vec3_dot, _dot_data, 1 << 20, _dot_reference),
    Case("dot of rows of 3", rows_dot, _rows_data, 1 << 20, _dot_reference),
    Case("vec3 normalise", vec3_normalise, _normalise_data, 1 << 20, _normalise_reference),
)
