"""Launches in many threads, and values of every dtype for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

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
