"""Random numbers: values of the peer for the same seeds, distributions, and what a call updates."""

# Overloads of one name: a type checker sees the last one.
# pyright: reportCallIssue=false

import math

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins import random
from kernelcore.builtins.random import (
    philox,
    philox_init,
    poisson,
    rand_init,
    randf,
    randi,
    randn,
    randu,
    sample_cdf,
    sample_triangle,
    sample_unit_cube,
    sample_unit_disk,
    sample_unit_hemisphere,
    sample_unit_hemisphere_surface,
    sample_unit_ring,
    sample_unit_sphere,
    sample_unit_sphere_surface,
    sample_unit_square,
)
from kernelcore.language.composite_types import vec2, vec3, vec3ul, vec4ui
from kernelcore.language.types import int32, uint32, uint64
from tests.helpers.library_harness import run_both

COUNT = 20000
CDF = np.array([0.1, 0.25, 0.7, 1.0], np.float32)


@kc.func
def _randi_between(state):
    return randi(state, -7, 100)


@kc.func
def _randu_between(state):
    return randu(state, uint32(7), uint32(1000))


@kc.func
def _randf_between(state):
    return randf(state, -3.0, 5.0)


@kc.func
def _few(state):
    return poisson(state, 3.5)


@kc.func
def _many(state):
    return poisson(state, 40.0)


def _sampler(draw, dtype, init=rand_init):
    """The kernel whose thread i draws from the stream (seed, i)."""

    @kc.kernel
    def sample(seed: int, out: kc.array(dtype=dtype)):
        i = kc.tid()
        state = init(seed, i)
        out[i] = draw(state)

    return sample


def _draws(draw, dtype, count, init=rand_init):
    shape = (count, *getattr(dtype, "shape", ()))
    scalar = getattr(dtype, "dtype", dtype)
    out = np.zeros(shape, scalar.numpy)
    kc.launch(_sampler(draw, dtype, init), dim=count, inputs=[42, out])
    return out


# What NVIDIA Warp 1.19 gives on a CPU for rand_init(42, i), i = 0, 1, 2.
INTEGERS = [
    (randi, int32, [-575632308, 59537738, 1898992239]),
    (_randi_between, int32, [1, 42, -5]),
    (randu, uint32, [3719334988, 59537738, 1898992239]),
    (_randu_between, uint32, [866, 444, 892]),
    (_few, uint32, [7, 0, 4]),
    (_many, uint32, [48, 48, 39]),
]
FLOATS = [
    (randf, kc.float32, [0.8659751415252686, 0.013862192630767822, 0.4421435594558716]),
    (_randf_between, kc.float32, [3.9278011322021484, -2.8891024589538574, 0.5371484756469727]),
    (randn, kc.float32, [0.21022404730319977, 0.5022704601287842, 1.1879874467849731]),
    (sample_triangle, vec2, [[0.06942212581634521, 0.17300809919834137]]),
    (sample_unit_ring, vec2, [[0.6658955216407776, -0.7460450530052185]]),
    (sample_unit_disk, vec2, [[0.36466261744499207, 0.8561520576477051]]),
    (sample_unit_square, vec2, [[0.36597514152526855, -0.31408530473709106]]),
    (
        sample_unit_cube,
        vec3,
        [[0.36597514152526855, -0.31408530473709106, 0.22961854934692383]],
    ),
    (
        sample_unit_sphere_surface,
        vec3,
        [[0.26700159907341003, 0.6268643140792847, -0.7319503426551819]],
    ),
    (sample_unit_sphere, vec3, [[0.24036937952041626, 0.5643373727798462, -0.6589415669441223]]),
    (
        sample_unit_hemisphere_surface,
        vec3,
        [[0.3883313834667206, 0.9117214679718018, 0.13402488827705383]],
    ),
    (
        sample_unit_hemisphere,
        vec3,
        [[0.3495970666408539, 0.8207812905311584, 0.12065650522708893]],
    ),
]


@pytest.mark.parametrize(("draw", "dtype", "expected"), INTEGERS)
def test_integers_are_those_of_the_peer(draw, dtype, expected):
    np.testing.assert_array_equal(_draws(draw, dtype, len(expected)), expected)


