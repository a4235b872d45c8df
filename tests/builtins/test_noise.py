"""Noise: values of the peer, lattice, range, periods, derivatives and divergence."""

# Overloads of one name: a type checker sees the last one.
# pyright: reportCallIssue=false

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins.curlnoise import curlnoise
from kernelcore.builtins.noise import noise, pnoise
from kernelcore.builtins.random import rand_init
from kernelcore.language.composite_types import vec2, vec3, vec4
from kernelcore.language.types import uint32
from tests.helpers.library_harness import run_both, slopes


@kc.kernel
def _noises(at: kc.array(dtype=vec4), out: kc.array(dtype=float, ndim=2)):
    i = kc.tid()
    state = rand_init(7)
    p = at[i]
    out[i, 0] = noise(state, p[0])
    out[i, 1] = noise(state, vec2(p[0], p[1]))
    out[i, 2] = noise(state, vec3(p[0], p[1], p[2]))
    out[i, 3] = noise(state, p)


@kc.kernel
def _periodic(at: kc.array(dtype=vec4), out: kc.array(dtype=float, ndim=2)):
    i = kc.tid()
    state = rand_init(7)
    p = at[i]
    out[i, 0] = pnoise(state, p[0], 3)
    out[i, 1] = pnoise(state, vec2(p[0], p[1]), 3, 4)
    out[i, 2] = pnoise(state, vec3(p[0], p[1], p[2]), 3, 4, 5)
    out[i, 3] = pnoise(state, p, 3, 4, 5, 6)


def _points(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-5, 5, (count, 4)).astype(np.float32)


def _values(kernel, at):
    out = np.zeros((len(at), 4), np.float32)
    kc.launch(kernel, dim=len(at), inputs=[at, out])
    return out


# Of NVIDIA Warp 1.19 on a CPU, with the state rand_init(7).
PEER_POINTS = [
    [-1.9248329401016235, -1.2587311267852783, 1.9526691436767578, -1.8314988613128662],
    [0.29655325412750244, 1.51320219039917, 2.8573532104492188, -2.0646157264709473],
]
PEER_NOISE = [
    [0.005930756684392691, -0.3203693628311157, -0.1569395661354065, 0.09753269702196121],
    [0.08038818836212158, -0.12219488620758057, 0.10325831174850464, 0.30214330554008484],
]
PEER_CURL = [
    [-1.2677249908447266, -0.14588482677936554],
    [-1.0531353950500488, -1.0000033378601074],
]
PEER_OCTAVES = [
    [-1.1391957998275757, -0.2669309079647064],
    [-1.5450618267059326, -1.078547716140747],
]


def test_noise_is_that_of_the_peer():
    found = _values(_noises, np.array(PEER_POINTS, np.float32))
    np.testing.assert_allclose(found, PEER_NOISE, rtol=0, atol=4 * 2.0**-24)


def test_noise_is_zero_on_the_lattice_and_below_one():
    lattice = np.stack(np.meshgrid(*[np.arange(-2, 3)] * 4), -1).reshape(-1, 4)
    assert not np.any(_values(_noises, lattice.astype(np.float32)))
    found = _values(_noises, _points(20000))
    assert np.all(np.abs(found) < 1.0)
    assert np.all(found.std(0) > 0.05)
    assert np.all(np.abs(found.mean(0)) < 0.02)


def test_machine_code_agrees_with_the_interpreter():
    at = _points(3)
    for kernel in (_noises, _periodic):
        run_both(kernel, [at, np.zeros((3, 4), np.float32)], 3)
    run_both(_curls, [at, *(np.zeros((3, n), np.float32) for n in (2, 2, 3, 3))], 3)


def test_periodic_noise_repeats_and_equals_noise_inside_its_first_period():
    # Multiples of 1/64 stay exact when periods are added.
    rng = np.random.default_rng(3)
    at = (rng.integers(-300, 300, (2000, 4)) / 64).astype(np.float32)
    found = _values(_periodic, at)
    for axis, period in enumerate((3, 4, 5, 6)):
        for turns in (1, -2):
            shifted = at.copy()
            shifted[:, axis] += period * turns
            np.testing.assert_array_equal(_values(_periodic, shifted), found)
    inside = (rng.integers(0, 128, (500, 4)) / 64).astype(np.float32)
    np.testing.assert_array_equal(_values(_periodic, inside), _values(_noises, inside))


