"""Values of several components, as one vector each or as one row per lane; transposes."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen.llvm.emitter import Emitter
from kernelcore.codegen.simd.interleaved import shuffled

# What processors shuffle at once: four elements of 32 bits.
ROW = 4
# The part of a register within which every processor shuffles.
BLOCK_BYTES = 16


def rows_of(e: Emitter, element: str, columns: Sequence[str]) -> list[str]:
    """One row of ``ROW`` elements per lane, of up to as many columns of ``e.gang`` lanes."""
    blocks = _transposed(e, element, [*columns, *[columns[0]] * (ROW - len(columns))])
    rows = [
        shuffled(e, element, blocks[lane % ROW], e.gang, _block(lane // ROW))
        for lane in range(e.gang)
    ]
    if element != "float":
        return rows
    # LLVM would make rows of which one element is not used by more shuffles.
    row_type = f"<{ROW} x float>"
    name = f"@llvm.arithmetic.fence.v{ROW}f32"
    e.declare(f"declare {row_type} {name}({row_type})")
    return [e.op(f"call {row_type} {name}({row_type} {row})") for row in rows]


def columns_of(e: Emitter, element: str, rows: Sequence[str]) -> list[str]:
    """``ROW`` columns of ``e.gang`` lanes, of one row per lane."""
    return _transposed(
        e, element, [concatenated(e, element, rows[at::ROW], ROW) for at in range(ROW)]
    )


def columns_of_pairs(e: Emitter, element: str, pairs: Sequence[str]) -> list[str]:
    """Two columns of ``e.gang`` lanes, of one pair per lane."""
    x, y = (
        concatenated(e, element, [pairs[at + k] for at in range(0, e.gang, ROW) for k in half], 2)
        for half in ((0, 1), (2, 3))
    )
    return [_paired(e, element, x, y, order) for order in ((0, 2, 4, 6), (1, 3, 5, 7))]


def transposed(e: Emitter, element: str, size_bytes: int, rows: Sequence[str]) -> list[str]:
    """The columns of the square matrix of ``rows``, whose elements have ``size_bytes``.

    Blocks of 16 bytes are transposed first, then the matrix of blocks: processors shuffle within
    blocks, and whole blocks, at once.
    """
    size = min(len(rows), BLOCK_BYTES // size_bytes)
    found = list(rows)
    for first in range(0, len(rows), size):
        group = slice(first, first + size)
        found[group] = _blocks_transposed(e, element, found[group], len(rows))
    for place in range(size):
        group = slice(place, None, size)
        found[group] = _transposed_by_blocks(e, element, found[group], size, len(rows))
    return found


def _blocks_transposed(e: Emitter, element: str, rows: Sequence[str], lanes: int) -> list[str]:
    """``rows`` of ``lanes`` elements; their blocks of as many elements as rows are transposed."""
    size, half = len(rows), len(rows) // 2
    orders = [
        [
            at + k
            for block in range(0, lanes, size)
            for at in range(block, block + half)
            for k in (first, first + lanes)
        ]
        for first in (0, half)
    ]
    found = list(rows)
    for _ in range(size.bit_length() - 1):
        pairs = zip(found[:half], found[half:], strict=True)
        found = [shuffled(e, element, x, lanes, order, y) for x, y in pairs for order in orders]
    return found


def _transposed_by_blocks(
    e: Emitter, element: str, rows: Sequence[str], size: int, lanes: int
) -> list[str]:
    """The transpose of a matrix whose elements are the blocks of ``size`` elements of ``rows``."""
    if len(rows) == 1:
        return list(rows)
    found = [""] * len(rows)
    for first in (0, 1):
        blocks = range(first * size, 2 * lanes, 2 * size)
        order = [at for block in blocks for at in range(block, block + size)]
        pairs = zip(rows[::2], rows[1::2], strict=True)
        half = [shuffled(e, element, x, lanes, order, y) for x, y in pairs]
        found[first::2] = _transposed_by_blocks(e, element, half, size, lanes)
    return found


def concatenated(e: Emitter, element: str, parts: Sequence[str], size: int) -> str:
    """Vectors of ``size`` elements, a power of two of them, one behind the other."""
    while len(parts) > 1:
        parts = [
            shuffled(e, element, x, size, range(2 * size), y)
            for x, y in zip(parts[::2], parts[1::2], strict=True)
        ]
        size *= 2
    return parts[0]


def _transposed(e: Emitter, element: str, blocks: Sequence[str]) -> list[str]:
    """Four vectors whose blocks of four elements, as the rows of a matrix, are transposed."""
    low, high, first, last = (0, 4, 1, 5), (2, 6, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)
    a, b, c, d = blocks
    found: list[str] = []
    for half in (low, high):
        ab, cd = _paired(e, element, a, b, half), _paired(e, element, c, d, half)
        found += [_paired(e, element, ab, cd, order) for order in (first, last)]
    return found


def _paired(e: Emitter, element: str, x: str, y: str, order: Sequence[int]) -> str:
    """In every block of four the elements ``order`` of that of ``x`` and then that of ``y``."""
    lanes = [
        start + k if k < ROW else e.gang + start + k - ROW
        for start in range(0, e.gang, ROW)
        for k in order
    ]
    return shuffled(e, element, x, e.gang, lanes, y)


def _block(at: int) -> range:
    return range(ROW * at, ROW * at + ROW)
