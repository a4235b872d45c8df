"""Kernels of users of another system run as they are and agree with NumPy."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportCallIssue=false

import numpy as np

import kernelcore as wp
from tests.helpers.warp_kernels import grids, particles, queue


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_bodies_attract_each_other():
    n = 37
    pos, vel, mass = _normal(0, n, 3), _normal(1, n, 3), np.abs(_normal(2, n)) + 0.1
    new_pos, new_vel = np.zeros_like(pos), np.zeros_like(vel)
    wp.launch(
        particles.nbody_step,
        dim=n,
        inputs=[pos, vel, mass],
        outputs=[new_pos, new_vel, 0.1, 0.01],
    )
    exact = pos.astype(float), vel.astype(float), mass.astype(float)
    expected = particles.nbody_reference(*exact, 0.1, 0.01)
    np.testing.assert_allclose(new_pos, expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(new_vel, expected[1], rtol=2e-4, atol=2e-4)


def test_fluid_has_the_density_and_forces_of_its_neighbours():
    n, h = 60, 0.5
    x = np.random.default_rng(3).uniform(0, 1, (n, 3)).astype(np.float32)
    v = _normal(4, n, 3)
    near = np.linalg.norm(x[:, None] - x[None], axis=-1) < h
    start = np.r_[0, np.cumsum(near.sum(1))].astype(np.int32)
    neighbor = np.nonzero(near)[1].astype(np.int32)
    fluid = particles.Fluid()
    fluid.h = h
    fluid.mass = 0.02
    fluid.stiffness = 3.0
    fluid.rest_density = 0.9
    fluid.viscosity = 0.1
    fluid.gravity = wp.vec3(0.0, -9.81, 0.0)
    rho, f = np.zeros(n, np.float32), np.zeros((n, 3), np.float32)
    wp.launch(particles.density_kernel, dim=n, inputs=[x, start, neighbor, fluid], outputs=[rho])
    wp.launch(
        particles.force_kernel, dim=n, inputs=[x, v, rho, start, neighbor, fluid], outputs=[f]
    )
    gravity = np.array([0, -9.81, 0])
    expected = particles.sph_reference(
        x.astype(float), v.astype(float), h, 0.02, 3.0, 0.9, 0.1, gravity
    )
    np.testing.assert_allclose(rho, expected[0], rtol=2e-5)
    np.testing.assert_allclose(f, expected[1], rtol=2e-4, atol=2e-4)


def test_cloth_falls_and_its_springs_pull():
    rows, columns = 6, 7
    index = np.arange(rows * columns).reshape(rows, columns)
    pairs = [(index[:-1], index[1:]), (index[:, :-1], index[:, 1:])]
    springs = np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])
    n = rows * columns
    grid = np.stack([*np.divmod(np.arange(n), columns), np.zeros(n)], 1)
    x = (grid + 0.1 * _normal(5, n, 3)).astype(np.float32)
    v, f = _normal(6, n, 3), np.zeros((n, 3), np.float32)
    rest = np.full(len(springs), 0.9, np.float32)
    inv_mass = np.ones(n, np.float32)
    inv_mass[:columns] = 0.0
    expected = x.astype(float), v.astype(float)
    gravity = wp.vec3(0.0, -9.8, 0.0)
    for _ in range(5):
        wp.launch(
            particles.eval_springs,
            dim=len(springs),
            inputs=[x, v, springs.astype(np.int32).ravel(), rest, 50.0, 0.5],
            outputs=[f],
        )
        wp.launch(particles.integrate, dim=n, inputs=[x, v, f, inv_mass, gravity, 0.01])
        expected = particles.cloth_reference(
            *expected, springs, rest, 50.0, 0.5, inv_mass, np.array([0, -9.8, 0]), 0.01
        )
    np.testing.assert_allclose(x, expected[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(v, expected[1], rtol=1e-4, atol=1e-3)
    assert not np.any(f)


def test_waves_spread_and_are_absorbed():
    shape, c, width, source = (24, 30), 0.5, 5, (11, 14)
    eps = np.ones(shape, np.float32)
    eps[14:18] = 2.25
    ex, ey, hz = (np.zeros(shape, np.float32) for _ in range(3))
    times = [0.2 * k for k in range(60)]
    for t in times:
        wp.launch(grids.update_h, dim=shape, inputs=[ex, ey, hz, c, width])
        wp.launch(grids.add_source, dim=1, inputs=[hz, *source, t])
        wp.launch(grids.update_e, dim=shape, inputs=[ex, ey, hz, eps, c])
    expected = grids.fdtd_reference(shape, eps.astype(float), c, width, source, times)
    for found, want in zip((ex, ey, hz), expected, strict=True):
        np.testing.assert_allclose(found, want, atol=1e-5)
    assert np.abs(hz).max() > 1e-3


def test_rays_hit_the_spheres_of_the_reference():
    width, height, angle = 40, 30, 0.3
    rotation = np.array(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )
    eye = np.array([1.2, 0.6, 3.5])
    light = np.array([0.48, 0.8, 0.36])
    camera = grids.Camera()
    camera.eye = wp.vec3(*eye.tolist())
    camera.rotation = wp.mat33(*rotation.ravel().tolist())
    camera.focal = 1.1
    camera.width = width
    camera.height = height
    pixels, depth = np.zeros((height, width, 3), np.float32), np.zeros((height, width), np.float32)
    wp.launch(
        grids.render,
        dim=(height, width),
        inputs=[camera, wp.vec3(*light.tolist())],
        outputs=[pixels, depth],
    )
    color, far = grids.render_reference(eye, rotation, 1.1, width, height, light)
    # Rays that graze an edge may end on either side of it.
    same = np.isclose(depth, far, atol=5e-3) & np.isclose(pixels, color, atol=5e-2).all(-1)
    assert same.mean() > 0.97
    assert (pixels[same] != [0.1, 0.2, 0.3]).any()


def test_each_item_of_the_queue_is_taken_once():
    count, threshold = 3000, 100
    items, longest = queue.queue_reference(count, threshold)
    capacity = len(items) + 7
    head, next_item, best = (np.zeros(1, np.int32) for _ in range(3))
    slots, taken = np.zeros(capacity, np.int32), np.zeros(capacity, np.int32)
    owner = np.full(capacity, -1, np.int32)
    wp.launch(queue.produce, dim=count, inputs=[threshold, head, slots])
    assert head[0] == len(items)
    np.testing.assert_array_equal(np.sort(slots[: len(items)]), items)
    workers = 16
    wp.launch(queue.consume, dim=workers, inputs=[head, next_item, slots, owner, taken, best])
    np.testing.assert_array_equal(taken, np.arange(capacity) < len(items))
    assert next_item[0] == len(items) + workers
    assert best[0] == longest
    assert np.all((owner[: len(items)] >= 0) & (owner[: len(items)] < workers))
