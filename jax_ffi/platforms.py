"""Code of an operation for the platforms that programs are lowered for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from kernelcore.operators import (
    DEFAULT_ARCHITECTURE,
    Operation,
    ParameterSlot,
    common_architecture,
    gpu_operation,
    native,
    portable,
)


class _Embeds:
    """Whether programs are lowered with the code of their kernels; jit caches by it.

    JAX traces every function once more after a context was made: only programs that embed code
    make one. The import of this module may be part of a trace.
    """

    def __init__(self) -> None:
        self._context: Any = None
        self._lock = Lock()

    @property
    def value(self) -> bool:
        return self._context is not None and self._context.value

    def __call__(self, value: bool) -> AbstractContextManager[Any]:
        """A scope in which it is ``value``."""
        with self._lock:
            if value and self._context is None:
                self._context = jax.make_user_context(False)
        return nullcontext() if self._context is None else self._context(value)


embeds = _Embeds()

# Per operand its buffer in a call, or a number of its dtype.
Given = Sequence[int | np.generic]


@dataclass(frozen=True, slots=True)
class Code:
    """An operation for one platform.

    Attributes:
        key: The content hash of the code, which this process knows by it.
        block_size: Bytes of the argument block.
        parameter_slots: Per kernel parameter a row of integers.
        attributes: What else the handler of the platform is told.
    """

    key: str
    block_size: int
    parameter_slots: Sequence[ParameterSlot]
    attributes: Mapping[str, Any]


def _cpu_code(operation: Operation, given: Given, block_dim: int) -> Code:
    compiled = operation.compiled
    native.register_kernel(compiled.key, compiled.address)
    described = operation.described
    accumulated = np.array(described.accumulated, np.int64)
    attributes: dict[str, Any] = {"accumulated": accumulated.reshape(-1)}
    if described.panel_rows:
        attributes["panel_rows"] = np.int64(described.panel_rows)
    if described.points_at_once:
        attributes["points_at_once"] = np.int64(described.points_at_once)
    if described.other_axis >= 0:
        attributes["other_axis"] = np.int64(described.other_axis)
        attributes["other_axis_points"] = np.int64(described.other_axis_points)
    if described.may_block:
        attributes["may_block"] = np.int64(1)
    if embeds.value:
        attributes["object"] = np.frombuffer(portable(compiled.image), np.uint8)
    return Code(compiled.key, compiled.block_size, described.parameter_slots, attributes)


def _cuda_code(operation: Operation, given: Given, block_dim: int) -> Code:
    # Numbers that are computed are in the memory of the device, and never seen by the host.
    on_device = [k for k, one in enumerate(given) if not isinstance(one, np.generic)]
    architecture = DEFAULT_ARCHITECTURE if embeds.value else common_architecture()
    on_gpu = gpu_operation(operation, architecture, on_device)
    native.register_image(on_gpu.code.key, on_gpu.code.image)
    attributes: dict[str, Any] = {
        "accumulated": np.zeros(0, np.int64),
        "block_dim": np.int64(block_dim),
    }
    if embeds.value:
        attributes["image"] = np.frombuffer(on_gpu.code.image, np.uint8)
    return Code(on_gpu.code.key, on_gpu.code.block_size, on_gpu.parameter_slots(), attributes)


# By JAX's name of the platform: an operation, what it is given, and threads per block or 0.
CODE: Mapping[str, Callable[[Operation, Given, int], Code]] = MappingProxyType(
    {"cpu": _cpu_code, "cuda": _cuda_code}
)
