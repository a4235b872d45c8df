"""The binary interface of compiled kernels: argument block, launch grid, status codes.

A kernel is ``void k(const void* args, const Grid* grid, int64 begin, int64 end)``; ``begin`` and
``end`` are row-major positions in the grid, whose extents are below 2**31. The argument block
holds, in parameter order and at natural alignment, per scalar its bytes and per array of n
dimensions ``{void* data; int64 shape[n]; int64 stride_bytes[n]}``. Elements lie at their natural
alignment. A kernel that fails sets ``*grid->status`` and returns; where ``while`` loops find it set
they end the kernel, so that a launcher can stop it.

Bit k of ``grid->shared`` says that other threads may add to the k-th accumulated array
(``passes/access/accumulation_plan.py``) during the call: additions of integers are atomic then, and
those of floats are appended to ``grid->log``, for the launcher to make in the order of the chunks.
Bit k of ``grid->own`` says that the calls of a launch divide the elements of that array: each adds
what all points add to a part of them, the part of the points that it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.ir.core import Var
from kernelcore.language.types import MAX_ARRAY_DIMS, MAX_GRID_DIMS, ArrayType, Scalar

BLOCK_ALIGN_BYTES = 8
POINTER_BYTES = 8

# struct Grid { int64_t dims[8]; int64_t* status; uint64_t shared; AddLog* log; uint64_t own; }
GRID_STATUS_OFFSET = 8 * MAX_GRID_DIMS
GRID_SHARED_OFFSET = GRID_STATUS_OFFSET + 8
GRID_LOG_OFFSET = GRID_SHARED_OFFSET + 8
GRID_OWN_OFFSET = GRID_LOG_OFFSET + POINTER_BYTES
GRID_BYTES = GRID_OWN_OFFSET + 8
# struct AddLog { AddRecord* next; AddRecord* end; void (*drain)(AddLog*); }
LOG_END_OFFSET = 8
LOG_DRAIN_OFFSET = 16
# struct AddRecord { uintptr_t target; float or double value; }, 1 added to targets of doubles.
RECORD_VALUE_OFFSET = 8
RECORD_BYTES = 16
# Partial sums of a chunk: the index along the last axis of the grid modulo this selects one.
PARTIAL_SUMS = 64
STATUS_OK = 0
STATUS_OUT_OF_MEMORY = 1
# Of the first assertion of the kernel; the next ones follow in program order.
STATUS_FIRST_ASSERTION = 16
# The status, and what a check tells: at most a launch index, that of a component of an element in
# an array with axes of a batch in front, and two floats.
STATUS_WORDS = 1 + MAX_GRID_DIMS + (MAX_GRID_DIMS + MAX_ARRAY_DIMS + 2) + 2


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter in the argument block, ``offset`` bytes from its start."""

    offset: int
    type: Scalar | ArrayType

    def shape_offset(self, axis: int) -> int:
        """Offset of the extent of array axis ``axis``."""
        return self.offset + POINTER_BYTES + 8 * axis

    def stride_offset(self, axis: int) -> int:
        """Offset of the stride in bytes of array axis ``axis``."""
        assert isinstance(self.type, ArrayType)
        return self.shape_offset(self.type.ndim + axis)


def layout(params: Sequence[Var]) -> tuple[tuple[Field, ...], int]:
    """The fields of the argument block along ``params``, and its size in bytes."""
    fields: list[Field] = []
    end = 0
    for param in params:
        type_ = param.type
        assert isinstance(type_, Scalar | ArrayType)
        if isinstance(type_, ArrayType):
            size, align = POINTER_BYTES + 16 * type_.ndim, POINTER_BYTES
        else:
            size = align = type_.size_bytes
        offset = aligned(end, align)
        fields.append(Field(offset, type_))
        end = offset + size
    return tuple(fields), aligned(end, BLOCK_ALIGN_BYTES)


def aligned(offset: int, align: int) -> int:
    """The first multiple of ``align`` from ``offset`` on."""
    return -(-offset // align) * align
