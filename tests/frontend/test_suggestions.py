"""What kernels cannot call is refused with what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelError

ANY: Any = kc
floats = kc.array(dtype=float)


def library_sum(x: floats, y: floats):
    y[0] = ANY.sum(x)


def library_mean(x: floats, y: floats):
    y[0] = ANY.mean(x)


def python_sum(x: floats, y: floats):
    y[0] = sum(x)


def numpy_sum(x: floats, y: floats):
    y[0] = np.sum(x)


def method_sum(x: floats, y: floats):
    y[0] = x.sum()  # pyright: ignore


def least(x: floats, y: floats):
    y[0] = kc.min(x)


def most(x: floats, y: floats):
    y[0] = max(x)


def product(x: floats, y: floats):
    y[0] = kc.dot(x, x)


def numpy_sine(x: floats, y: floats):
    y[0] = np.sin(x[0])


def numpy_maximum(x: floats, y: floats):
    y[0] = np.maximum(x[0], 0.0)


def math_sine(x: floats, y: floats):
    y[0] = math.sin(x[0])


LOOP = r"for j in range\(len\(a\)\)"
CASES: dict[Callable[..., Any], str] = {
    library_sum: f"{LOOP}.*kc.atomic_add",
    library_mean: f"{LOOP}.*kc.atomic_add",
    python_sum: f"{LOOP}.*kc.atomic_add",
    numpy_sum: f"{LOOP}.*kc.atomic_add",
    method_sum: f"{LOOP}.*kc.atomic_add",
    least: f"{LOOP}.*kc.atomic_min",
    most: f"{LOOP}.*kc.atomic_max",
    product: f"{LOOP}.*kc.atomic_add",
    numpy_sine: r"built-in sin\(\)",
    numpy_maximum: r"built-in max\(\)",
    math_sine: r"built-in sin\(\)",
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_the_remedy_says_what_to_write(function: Callable[..., Any]) -> None:
    with pytest.raises(KernelError, match=CASES[function]):
        kc.launch(kc.kernel(function), 1, [np.ones(3, np.float32)], [np.zeros(3, np.float32)])


def extent(x: floats, y: floats):
    y[0] = float(len(x))


def test_the_length_of_an_array_is_its_extent() -> None:
    y = np.zeros(3, np.float32)
    kc.launch(kc.kernel(extent), 1, [np.ones(3, np.float32)], [y])
    assert y[0] == 3.0
