"""Nearest neighbours
==================

The k nearest neighbours of points in a plane, by cells of a grid.

Points are sorted by cell. Each looks at rings of cells around its own and keeps its neighbours in
a vector, sorted by insertion, until a ring is farther away than the last of them.
Source: Bentley, Weide, Yao, "Optimal Expected-Time Algorithms for Closest Point Problems", 1980.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import kernelcore as kc

K = 8
Points = kc.array[kc.vec2]
Ints = kc.array[int]
Table = kc.array2d[float]
Indices = kc.array2d[int]
Distances, Names = kc.types.vector(K, float), kc.types.vector(K, int)


@kc.func
def cell_of(x: float, cells: int) -> int:
    return kc.clamp(int(x * float(cells)), 0, cells - 1)


@kc.op
@kc.kernel
def cells_of(points: Points, cells: int, cell: Ints):
    i = kc.tid()
    cell[i] = cell_of(points[i].y, cells) * cells + cell_of(points[i].x, cells)


@kc.op(launch_dims="points", output_dims=("points.shape[0]", K))
@kc.kernel
def nearest(points: Points, order: Ints, first: Ints, cells: int, distance: Table, who: Indices):
    i = kc.tid()
    p = points[i]
    row, column = cell_of(p.y, cells), cell_of(p.x, cells)
    found, index = Distances(kc.inf), Names(-1)
    for ring in range(cells):
        border = float(ring - 1) / float(cells)  # Points of this ring are farther away.
        if ring > 1 and border * border > found[K - 1]:
            break
        for r in range(kc.max(row - ring, 0), kc.min(row + ring + 1, cells)):
            for c in range(kc.max(column - ring, 0), kc.min(column + ring + 1, cells)):
                if kc.max(kc.abs(r - row), kc.abs(c - column)) == ring:
                    for e in range(first[r * cells + c], first[r * cells + c + 1]):
                        q = order[e]
                        d = kc.length_sq(points[q] - p)
                        if q != i and d < found[K - 1]:
                            m = K - 1
                            while m > 0 and found[m - 1] > d:
                                found[m], index[m] = found[m - 1], index[m - 1]
                                m -= 1
                            found[m], index[m] = d, q
    for k in range(K):
        distance[i, k] = kc.sqrt(found[k])
        who[i, k] = index[k]


def main(small: bool) -> None:
    count = 500 if small else 50000
    rng = np.random.default_rng(0)
    turn = rng.uniform(size=(count, 1)) ** 0.5
    angle = 9.0 * turn + np.pi * rng.integers(2, size=(count, 1))
    place = 0.5 + 0.42 * turn * np.hstack([np.cos(angle), np.sin(angle)])
    points = (place + rng.normal(0.0, 0.02, (count, 2))).clip(0.0, 1.0).astype(np.float32)
    cells = max(1, int((count / 4) ** 0.5))  # so that a cell has four points on average
    cell = cells_of(points, cells)
    order = np.argsort(cell, kind="stable").astype(np.int32)
    first = np.searchsorted(cell[order], np.arange(cells * cells + 1)).astype(np.int32)
    distance, neighbour = nearest(points, order, first, cells)

    some = rng.choice(count, 200, replace=False)
    wanted = np.sort(((points[some, None] - points) ** 2).sum(2), 1)[:, 1 : K + 1] ** 0.5
    error = np.abs(distance[some] - wanted).max()
    print(f"{count} points: largest error {error:.1e} of distances up to {wanted.max():.3f}")

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5.6), constrained_layout=True)
    density = K / (np.pi * distance[:, -1] ** 2 * count)
    dots = left.scatter(*points.T, c=np.log10(density), s=400.0 / count**0.5, linewidths=0)
    figure.colorbar(dots, ax=left, label="log10 of the density")
    left.set(title=f"Density by the {K}th neighbour", xlabel="x", ylabel="y", aspect="equal")
    near = points - points[some[0]]
    shown = np.abs(near).max(1) < 3.0 * distance[some[0], -1]
    right.plot(*near[shown].T, ".", color="0.6", label="points")
    right.plot(*near[neighbour[some[0]]].T, "o", label=f"its {K} neighbours")
    right.plot(0.0, 0.0, "r*", markersize=14, label="a point")
    right.set(title="One point", xlabel="x from there", ylabel="y from there", aspect="equal")
    right.legend()
    figure.savefig("nearest_neighbours.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
