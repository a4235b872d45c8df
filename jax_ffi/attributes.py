"""Attributes of a launch, from which the native handler builds its plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jax_ffi.platforms import CODE, Given
from kernelcore.operators import Operation, ParameterSlot, messages


def launch_attributes(
    operation: Operation,
    given: Given,
    results: Sequence[int],
    *,
    platform: str,
    block_dim: int = 0,
) -> dict[str, Any]:
    """The attributes of a launch for the native handler; they do not depend on sizes.

    Args:
        operation: What is computed.
        given: Per operand its buffer in the call, or a number of its dtype.
        results: Per result its buffer in the call.
        platform: Where the program is to run, as JAX calls it.
        block_dim: Threads per block on GPUs; 0 leaves the choice to the launcher.

    Returns:
        ``key``: the content hash of the kernel. ``name``: of the kernel, for errors. ``template``:
        uint8, the argument block, with the numbers. ``slots``: int64, 9 per kernel parameter.
        ``grid``: int64, per launch dimension the buffer and axis it is the extent of, and its value
        if it is none. ``messages``: uint8, what failed assertions report, each with a zero byte
        behind it. ``parameters``: uint8, the names of the kernel's, likewise. ``indexed``,
        ``covered``: int64, 3 per axis that is at least, or at most, as large as the launch.
        ``accumulated``: int64, 10 per accumulated array. ``block_dim``: on GPUs.
        ``flush_denormals``: where the kernel does that. ``may_block``: where few points may take
        long. ``panel_rows``: where tiles have panels or are squares, the fewest rows for these.
        ``points_at_once``: the fewest points that a thread claims at once, if that matters.
        ``other_axis``, ``other_axis_points``: the axis along which lanes lie in launches that are
        longer on it than on the last one, and how many points that may have, 0 for any number.
        ``object``, ``image``: uint8, code for CPUs or GPUs, where ``embeds`` is set.
    """
    code = CODE[platform](operation, given, block_dim)
    template = np.zeros(code.block_size, np.uint8)
    rows: list[ParameterSlot] = []
    for slot in code.parameter_slots:
        number = given[slot.operand] if slot.operand >= 0 else -1
        if isinstance(number, np.generic):
            data = np.frombuffer(number.tobytes(), np.uint8)
            template[slot.offset : slot.offset + data.size] = data
            number = -1
        result = results[slot.result] if slot.result >= 0 else -1
        rows.append(slot._replace(operand=number, result=result))
    grid = [[given[e.operand] if e.operand >= 0 else -1, e.axis, e.value] for e in operation.grid]
    return {
        "key": code.key,
        "name": operation.func.name,
        "template": template,
        "slots": np.array(rows, np.int64).reshape(-1),
        "grid": np.array(grid, np.int64).reshape(-1),
        "messages": _texts(messages(operation.func)),
        "parameters": _texts([p.name for p in operation.func.params]),
        "indexed": np.array(operation.grid_indexed_axes, np.int64).reshape(-1),
        "covered": np.array(operation.covered, np.int64).reshape(-1),
        **({"flush_denormals": np.int64(1)} if operation.func.flush_denormals else {}),
        **code.attributes,
    }


def _texts(texts: Sequence[str]) -> np.ndarray:
    return np.frombuffer(b"".join(text.encode() + b"\0" for text in texts), np.uint8)
