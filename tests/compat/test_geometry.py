"""Geometric queries of Warp against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
import kernelcore.compat.warp as wp
from tests.compat.geometry_programs import SEGMENTS, TRIANGLES, triangles_that_intersect


def separated(one: Any, two: Any) -> bool:
    """Whether a plane has two triangles on different sides, and touches neither: exact.

    It suffices to try the normals of both, the products of their edges, and the normals of edges
    in the plane of a triangle (Gottschalk, Lin and Manocha, OBBTree, 1996).
    """
    edges = [np.roll(t, -1, 0) - t for t in (one, two)]
    normals = [np.cross(e[0], e[1]) for e in edges]
    axes = [*normals, *(np.cross(a, b) for a, b in itertools.product(*edges))]
    axes += [np.cross(n, e) for n, three in zip(normals, edges, strict=True) for e in three]
    for axis in axes:
        x, y = one @ axis, two @ axis
        if x.max() < y.min() or y.max() < x.min():
            return True
    return False


def test_triangles_intersect_unless_a_plane_separates_them() -> None:
    found: Any = triangles_that_intersect(wp)
    corners = TRIANGLES.astype(int)
    checked = 0
    for six, (single, double) in zip(corners, found.tolist(), strict=True):
        one, two = six[:3], six[3:]
        if all(np.cross(t[1] - t[0], t[2] - t[0]).any() for t in (one, two)):
            assert (single == 1, double == 1) == (not separated(one, two),) * 2
            checked += 1
    assert checked > 1000
    assert 200 < found[:, 0].sum() < 1000


@kc.kernel
def edges(ends: kc.array2d[kc.vec3], out: kc.array[kc.vec3]):
    i = kc.tid()
    out[i] = wp.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], 1.0e-6)


@kc.kernel
def distances(ends: kc.array2d[kc.vec3], out: kc.array[float]):
    i = kc.tid()
    found = wp.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], 1.0e-6)
    out[i] = found[2]


def test_no_points_of_two_segments_are_closer() -> None:
    out = np.zeros((len(SEGMENTS), 3), np.float32)
    kc.launch(edges, len(SEGMENTS), [SEGMENTS, out])
    weights = np.linspace(0.0, 1.0, 61)
    for (p1, q1, p2, q2), (s, t, distance) in zip(SEGMENTS.astype(float), out, strict=True):
        assert 0 <= s <= 1
        assert 0 <= t <= 1
        gap = p2 + t * (q2 - p2) - (p1 + s * (q1 - p1))
        assert np.linalg.norm(gap) == pytest.approx(distance, rel=1e-6, abs=1e-6)
        one = p1 + weights[:, None] * (q1 - p1)
        two = p2 + weights[:, None] * (q2 - p2)
        least = np.linalg.norm(one[:, None] - two[None], axis=-1).min()
        # A grid of points misses the closest ones by a step at most.
        step = (np.linalg.norm(q1 - p1) + np.linalg.norm(q2 - p2)) / 120
        assert distance - 1e-6 <= least <= distance + step + 1e-6


def test_the_derivative_of_the_distance_is_that_of_differences() -> None:
    ends = np.random.default_rng(5).normal(size=(16, 4, 3)).astype(np.float32)
    out = np.zeros(16, np.float32)
    assert kc.gradcheck(distances, 16, [ends], [out])
