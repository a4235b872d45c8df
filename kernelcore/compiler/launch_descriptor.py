"""What native launchers know of a compiled kernel, the layout of its argument block above all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from kernelcore.base import native
from kernelcore.language.types import Scalar


class Role(IntEnum):
    """How a kernel parameter is bound; the numbers are part of the native ABI."""

    INPUT = 0  # an operand, only read
    OUTPUT = 1  # a result
    INOUT = 2  # a result that starts as a copy of an operand
    SCRATCH = 3  # a private buffer, a copy of an operand or zeros; a hidden result
    VALUE = 4  # a scalar operand


class ZeroFill(IntEnum):
    """When a buffer is zeroed before the launch; the numbers are part of the native ABI."""

    NEVER = 0
    IF_PARTIAL = 1  # unless its shape is the launch shape
    ALWAYS = 2


@dataclass(frozen=True, slots=True)
class Binding:
    """What one kernel parameter is bound to; -1 where there is no operand or no result."""

    role: Role
    operand: int = -1
    result: int = -1
    zero: ZeroFill = ZeroFill.NEVER


class ParameterSlot(NamedTuple):
    """Where a kernel parameter lies in the argument block, and what it is bound to.

    Attributes:
        offset: Bytes from the start of the block.
        role: A ``Role``.
        dtype: The number of the dtype in the native ABI.
        ndim: Dimensions of an array; 0 for a scalar.
        zero: A ``ZeroFill``.
        operand: The operand that it is bound to, or -1.
        result: The result that it is bound to, or -1.
        rows: The first extent of the components, 0 where there are none.
        columns: The second one.
    """

    offset: int
    role: int
    dtype: int
    ndim: int
    zero: int
    operand: int
    result: int
    rows: int
    columns: int

    @property
    def outer_ndim(self) -> int:
        """Dimensions that are not components."""
        return self.ndim - bool(self.rows) - bool(self.columns)


def dtype_code(dtype: Scalar) -> int:
    """The number of ``dtype`` in the native ABI."""
    return dtype.index


@dataclass(frozen=True, slots=True)
class LaunchDescriptor:
    """What native launchers know of a kernel besides its code."""

    name: str
    block_size: int
    parameter_slots: Sequence[ParameterSlot]
    param_names: Sequence[str]
    wheres: Sequence[str]
    grid_rank: int
    where: str
    grid_indexed_axes: Sequence[tuple[int, int, int]]
    messages: Sequence[str]
    may_block: bool
    accumulated: Sequence[tuple[int, int, int, int, int, int]]
    exclusive: Sequence[int]
    is_serial: bool
    stored: Sequence[int]

    def to_json(self) -> Sequence[Any]:
        """Its fields as JSON has them."""
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def from_json(cls, fields: Sequence[Any]) -> LaunchDescriptor:
        """What ``to_json`` gave."""
        found = dict(zip(cls.__slots__, fields, strict=True))
        slots = [ParameterSlot(*row) for row in found.pop("parameter_slots")]
        return cls(**found, parameter_slots=slots)

    def signature(self, key: str, address: int) -> native.LaunchDescriptor:
        """The native description of the kernel whose code is at ``address``."""
        return native.LaunchDescriptor(
            self.name,
            key,
            address,
            bytes(self.block_size),
            self.parameter_slots,
            self.param_names,
            self.wheres,
            self.grid_rank,
            self.where,
            self.grid_indexed_axes,
            messages=self.messages,
            may_block=self.may_block,
            accumulated=self.accumulated,
            noalias=self.exclusive,
            is_serial=self.is_serial,
            stored=self.stored,
        )
