"""Runs kernels on a GPU with arguments of the host: the counterpart of ``emulation.py``."""

from __future__ import annotations

import ctypes
import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from kernelcore.codegen import abi
from kernelcore.codegen.gpu import ptx
from kernelcore.codegen.gpu.architectures import FORWARD_COMPATIBLE
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.language.types import MAX_GRID_DIMS
from kernelcore.passes.access.accumulation_plan import Order
from tests.device import driver
from tests.helpers.argument_block import pack
from tests.helpers.environment import ORDINAL

STATUS_WORDS = abi.STATUS_WORDS


def run(
    func: Func,
    args: Sequence[Any],
    dims: Sequence[int] | int,
    blocks: int = 0,
    threads: int = 128,
    chunks: Sequence[tuple[int, int]] | None = None,
    order: Order = Order.ANY,
) -> int:
    """Run ``func``, as it is planned, over the grid, or over ``chunks`` of it; returns the status.

    Args:
        func: A kernel with a plan of accumulations.
        args: NumPy arrays, which are copied there and back, and numbers.
        dims: The grid.
        blocks: Blocks of the launch; 0 for a thread per point.
        threads: Threads per block.
        chunks: Parts of the grid, one launch each.
        order: Which threads run points.
    """
    kernel = load(func, order)
    extents = [dims] if isinstance(dims, int) else list(dims)
    total = math.prod(extents)
    buffers = _buffers(args)
    status = (ctypes.c_int64 * STATUS_WORDS)()
    told = driver.Buffer(ctypes.addressof(status), ctypes.sizeof(status))
    words = [*extents, *[1] * (MAX_GRID_DIMS - len(extents)), told.device, 0, 0]
    grid = (ctypes.c_int64 * len(words))(*words)
    fields, size = abi.layout(func.params)
    block = pack(fields, size, args, lambda a: _address(buffers, a)) or bytearray(8)
    data = (ctypes.c_char * len(block)).from_buffer(block)
    for begin, end in [(0, total)] if chunks is None else chunks:
        count = blocks or max(-(-(end - begin) // threads), 1)
        bounds = [ctypes.c_int64(begin), ctypes.c_int64(end)]
        driver.launch(kernel, count, threads, [data, grid, *bounds])
    driver.synchronize()
    for buffer in (*buffers.values(), told):
        buffer.read_back()
        buffer.free()
    return status[0]


def load(func: Func, order: Order = Order.ANY) -> ctypes.c_void_p:
    """The code of ``func`` on the GPU of the suite."""
    architecture = newest_known(driver.use(ORDINAL))
    symbol = symbol_of(func, order)
    return driver.function(ptx.ptx_text(func, symbol, architecture, order).encode() + b"\0", symbol)


def symbol_of(func: Func, order: Order = Order.ANY) -> str:
    """The name of ``func`` in its code."""
    digest = hashlib.sha256(f"{canonical(func)}{order.name}".encode()).hexdigest()
    return f"kc_{digest[:16]}"


def newest_known(architecture: str) -> str:
    """The newest architecture of kernelcore whose code ``architecture`` runs."""
    known = [name for name in FORWARD_COMPATIBLE if int(name[3:]) <= int(architecture[3:])]
    if not known:
        raise driver.DriverError(f"expected a GPU of sm_75 or newer, found {architecture}")
    return known[-1]


def _buffers(args: Sequence[Any]) -> dict[int, driver.Buffer]:
    """Per memory that arrays of ``args`` are views of, a copy on the GPU."""
    owners = {id(o): o for a in args if isinstance(a, np.ndarray) for o in [_owner(a)]}
    return {k: driver.Buffer(b, e - b) for k, o in owners.items() for b, e in [byte_bounds(o)]}


def _owner(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _address(buffers: dict[int, driver.Buffer], array: np.ndarray) -> int:
    buffer = buffers[id(_owner(array))]
    return buffer.device + array.ctypes.data - buffer.host
