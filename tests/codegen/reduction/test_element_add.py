"""Additions in commit order: their code, and the log that it writes."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.compiler.native_code import compile_func
from kernelcore.ir.core import Func
from kernelcore.language.types import MAX_GRID_DIMS
from kernelcore.passes.pipeline import optimize
from tests.helpers.argument_block import pack
from tests.helpers.kernel_harness import KERNEL_TYPE, launch

Values, Indices = kc.array(dtype=Any), kc.array(dtype=kc.int32)
POINTS = 150


def everywhere(x: Values, at: Indices, y: Values):
    i = kc.tid()
    v = x[i]
    kc.atomic_add(y, at[i], v)
    kc.atomic_add(y, i + 3, v + v)
    kc.atomic_add(y, i + 2, v * v)
    if v > x.dtype(0.5):
        kc.atomic_add(y, at[i] + 1, v)
        kc.atomic_add(y, i, v)
        kc.atomic_add(y, at[0], v)
    for k in range(2):
        kc.atomic_add(y, k, v)
        kc.atomic_add(y, at[i] + k, -v)
    kc.atomic_add(y, at[i], v * v)


def beside(x: Values, at: Indices, y: Values):
    i = kc.tid()
    v = x[i]
    kc.atomic_add(y, at[i], v)
    kc.atomic_add(y, i + 3, v + v)
    kc.atomic_add(y, at[i] + 1, -v)


def optimized(function: Any, dtype: Any) -> Func:
    values = np.zeros(0, dtype)
    return optimize(kc.kernel(function).for_arguments((values, np.zeros(0, np.int32), values)).func)


def data(dtype: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = (rng.random(POINTS) * 4 - 1).astype(dtype)
    at = rng.integers(2, POINTS, POINTS).astype(np.int32)
    return x, at, (rng.random(POINTS + 4) * 9).astype(dtype)


class Log(ctypes.Structure):
    _fields_ = (("next", ctypes.c_void_p), ("end", ctypes.c_void_p), ("drain", ctypes.c_void_p))


def run_together(func: Func, args: Sequence[Any], lanes: int, room: int) -> list[int]:
    """Run ``func`` where all arrays are shared; how many records each drain of the log finds."""
    compiled = compile_func(func, VectorStrategy(lanes))
    records = (ctypes.c_char * (room * abi.RECORD_BYTES))()
    start = ctypes.addressof(records)
    log, drained = Log(start, start + room * abi.RECORD_BYTES), list[int]()

    def drain(_: int) -> None:
        drained.append((log.next - start) // abi.RECORD_BYTES)
        for record in range(start, log.next, abi.RECORD_BYTES):
            target = ctypes.c_uint64.from_address(record).value
            real = ctypes.c_double if target & 1 else ctypes.c_float
            dtype = np.float64 if target & 1 else np.float32
            added = dtype(real.from_address(record + abi.RECORD_VALUE_OFFSET).value)
            element = real.from_address(target & ~1)
            element.value = float(dtype(element.value) + added)
        log.next = start

    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(drain)
    log.drain = ctypes.cast(callback, ctypes.c_void_p).value
    status = ctypes.c_int64(0)
    words = [POINTS, *[1] * (MAX_GRID_DIMS - 1), ctypes.addressof(status)]
    words += [-1, ctypes.addressof(log)]
    grid = (ctypes.c_int64 * len(words))(*words)
    block = ctypes.create_string_buffer(bytes(pack(compiled.fields, compiled.block_size, args)))
    kernel = KERNEL_TYPE(compiled.address)
    kernel(ctypes.addressof(block), ctypes.addressof(grid), 0, POINTS)
    assert status.value == abi.STATUS_OK
    drain(0)
    return drained


@pytest.mark.parametrize(
    ("function", "lanes", "dtype"),
    [
        (everywhere, 1, np.float32),
        (everywhere, 1, np.float64),
        (everywhere, 16, np.float32),
        (everywhere, 4, np.float64),
        (everywhere, 16, np.int32),
        (beside, 1, np.float64),
        (beside, 64, np.float32),
        (beside, 16, np.int32),
    ],
)
def test_a_log_holds_additions_in_commit_order(function: Any, lanes: int, dtype: Any) -> None:
    func, (x, at, y) = optimized(function, dtype), data(dtype)
    want = y.copy()
    assert launch(func, [x, at, want], POINTS, None, lanes) == abi.STATUS_OK
    for room in (1, 7, 100_000):
        found = y.copy()
        *full, _ = run_together(func, [x, at, found], lanes, room)
        np.testing.assert_array_equal(found.view(np.uint8), want.view(np.uint8))
        # It is drained as soon as it is full, and at no other time.
        assert set(full) <= {room}
        assert bool(full) == (dtype != np.int32 and room < POINTS)


@pytest.mark.parametrize("function", [everywhere, beside])
@pytest.mark.parametrize("lanes", [1, 16])
def test_a_module_has_one_function_that_logs_for_one_and_one_for_lanes(
    function: Any, lanes: int
) -> None:
    text = emit_kernel(optimized(function, np.float32), "k", None, VectorStrategy(lanes))
    defined = re.findall(r"^define internal .*@(kc\.[\w.]+)\(", text, re.MULTILINE)
    assert len(defined) == len(set(defined))
    # Only one place calls the launcher.
    assert len(re.findall(r"call void %", text)) == 1
    kernel = text[text.index("define void") :]
    logs_itself = f"getelementptr i8, ptr %log, i64 {abi.LOG_END_OFFSET}"
    assert logs_itself not in kernel
    if lanes > 1:
        assert {"kc.add_together.float32", "kc.drain"} <= set(defined)
        logging = {"kc.append.float32", "kc.add_together.float32"} & set(defined)
        assert text.count(logs_itself) == len(logging)
