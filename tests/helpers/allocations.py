"""Machine code whose stacks get their memory from a function of a test."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from tests.helpers.kernel_harness import KERNEL_TYPE, MAX_GRID_DIMS


def launch_with(
    allocation: str,
    func: Func,
    arrays: Sequence[np.ndarray],
    points: int,
    strategy: VectorStrategy | None = None,
) -> int:
    """The status of a launch over ``points``, where ``allocation`` takes aligned_alloc()'s place.

    ``allocation`` is LLVM IR that declares ``@aligned_alloc`` and defines ``@tested_allocation``.
    """
    text = cpu.llvm_text(func, "tested", strategy)
    text = text.replace("@aligned_alloc(", "@tested_allocation(")
    text = text.replace("declare ptr @tested_allocation(i64, i64)", allocation)
    address = cpu.load(cpu.object_code(text), "tested")
    status = ctypes.c_int64(0)
    words = [points, *[1] * (MAX_GRID_DIMS - 1), ctypes.addressof(status), 0, 0, 0]
    grid = (ctypes.c_int64 * len(words))(*words)
    places = [w for a in arrays for w in (a.ctypes.data, *a.shape, *a.strides)]
    block = (ctypes.c_int64 * len(places))(*places)
    KERNEL_TYPE(address)(ctypes.addressof(block), ctypes.addressof(grid), 0, points)
    return status.value