@kc.kernel
def _noise(x: kc.array(dtype=Any), out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = noise(rand_init(3), x[i])


POINT_SHAPES = ((float, ()), (vec2, (2,)), (vec3, (3,)), (vec4, (4,)))


def _noise_of(point):
    return _noise.overload([kc.array(dtype=point), kc.array(dtype=float)])


@kc.kernel
def _pnoise3(x: kc.array(dtype=vec3), out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = pnoise(rand_init(3), x[i], 2, 3, 4)


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        *((_noise_of(p), shape) for p, shape in POINT_SHAPES),
        (_pnoise3, (3,)),
    ],
)
def test_derivative_is_that_of_differences(kernel, shape):
    rng = np.random.default_rng(5)
    # Steps of 2**-7 from multiples of it: exact, and within one cell.
    cells = rng.integers(-4, 4, (20, *shape))
    x = (cells + rng.integers(8, 120, (20, *shape)) / 128).astype(np.float32)
    found, expected = slopes(kernel, x, 2.0**-7)
    # The differences are wrong by the third derivative, below 60, times step**2 / 6.
    np.testing.assert_allclose(found, expected, atol=60 * 2.0**-14 / 6 + 1e-4)


@kc.kernel
def _curls(
    at: kc.array(dtype=vec4),
    plane: kc.array(dtype=vec2),
    octaves: kc.array(dtype=vec2),
    space: kc.array(dtype=vec3),
    moving: kc.array(dtype=vec3),
):
    i = kc.tid()
    state = rand_init(7)
    p = at[i]
    plane[i] = curlnoise(state, vec2(p[0], p[1]))
    octaves[i] = curlnoise(state, vec2(p[0], p[1]), uint32(3), 1.7, 0.6)
    space[i] = curlnoise(state, vec3(p[0], p[1], p[2]))
    moving[i] = curlnoise(state, p, uint32(2))


def _curl_values(at):
    fields = [np.zeros((len(at), n), np.float32) for n in (2, 2, 3, 3)]
    kc.launch(_curls, dim=len(at), inputs=[at, *fields])
    return fields


def test_curl_noise_of_the_plane_is_that_of_the_peer():
    plane, octaves, _, _ = _curl_values(np.array(PEER_POINTS, np.float32))
    np.testing.assert_allclose(plane, PEER_CURL, atol=2e-6)
    np.testing.assert_allclose(octaves, PEER_OCTAVES, atol=2e-6)


def test_curl_noise_has_no_divergence():
    rng = np.random.default_rng(6)
    step = 2.0**-7
    at = (rng.integers(-4, 4, (200, 4)) + rng.integers(8, 120, (200, 4)) / 128).astype(np.float32)
    divergence = [np.zeros(200) for _ in range(4)]
    for axis in range(3):
        offset = np.zeros(4, np.float32)
        offset[axis] = step
        ahead, behind = _curl_values(at + offset), _curl_values(at - offset)
        for total, one, other in zip(divergence, ahead, behind, strict=True):
            if axis < one.shape[1]:
                total += (one[:, axis] - other[:, axis]) / (2 * step)
    plane, _, space, _ = divergence
    # Second derivatives are of size 10; their differences, within a cell, are wrong by far less.
    for total in (plane, space):
        assert np.max(np.abs(total)) < 0.2


@pytest.mark.parametrize("kernel", [_noises, _periodic], ids=lambda kernel: kernel.name)
def test_noise_on_the_host_is_that_of_kernels(kernel):
    points = _points(20, seed=4)
    found = np.zeros((len(points), 4), np.float32)
    state = rand_init(7)
    for row, p in zip(found, points.tolist(), strict=True):
        if kernel is _noises:
            row[:] = [noise(state, x) for x in (p[0], vec2(*p[:2]), vec3(*p[:3]), vec4(*p))]
            continue
        row[0] = pnoise(state, p[0], 3)
        row[1] = pnoise(state, vec2(*p[:2]), 3, 4)
        row[2] = pnoise(state, vec3(*p[:3]), 3, 4, 5)
        row[3] = pnoise(state, vec4(*p), 3, 4, 5, 6)
    np.testing.assert_array_equal(found, _values(kernel, points))
