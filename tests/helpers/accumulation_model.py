"""The order in which launches add, in NumPy: what a sum is, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

INLINE_POINTS, MAX_CHUNK_POINTS, TARGET_CHUNKS, PARTIAL_SUMS = 256, 16384, 64, 64
TILE_ROWS, FEWEST_POINTS_OF_ROW, MOST_GROWTH = 8, 64, 4
MAX_SECTIONS, FEWEST_CHUNKS, ADDITIONS_PER_ELEMENT = 8, 4, 8
FEWEST_COPYING_CHUNKS = 16


def chunks(total: int, row: int = 1, copied: int = 0) -> Iterator[tuple[int, int]]:
    """The ranges of points that a launch over ``total``, in rows of ``row``, is cut into.

    Points add once to an array of ``copied`` elements, which each range has a copy of.
    """
    size = total
    if total > INLINE_POINTS:
        even = -(-total // TARGET_CHUNKS)
        size = min(max(-(-even // 64) * 64, INLINE_POINTS), MAX_CHUNK_POINTS)
        band = TILE_ROWS * row
        if row >= FEWEST_POINTS_OF_ROW and band <= MOST_GROWTH * size:
            size = -(-size // band) * band
        if copied <= size:
            paying = min(ADDITIONS_PER_ELEMENT * copied, total // FEWEST_COPYING_CHUNKS)
            size = max(size, paying // size * size)
    for begin in range(0, total, size):
        yield begin, min(begin + size, total)


def sections(total: int, elements: int, weight: int = 1) -> Iterator[tuple[int, int]]:
    """The ranges of points of which each adds to its own copy of an array of ``elements``."""
    cut = list(chunks(total))
    most = min(MAX_SECTIONS, len(cut) // FEWEST_CHUNKS)
    count = max(min(most, weight * total // ADDITIONS_PER_ELEMENT // elements + 1), 1)
    for k in range(count):
        yield cut[len(cut) * k // count][0], cut[len(cut) * (k + 1) // count - 1][1]


def tree_total(values: np.ndarray, last_indices: np.ndarray) -> np.floating:
    """The sum of a chunk's ``values`` by 64 partial sums, chosen by the last launch index."""
    sums = np.full(PARTIAL_SUMS, -0.0, values.dtype)
    np.add.at(sums, last_indices % PARTIAL_SUMS, values)
    while len(sums) > 1:
        half = len(sums) // 2
        sums = sums[:half] + sums[half:]
    return sums[0]


def add_partial(start: np.floating, values: np.ndarray, last_extent: int) -> np.floating:
    """``start`` with one value per point added to it, where all points share the element."""
    found = start
    for begin, end in chunks(len(values), last_extent):
        found = found + tree_total(values[begin:end], np.arange(begin, end) % last_extent)
    return found


def add_in_turn(target: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    """Add one value per point to ``target``: one point after the other in every section."""
    _add_by_copies(target, indices, values, sections(len(values), len(target)))


def add_by_copies(target: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    """Add one value per point to ``target``: one point after the other in every chunk."""
    _add_by_copies(target, indices, values, chunks(len(values), copied=len(target)))


def _add_by_copies(
    target: np.ndarray, indices: np.ndarray, values: np.ndarray, parts: Iterable[tuple[int, int]]
) -> None:
    """All parts but the first add to a copy, and these are added in order."""
    for begin, end in parts:
        into = target if begin == 0 else np.full_like(target, -0.0)
        np.add.at(into, indices[begin:end], values[begin:end])
        if begin:
            target += into
