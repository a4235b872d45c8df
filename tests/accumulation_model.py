"""The order in which launches add, in NumPy: what a sum is, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

INLINE_POINTS, MAX_CHUNK_POINTS, TARGET_CHUNKS, PARTIAL_SUMS = 256, 16384, 64, 64


def chunks(total: int) -> Iterator[tuple[int, int]]:
    """The ranges of points that a launch over ``total`` points is cut into."""
    size = total
    if total > INLINE_POINTS:
        even = -(-total // TARGET_CHUNKS)
        size = min(max(-(-even // 64) * 64, INLINE_POINTS), MAX_CHUNK_POINTS)
    for begin in range(0, total, size):
        yield begin, min(begin + size, total)


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
    for begin, end in chunks(len(values)):
        found = found + tree_total(values[begin:end], np.arange(begin, end) % last_extent)
    return found


def add_in_turn(target: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    """Add one value per point to ``target``, one point after the other."""
    np.add.at(target, indices, values)


def add_by_copies(target: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    """As ``add_in_turn``, but every chunk but the first adds to a copy, which is added then."""
    for begin, end in chunks(len(values)):
        into = target if begin == 0 else np.full_like(target, -0.0)
        np.add.at(into, indices[begin:end], values[begin:end])
        if begin:
            target += into
