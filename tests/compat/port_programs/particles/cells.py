"""Sorting of particles into cells."""

import numpy as np
import warp as wp
from particles.common import CELLS, cell_of, half, wrap, wrap_unsigned


@wp.kernel
def count_cells(x: wp.array(dtype=wp.vec3), width: float, count: wp.array(dtype=int)):
    p = x[wp.tid()]
    i = wrap(cell_of(p[0], width), CELLS)
    j = wrap(cell_of(p.y, width), CELLS)
    wp.atomic_add(count, i * CELLS + j, 1)


@wp.kernel
def offsets_of(count: wp.array(dtype=int), start: wp.array(dtype=int)):
    total = int(0)
    for c in range(CELLS * CELLS):
        start[c] = total
        total += count[c]


@wp.kernel
def scatter(cell: wp.array(dtype=int), start: wp.array(dtype=int), slot: wp.array(dtype=int)):
    i = wp.tid()
    slot[wp.atomic_add(start, cell[i], 1)] = i


@wp.kernel
def row_and_column(flat: wp.array(dtype=int), row: wp.array(dtype=int), column: wp.array(dtype=int)):
    t = wp.tid()
    row[t] = flat[t] / CELLS  # port: differs /
    column[t] = flat[t] % CELLS  # port: differs %


@wp.kernel
def unravel(width: int, ij: wp.array(dtype=wp.vec2i)):
    t = wp.tid()
    ij[t] = wp.vec2i(t / width, t - (t / width) * width)  # port: differs /


@wp.kernel
def unravel_tid(image: wp.array2d(dtype=float), flat: wp.array(dtype=float)):
    t = wp.tid()
    n = image.shape[1]
    flat[t] = image[t // n, t % n]


@wp.kernel
def checker(color: wp.array2d(dtype=int)):
    i, j = wp.tid()
    color[i, j] = (i + j) % 2


@wp.kernel
def half_of_each(n: wp.array(dtype=int), out: wp.array(dtype=int)):
    t = wp.tid()
    out[t] = half(n[t]) % 3  # port: differs %


@wp.kernel
def hash_cells(ij: wp.array(dtype=wp.vec2i), h: wp.array(dtype=wp.uint32)):
    t = wp.tid()
    k = wp.uint32(ij[t][0]) * wp.uint32(73856093) ^ wp.uint32(ij[t][1]) * wp.uint32(19349663)
    h[t] = wrap_unsigned(k, wp.uint32(1024))


@wp.kernel
def first_in_cell(sorted: wp.array(dtype=int), cell: wp.array(dtype=int), first: wp.array(dtype=int)):
    c = wp.tid()
    first[c] = wp.lower_bound(sorted, cell[c])  # port: differs lower_bound


def build(x: np.ndarray, width: float) -> wp.array:
    points = wp.array(x, dtype=wp.vec3, device="cpu")
    count = wp.zeros(CELLS * CELLS, dtype=int, device="cpu")
    wp.launch(count_cells, dim=len(points), inputs=[points, width], outputs=[count], device="cpu")
    start = wp.zeros_like(count)
    wp.utils.array_scan(count, start, inclusive=False)
    return start
