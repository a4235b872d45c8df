"""Geometric queries, as programs of Warp call them."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.compat.programs import program

RNG = np.random.default_rng(4)
# Corners with small integers as coordinates: many triangles touch, and many lie in one plane.
TRIANGLES = np.concatenate(
    [
        RNG.integers(-2, 3, (600, 6, 3)),
        RNG.integers(-3, 4, (300, 6, 3)) * (1, 1, 0),
        RNG.integers(-3, 4, (300, 6, 3)) * (1, 0, 1),
    ]
).astype(np.float32)
SEGMENTS = RNG.integers(-2, 3, (400, 4, 3)).astype(np.float32)
SMOOTH = RNG.normal(size=(64, 4, 3)).astype(np.float32)


@program
def triangles_that_intersect(wp):
    @wp.kernel
    def tested(corners: wp.array2d(dtype=wp.vec3), out: wp.array2d(dtype=int)):
        i = wp.tid()
        a, b, c = corners[i, 0], corners[i, 1], corners[i, 2]
        d, e, f = corners[i, 3], corners[i, 4], corners[i, 5]
        out[i, 0] = wp.intersect_tri_tri(a, b, c, d, e, f)
        out[i, 1] = wp.intersect_tri_tri(
            wp.vec3d(a), wp.vec3d(b), wp.vec3d(c), wp.vec3d(d), wp.vec3d(e), wp.vec3d(f)
        )

    out = wp.zeros((len(TRIANGLES), 2), dtype=int, device="cpu")
    corners = wp.array(TRIANGLES, dtype=wp.vec3, device="cpu")
    wp.launch(tested, len(TRIANGLES), [corners], [out], device="cpu")
    return out.numpy()


@program
def edges_at_their_closest(wp):
    @wp.kernel
    def measured(ends: wp.array2d(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        out[i] = wp.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], 1.0e-6)

    out = wp.zeros(len(SEGMENTS), dtype=wp.vec3, device="cpu")
    ends = wp.array(SEGMENTS, dtype=wp.vec3, device="cpu")
    wp.launch(measured, len(SEGMENTS), [ends], [out], device="cpu")
    return out.numpy()


@program
def gradients_of_the_distance_of_edges(wp):
    @wp.kernel
    def measured(ends: wp.array2d(dtype=wp.vec3), loss: wp.array(dtype=float)):
        i = wp.tid()
        found = wp.closest_point_edge_edge(ends[i, 0], ends[i, 1], ends[i, 2], ends[i, 3], 1.0e-6)
        wp.atomic_add(loss, 0, found[2] + 0.5 * found[0] - found[1])

    ends = wp.array(SMOOTH, dtype=wp.vec3, requires_grad=True, device="cpu")
    loss = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        wp.launch(measured, len(SMOOTH), [ends], [loss], device="cpu")
    tape.backward(loss)
    gradient = ends.grad.numpy()
    # Terms that cancel leave a rounding error, or none.
    return loss.numpy(), np.where(np.abs(gradient) < 1e-6, 0.0, gradient)
