"""The memory of kept rows (``analysis/kept_rows.py``): one row for each thread of a gang."""

from __future__ import annotations

from kernelcore.codegen.analysis.kept_rows import KeptRows
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter
from kernelcore.codegen.llvm.stacks import private_memory
from kernelcore.language.types import ArrayType


def bind_rows(e: Emitter, kept: KeptRows) -> None:
    """Bind the rows of ``kept`` for the gang at ``e.point``; its other parameters are bound."""
    count = e.array(kept.extent.array).shape[kept.extent.axis]
    first = e.wide_indices[e.point[-1]]
    for row in kept.rows:
        assert isinstance(row.type, ArrayType)
        size_bytes = row.type.dtype.size_bytes
        row_bytes = e.op(f"mul i64 {count}, {size_bytes}")
        start = private_memory(e, e.op(f"mul i64 {row_bytes}, {e.gang}"))
        behind = e.op(f"sub i64 0, {e.op(f'mul i64 {first}, {row_bytes}')}")
        # Where the row of the launch index 0 would be.
        data = e.op(f"getelementptr i8, ptr {start}, i64 {behind}")
        outer = row.type.ndim - 2
        strides = (*("0",) * outer, row_bytes, str(size_bytes))
        e.bind(row, ArrayValue(data, (*("1",) * outer, str(e.gang), count), strides))