@pytest.mark.parametrize(("draw", "dtype", "expected"), FLOATS)
def test_floats_are_those_of_the_peer_to_rounding(draw, dtype, expected):
    found = _draws(draw, dtype, len(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=4 * 2.0**-24)


EITHER = pytest.mark.parametrize("init", [rand_init, philox_init], ids=["hash", "philox"])


@EITHER
@pytest.mark.parametrize(
    ("draw", "dtype"), [(draw, dtype) for draw, dtype, _ in (*INTEGERS, *FLOATS)]
)
def test_machine_code_draws_the_numbers_of_the_interpreter(draw, dtype, init):
    out = np.zeros((40, *getattr(dtype, "shape", ())), getattr(dtype, "dtype", dtype).numpy)
    run_both(_sampler(draw, dtype, init), [3, out], len(out))


@kc.kernel
def _blocks(states: kc.array(dtype=vec3ul), out: kc.array(dtype=vec4ui)):
    i = kc.tid()
    out[i] = philox(states[i])


def _joined(low, high):
    return low | high << 32


# The vectors of philox4x32 with 10 rounds that the authors of Random123 publish (kat_vectors):
# counter, key, result.
VECTORS = [
    (
        "00000000 00000000 00000000 00000000",
        "00000000 00000000",
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    ),
    (
        "ffffffff ffffffff ffffffff ffffffff",
        "ffffffff ffffffff",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
    ),
    (
        "243f6a88 85a308d3 13198a2e 03707344",
        "a4093822 299f31d0",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def test_philox_gives_the_published_vectors():
    words = [[[int(word, 16) for word in text.split()] for text in row] for row in VECTORS]
    states = [[_joined(*key), _joined(*c[2:]), _joined(*c[:2])] for c, key, _ in words]
    out = np.zeros((len(VECTORS), 4), np.uint32)
    kc.launch(_blocks, dim=len(VECTORS), inputs=[np.array(states, np.uint64), out])
    np.testing.assert_array_equal(out, [expected for _, _, expected in words])
    np.testing.assert_array_equal(philox(vec3ul(*states[2])), words[2][2])


@kc.kernel
def _states_of(seed: uint64, stream: int, offset: kc.int64, out: kc.array(dtype=vec3ul)):
    out[0] = philox_init(seed, stream, offset)
    out[1] = philox_init(0xFFFFFFFFFFFFFFFF, 7)
    state = philox_init(seed, stream)
    randf(state)
    sample_unit_cube(state)
    randn(state)
    out[2] = state


def test_a_state_is_seed_stream_and_the_draws_made():
    out = np.zeros((3, 3), np.uint64)
    kc.launch(_states_of, dim=1, inputs=[2**63 + 1, -2, 2**40, out])
    expected = [[2**63 + 1, 2**64 - 2, 2**40], [2**64 - 1, 7, 0], [2**63 + 1, 2**64 - 2, 3]]
    np.testing.assert_array_equal(out, np.array(expected, np.uint64))


@kc.kernel
def _paths(seed: int, hashed: kc.array2d(dtype=uint32), counted: kc.array2d(dtype=uint32)):
    i = kc.tid()
    state = rand_init(seed, i)
    counter = philox_init(seed, i)
    for j in range(hashed.shape[1]):
        hashed[i, j] = randu(state)
        counted[i, j] = randu(counter)


def _shared_pairs(paths):
    """How often two neighbouring draws of one path come again in another."""
    pairs = paths[:, :-1].astype(np.uint64) << np.uint64(32) | paths[:, 1:]
    return pairs.size - len(np.unique(pairs))


def test_streams_of_philox_do_not_overlap_where_those_of_the_hash_do():
    hashed, counted = np.zeros((2, 20000, 128), np.uint32)
    kc.launch(_paths, dim=20000, inputs=[0, hashed, counted])
    assert _shared_pairs(hashed) > 0
    assert _shared_pairs(counted) == 0


def test_the_host_draws_the_numbers_of_a_kernel(recwarn):
    state = philox_init(42, 1)
    assert randf(state) == _draws(randf, kc.float32, 2, philox_init)[1]
    np.testing.assert_array_equal(state, [42, 1, 1])
    assert not recwarn.list


@pytest.mark.parametrize("draw", [randf, sample_unit_sphere, _few])
def test_other_states_are_refused(draw):
    @kc.kernel
    def wrong(x: kc.array(dtype=float)):
        state = x[0]
        draw(state)

    with pytest.raises(kc.KernelTypeError, match="state"):
        kc.launch(wrong, 1, [np.zeros(1, np.float32)])


@kc.kernel
def _states(out: kc.array(dtype=uint32)):
    i = kc.tid()
    out[i] = rand_init(42 + i)
    state = rand_init(42, 0)
    randn(state)
    out[3] = state
    poisson(state, 0.0)
    out[4] = state
    out[5] = randu(state)
    out[6] = state


def test_states_are_those_of_the_peer_and_each_call_updates_its_own():
    out = np.zeros(7, np.uint32)
    kc.launch(_states, dim=3, inputs=[out])
    np.testing.assert_array_equal(out[:3], [1223963391, 3180657243, 3328067079])
    second, third = 798497746, 3133687854
    np.testing.assert_array_equal(out[3:], [second, second, third, third])


@kc.kernel
def _sample_cdf(seed: int, cdf: kc.array(dtype=float), out: kc.array(dtype=int)):
    i = kc.tid()
    state = rand_init(seed, i)
    out[i] = sample_cdf(state, cdf)


def _assert_frequencies(observed, expected):
    """Chi-square within five standard deviations of its mean."""
    expected = np.asarray(expected, float)
    chi = float(np.sum((observed - expected) ** 2 / expected))
    degrees = len(expected) - 1
    assert chi < degrees + 5 * math.sqrt(2 * degrees)


def test_indices_have_the_probabilities_of_the_distribution():
    out = np.zeros(COUNT, np.int32)
    kc.launch(_sample_cdf, dim=COUNT, inputs=[42, CDF, out])
    np.testing.assert_array_equal(out[:3], [3, 0, 2])
    _assert_frequencies(np.bincount(out), COUNT * np.diff(CDF.astype(float), prepend=0.0))


@EITHER
def test_uniform_numbers_fill_their_range_evenly(init):
    numbers = _draws(randf, kc.float32, COUNT, init)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    _assert_frequencies(np.histogram(numbers, 64, (0, 1))[0], np.full(64, COUNT / 64))
    integers = _draws(_randi_between, int32, COUNT, init)
    assert integers.min() == -7
    assert integers.max() == 99
    _assert_frequencies(np.bincount(integers + 7), np.full(107, COUNT / 107))
    # Neighbouring streams are independent: pairs fill the square.
    pairs = np.histogram2d(numbers[:-1], numbers[1:], 8, ((0, 1), (0, 1)))[0]
    _assert_frequencies(pairs.ravel(), np.full(64, (COUNT - 1) / 64))


@EITHER
def test_normal_numbers_have_the_normal_distribution(init):
    numbers = _draws(randn, kc.float32, COUNT, init).astype(float)
    edges = np.linspace(-3, 3, 31)
    cdf = np.array([0.5 * math.erfc(-e / math.sqrt(2)) for e in edges])
    inner = np.histogram(numbers, edges)[0]
    _assert_frequencies(inner, COUNT * np.diff(cdf))
    assert abs(numbers.mean()) < 5 / math.sqrt(COUNT)
    assert abs(numbers.var() - 1) < 5 * math.sqrt(2 / COUNT)


@EITHER
@pytest.mark.parametrize(("draw", "lam"), [(_few, 3.5), (_many, 40.0)])
def test_counts_have_the_poisson_distribution(draw, lam, init):
    numbers = _draws(draw, uint32, COUNT, init)
    spread = 3 * math.sqrt(lam)
    k = np.arange(max(0, int(lam - spread)), int(lam + spread))
    probability = [math.exp(n * math.log(lam) - lam - math.lgamma(n + 1)) for n in k.tolist()]
    observed = np.bincount(numbers, minlength=int(k[-1]) + 1)[k]
    _assert_frequencies(observed, COUNT * np.array(probability))
    assert abs(numbers.mean() - lam) < 5 * math.sqrt(lam / COUNT)


@kc.kernel
def _large_mean(out: kc.array(dtype=uint32)):
    i = kc.tid()
    state = rand_init(9, i)
    out[i] = poisson(state, 100000.0)


def test_large_means_keep_mean_and_variance():
    out = np.zeros(COUNT, np.uint32)
    kc.launch(_large_mean, dim=COUNT, inputs=[out])
    lam = 100000.0
    assert abs(out.mean() - lam) < 5 * math.sqrt(lam / COUNT)
    assert abs(out.var() / lam - 1) < 5 * math.sqrt(2 / COUNT)


@EITHER
@pytest.mark.parametrize(
    ("draw", "dtype", "mean", "variance"),
    [
        (sample_triangle, vec2, (1 / 3, 1 / 3), (1 / 18, 1 / 18)),
        (sample_unit_ring, vec2, (0, 0), (1 / 2, 1 / 2)),
        (sample_unit_disk, vec2, (0, 0), (1 / 4, 1 / 4)),
        (sample_unit_square, vec2, (0, 0), (1 / 12, 1 / 12)),
        (sample_unit_cube, vec3, (0, 0, 0), (1 / 12, 1 / 12, 1 / 12)),
        (sample_unit_sphere_surface, vec3, (0, 0, 0), (1 / 3, 1 / 3, 1 / 3)),
        (sample_unit_sphere, vec3, (0, 0, 0), (1 / 5, 1 / 5, 1 / 5)),
        (sample_unit_hemisphere_surface, vec3, (0, 0, 1 / 2), (1 / 3, 1 / 3, 1 / 12)),
        (sample_unit_hemisphere, vec3, (0, 0, 3 / 8), (1 / 5, 1 / 5, 19 / 320)),
    ],
)
def test_points_have_mean_and_variance_of_the_shape(draw, dtype, mean, variance, init):
    points = _draws(draw, dtype, COUNT, init).astype(float)
    error = 5 / math.sqrt(COUNT)
    np.testing.assert_allclose(points.mean(0), mean, atol=error)
    np.testing.assert_allclose(points.var(0), variance, atol=error)


@pytest.mark.parametrize(
    ("draw", "dtype"),
    [(sample_unit_ring, vec2), (sample_unit_sphere_surface, vec3)],
)
def test_points_of_a_surface_have_length_one(draw, dtype):
    points = _draws(draw, dtype, COUNT).astype(float)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=2.0**-22)


def test_log_factorial_of_the_rejection_is_that_of_the_gamma_function():
    (definition,) = random._log_factorial.overloads
    for n in (0.0, 1.0, 2.0, 7.0, 50.0, 1e5):
        found = definition.pyfunc(np.float32(n))
        assert found == pytest.approx(math.lgamma(n + 1), rel=1e-10, abs=1e-9)
