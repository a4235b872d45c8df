"""The memory of kept rows (``analysis/kept_rows.py``): one row for each thread of a gang."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.codegen.analysis.kept_rows import KeptRows
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter
from kernelcore.codegen.llvm.stacks import private_memory
from kernelcore.ir.core import Var
from kernelcore.language.types import ArrayType


def make_rows(
    e: Emitter, kept: KeptRows, lanes: int, is_packed: str
) -> tuple[str, Mapping[Var, str]]:
    """Make the memory of ``kept`` for all gangs of the call, if the arrays are packed.

    Args:
        e: Emitter, with the arguments of the kernel bound.
        kept: The kernel that keeps values.
        lanes: How many threads a gang has that keeps them.
        is_packed: Whether the arrays are packed, as i1.

    Returns:
        Whether they are, and there is memory, as i1; and the address for every row.
    """
    before, make, made = e.block, e.label("make_rows"), e.label("rows_made")
    e.branch(is_packed, make, made)
    e.start_block(make)
    has_memory, found = "true", dict[Var, str]()
    for row in kept.rows:
        size_bytes = e.op(f"mul i64 {_row_bytes(e, kept, row)}, {lanes}")
        found[row] = private_memory(e, size_bytes)
        has_memory = e.op(f"and i1 {has_memory}, {e.op(f'icmp ne ptr {found[row]}, null')}")
    end = e.block
    e.jump_into(made)
    is_possible = e.phi("i1", ("false", before), (has_memory, end))
    return is_possible, {
        row: e.phi("ptr", ("null", before), (data, end)) for row, data in found.items()
    }


def bind_rows(e: Emitter, kept: KeptRows, memory: Mapping[Var, str]) -> None:
    """Bind the rows of ``kept``, which have their ``memory``, for the gang at ``e.point``."""
    first = e.wide_indices[e.point[-1]]
    for row, start in memory.items():
        assert isinstance(row.type, ArrayType)
        row_bytes, outer = _row_bytes(e, kept, row), row.type.ndim - 2
        behind = e.op(f"sub i64 0, {e.op(f'mul i64 {first}, {row_bytes}')}")
        # Where the row of the launch index 0 would be.
        data = e.op(f"getelementptr i8, ptr {start}, i64 {behind}")
        shape = (*("1",) * outer, str(e.gang), _length(e, kept))
        strides = (*("0",) * outer, row_bytes, str(row.type.dtype.size_bytes))
        e.bind(row, ArrayValue(data, shape, strides))


def _row_bytes(e: Emitter, kept: KeptRows, row: Var) -> str:
    assert isinstance(row.type, ArrayType)
    return e.op(f"mul i64 {_length(e, kept)}, {row.type.dtype.size_bytes}")


def _length(e: Emitter, kept: KeptRows) -> str:
    return e.array(kept.extent.array).shape[kept.extent.axis]
