"""What native launchers know of a compiled kernel, the layout of its argument block above all."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, cast

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass
from kernelcore.base.literal import is_like


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


class LaunchDescriptor(NamedTuple):
    """What native launchers know of a kernel besides its code, in the order of their interface."""

    name: str
    block: bytes  # an argument block of zeros
    parameter_slots: Sequence[ParameterSlot]
    param_names: Sequence[str]
    wheres: Sequence[str]
    grid_rank: int
    where: str
    grid_indexed_axes: Sequence[tuple[int, int, int]]
    messages: Sequence[str]
    may_block: bool
    accumulated: Sequence[tuple[int, ...]]
    exclusive: Sequence[int]
    is_serial: bool
    stored: Sequence[int]
    covered_axes: Sequence[tuple[int, int, int]] = ()
    flush_denormals: bool = False
    panel_rows: int = 0
    points_at_once: int = 0
    other_axis: int = -1
    other_axis_points: int = 0

    def signature(self, key: str, address: int) -> native.LaunchDescriptor:
        """The native description of the kernel whose code is at ``address``."""
        name, *others = cast("tuple[Any, ...]", self)
        return native.LaunchDescriptor(name, key, address, *others)

    def literal(self) -> tuple[Any, ...]:
        """It as a literal of Python; ``from_literal`` is the reverse."""
        slots = [tuple(slot) for slot in self.parameter_slots]
        axes = [tuple(axis) for axis in self.grid_indexed_axes]
        return tuple(self._replace(parameter_slots=slots, grid_indexed_axes=axes))

    @classmethod
    def from_literal(cls, fields: Any) -> LaunchDescriptor | None:
        """What ``literal`` gave; None of anything else."""
        if not is_like(fields, _LITERAL):
            return None
        found = cls(*fields)
        slots = [ParameterSlot(*slot) for slot in found.parameter_slots]
        is_inside = all(0 <= slot.offset < len(found.block) for slot in slots)
        return found._replace(parameter_slots=slots) if is_inside else None


# The types of a literal: of its fields, and in a list of all its elements.
_LITERAL: Any = (
    *(str, bytes, [(int,) * len(ParameterSlot._fields)], [str], [str], int, str),
    *([(int,) * 3], [str], bool, [(int,) * 10], [int], bool, [int], [(int,) * 3], bool),
    *(int, int, int, int),
)
assert len(_LITERAL) == len(LaunchDescriptor._fields)
