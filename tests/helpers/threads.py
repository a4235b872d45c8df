"""Launches in many threads, and values of every dtype for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.base import native
from kernelcore.codegen import abi
from kernelcore.ir.core import Func
from kernelcore.language.types import Scalar, boolean
from kernelcore.launch.executable import Executable
from kernelcore.passes.pipeline import normalize, optimize
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import launch


def run_on_host(func: Func, dims: int, args: Sequence[Any]) -> None:
    """Launch ``func`` on the thread pool."""
    native.launch(Executable(lambda: optimize(normalize(func))).signature, dims, args)


def run(func: Func, dims: int, args: Sequence[Any]) -> None:
    """Launch ``func`` in many threads: those of the pool, or of the GPU."""
    if IS_CPU:
        run_on_host(func, dims, args)
    else:
        assert launch(optimize(normalize(func)), args, dims) == abi.STATUS_OK


def with_gradients(
    kernel: kc.Kernel, given: list[np.ndarray], cotangent: np.ndarray
) -> list[np.ndarray]:
    """The output of a kernel over the points of ``cotangent``, and the gradients of its inputs.

    They are the same bits for any number of threads. Integers have no gradient.
    """
    found = list[list[np.ndarray]]()
    for threads in (1, 2, 5):
        kc.set_num_threads(threads)
        y = np.zeros_like(cotangent)
        of_given = [np.zeros_like(a) if a.dtype.kind == "f" else None for a in given]
        gradients = [a for a in of_given if a is not None]
        shape = cotangent.shape
        kc.launch(kernel, shape, list(given), [y], of_given, [cotangent], adjoint=True)
        kc.launch(kernel, shape, list(given), [y])
        found.append([y, *gradients])
    for other in found[1:]:
        assert all((a == b).all() for a, b in zip(found[0], other, strict=True))
    return found[0]


def samples(dtype: Scalar, count: int) -> np.ndarray:
    """Values of ``dtype``, the special ones among them."""
    rng = np.random.default_rng(3)
    if dtype == boolean:
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_integer:
        low, high = dtype.limits
        return rng.integers(low, high, count, dtype.numpy, endpoint=True)
    values = rng.standard_normal(count)
    values[:6] = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0]
    return rng.permutation(values).astype(dtype.numpy)
