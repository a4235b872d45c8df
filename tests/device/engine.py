"""What runs device code in tests: a GPU where the suites run on one, else this processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.ir.core import Func
from kernelcore.passes.access.accumulation_plan import Order
from tests.device import emulation, gpu
from tests.helpers.environment import IS_CPU


def run(
    func: Func,
    args: Sequence[Any],
    dims: Sequence[int] | int,
    blocks: int = 2,
    threads: int = 32,
    is_converged: bool = False,
    order: Order = Order.ANY,
) -> int:
    """The status of a launch; see ``emulation.run``, of which a GPU needs no ``is_converged``."""
    if IS_CPU:
        return emulation.run(func, args, dims, blocks, threads, is_converged, order).status
    return gpu.run(func, args, dims, blocks, threads, order=order)
