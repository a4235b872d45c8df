"""Random numbers: two generators, whose states the same functions take and replace.

``rand_init`` makes a uint32, and a draw replaces it with its hash. That is the fastest, for jitter,
textures and starting points. The hash permutes 2**32 states, so that streams can overlap: among n
streams of m draws expect about ``n**2 * m / 2**32`` overlapping pairs. ``philox_init`` makes a
vec3ul: the seed, the stream and the number of draws made. Its streams never overlap, which
simulations of many paths need; a draw takes about 15 times as long.

Sources: Jarzynski and Olano, "Hash Functions for GPU Rendering", JCGT 9 (2020), table 1: the 32-bit
permuted congruential generator of O'Neill (2014) with its output permutation RXS-M-XS as a hash.
Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011: Philox4x32-10.
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins.arithmetic import abs, floor
from kernelcore.builtins.elementary import cbrt, cos, exp, log, sin, sqrt
from kernelcore.builtins.library import library
from kernelcore.builtins.search import lower_bound
from kernelcore.language.composite_types import vec2, vec3, vec3ul, vec4ui
from kernelcore.language.types import (
    INTEGERS,
    ArrayOf,
    TypeClass,
    float32,
    float64,
    int32,
    uint32,
    uint64,
)

Cdf = ArrayOf(float32, 1)
Int = TypeClass("Int", INTEGERS)
State = TypeVar("State", uint32, vec3ul)

_TWO_PI = 6.283185307179586
# The spacing of the random floats.
_SPACING = 2.0**-24
# Above this mean, rejection needs fewer draws than multiplication.
_POISSON_SPLIT = 10.0


@library()
def _hash(state: uint32) -> Any:
    word = state * 747796405 + 2891336453
    word = ((word >> ((word >> 28) + 4)) ^ word) * 277803737
    return (word >> 22) ^ word


@library()
def _unit(state: uint32) -> Any:
    """The 24 high bits of ``state`` as a float32 in [0, 1)."""
    return float32(state >> 8) * _SPACING


@library()
def _philox_round(words: vec4ui, key_low: uint32, key_high: uint32) -> Any:
    even = uint64(words[0]) * uint64(0xD2511F53)
    odd = uint64(words[2]) * uint64(0xCD9E8D57)
    return vec4ui(
        uint32(odd >> uint64(32)) ^ words[1] ^ key_low,
        uint32(odd),
        uint32(even >> uint64(32)) ^ words[3] ^ key_high,
        uint32(even),
    )


@library()
def philox(state: vec3ul) -> Any:
    """A vec4ui of random bits, of which the next draw from ``state`` uses those it needs.

    It is Philox4x32-10 of the counter (offset, stream) with the seed as key, low words first, as in
    cuRAND. ``state`` stays; a draw adds 1 to its offset.
    """
    words = vec4ui(
        uint32(state[2]),
        uint32(state[2] >> uint64(32)),
        uint32(state[1]),
        uint32(state[1] >> uint64(32)),
    )
    low = uint32(state[0])
    high = uint32(state[0] >> uint64(32))
    for _ in range(10):
        words = _philox_round(words, low, high)
        low += uint32(0x9E3779B9)
        high += uint32(0xBB67AE85)
    return words


@library()
def _advanced(state: vec3ul) -> Any:
    return vec3ul(state[0], state[1], state[2] + uint64(1))


@library()
def _one_word(state: uint32) -> Any:
    word = _hash(state)
    return word, word


@library()
def _one_word(state: vec3ul) -> Any:
    return philox(state)[0], _advanced(state)


@library()
def _two_words(state: uint32) -> Any:
    first = _hash(state)
    second = _hash(first)
    return first, second, second


@library()
def _two_words(state: vec3ul) -> Any:
    words = philox(state)
    return words[0], words[1], _advanced(state)


@library()
def _three_words(state: uint32) -> Any:
    first = _hash(state)
    second = _hash(first)
    third = _hash(second)
    return first, second, third, third


@library()
def _three_words(state: vec3ul) -> Any:
    words = philox(state)
    return words[0], words[1], words[2], _advanced(state)


@library()
def rand_init(seed: int) -> Any:
    """A state, a uint32, for ``seed``, an int32."""
    return _hash(uint32(seed))


@library()
def rand_init(seed: int, offset: int) -> Any:
    """A state, a uint32, for ``seed`` and ``offset``, int32 both.

    Threads that give their index as ``offset`` get different streams; those of many threads with
    many draws can overlap.
    """
    return _hash(uint32(seed) + _hash(uint32(offset)))


@library()
def philox_init(seed: Int, stream: Int, offset: Int = 0) -> Any:
    """A state, a vec3ul, for three integers of any type; negative ones wrap modulo 2**64.

    Args:
        seed: The key of the generator; streams of other seeds have nothing to do with each other.
        stream: One of the 2**64 streams of the seed; a thread gives its index.
        offset: How many draws to skip. A stream repeats after 2**64 draws.
    """
    return vec3ul(uint64(seed), uint64(stream), uint64(offset))


@library(updates=("state",))
def randi(state: State) -> Any:
    """An int32, all values of which are equally likely; replaces ``state``."""
    word, state = _one_word(state)
    return int32(word), state


@library(updates=("state",))
def randi(state: State, low: int, high: int) -> Any:
    """An int32 in [low, high); replaces ``state``.

    It is ``low + bits % (high - low)``, so slightly uneven: of a range of n values some are
    likelier than others by up to n / 2**32.
    """
    word, state = _one_word(state)
    return low + int32(word % uint32(high - low)), state


@library(updates=("state",))
def randu(state: State) -> Any:
    """A uint32, all values of which are equally likely; replaces ``state``."""
    word, state = _one_word(state)
    return word, state


@library(updates=("state",))
def randu(state: State, low: uint32, high: uint32) -> Any:
    """A uint32, ``low + bits % (high - low)``, slightly uneven; replaces ``state``."""
    word, state = _one_word(state)
    return low + word % (high - low), state


@library(updates=("state",))
def randf(state: State) -> Any:
    """A float32 in [0, 1), a multiple of 2**-24; replaces ``state``."""
    word, state = _one_word(state)
    return _unit(word), state


@library(updates=("state",))
def randf(state: State, low: float, high: float) -> Any:
    """A float32 uniform between ``low`` and ``high``, float32 both; replaces ``state``.

    Rounding may give ``high`` itself.
    """
    word, state = _one_word(state)
    return _unit(word) * (high - low) + low, state


@library(updates=("state",))
def randn(state: State) -> Any:
    """A float32 from the normal distribution of mean 0 and variance 1; replaces ``state``.

    Its magnitude is below 5.8.

    Source: Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    """
    first, second, state = _two_words(state)
    # The shift by one spacing keeps 0 from the logarithm.
    radius = sqrt(-2.0 * log(_unit(first) + _SPACING))
    return radius * cos(_TWO_PI * _unit(second)), state


@library(updates=("state",))
def sample_cdf(state: State, cdf: Cdf) -> Any:
    """An index drawn from a cumulative distribution; replaces ``state``.

    Args:
        state: The state.
        cdf: float32 array of shape (n,), ascending to 1: the probability of indices up to each.

    Returns:
        An int32 in [0, n); n if the last element is below the number drawn.
    """
    word, state = _one_word(state)
    return lower_bound(cdf, 0, cdf.shape[0], _unit(word)), state


@library(updates=("state",))
def sample_triangle(state: State) -> Any:
    """Two barycentric coordinates, a vec2, of a point uniform in a triangle; replaces ``state``.

    Source: Osada et al., "Shape Distributions", ACM TOG 21 (2002), section 4.2.
    """
    first, second, state = _two_words(state)
    root = sqrt(_unit(first))
    return vec2(1.0 - root, _unit(second) * root), state


@library(updates=("state",))
def sample_unit_ring(state: State) -> Any:
    """A vec2 uniform on the circle of radius 1 around 0; replaces ``state``."""
    word, state = _one_word(state)
    angle = _TWO_PI * _unit(word)
    return vec2(cos(angle), sin(angle)), state


@library(updates=("state",))
def sample_unit_disk(state: State) -> Any:
    """A vec2 uniform in the disk of radius 1 around 0; replaces ``state``."""
    first, second, state = _two_words(state)
    radius = sqrt(_unit(first))
    angle = _TWO_PI * _unit(second)
    return vec2(radius * cos(angle), radius * sin(angle)), state


@library()
def _around_z(z: float32, across: float32, turn: float32) -> Any:
    """The point at height ``z``, ``across`` away from the axis, after ``turn`` of a revolution."""
    angle = _TWO_PI * turn
    return vec3(across * cos(angle), across * sin(angle), z)


@library()
def _on_sphere(u: float32, turn: float32) -> Any:
    return _around_z(1.0 - 2.0 * u, 2.0 * sqrt(u * (1.0 - u)), turn)


@library()
def _on_hemisphere(u: float32, turn: float32) -> Any:
    return _around_z(1.0 - u, sqrt(u * (2.0 - u)), turn)


@library(updates=("state",))
def sample_unit_sphere_surface(state: State) -> Any:
    """A vec3 uniform on the sphere of radius 1 around 0; replaces ``state``."""
    first, second, state = _two_words(state)
    return _on_sphere(_unit(first), _unit(second)), state


@library(updates=("state",))
def sample_unit_sphere(state: State) -> Any:
    """A vec3 uniform in the ball of radius 1 around 0; replaces ``state``."""
    first, second, third, state = _three_words(state)
    return _on_sphere(_unit(first), _unit(second)) * cbrt(_unit(third)), state


@library(updates=("state",))
def sample_unit_hemisphere_surface(state: State) -> Any:
    """A vec3 uniform on the half ``z >= 0`` of the unit sphere; replaces ``state``."""
    first, second, state = _two_words(state)
    return _on_hemisphere(_unit(first), _unit(second)), state


@library(updates=("state",))
def sample_unit_hemisphere(state: State) -> Any:
    """A vec3 uniform in the half ``z >= 0`` of the unit ball; replaces ``state``."""
    first, second, third, state = _three_words(state)
    return _on_hemisphere(_unit(first), _unit(second)) * cbrt(_unit(third)), state


@library(updates=("state",))
def sample_unit_square(state: State) -> Any:
    """A vec2 uniform in the square of side 1 around 0; replaces ``state``."""
    first, second, state = _two_words(state)
    return vec2(_unit(first) - 0.5, _unit(second) - 0.5), state


@library(updates=("state",))
def sample_unit_cube(state: State) -> Any:
    """A vec3 uniform in the cube of side 1 around 0; replaces ``state``."""
    first, second, third, state = _three_words(state)
    return vec3(_unit(first) - 0.5, _unit(second) - 0.5, _unit(third) - 0.5), state


@library(updates=("state",))
def poisson(state: State, lam: float) -> Any:
    """A uint32 from the Poisson distribution of mean ``lam``, a float32; replaces ``state``.

    It is 0 for ``lam <= 0``; for 0 itself ``state`` stays. For large means, results
    have the precision of a float32 of their size.

    Source: Knuth, "The Art of Computer Programming" 2, 3.4.1 (multiplication of uniforms) below 10;
    Hoermann, "The Transformed Rejection Method for Generating Poisson Random Variables", Insurance:
    Mathematics and Economics 12 (1993), algorithm PTRS, from 10 on.
    """
    if lam == 0.0:
        return uint32(0), state
    if lam >= _POISSON_SPLIT:
        return _poisson_rejection(state, lam)
    return _poisson_count(state, lam)


@library()
def _poisson_count(state: State, lam: float) -> Any:
    bound = exp(-lam)
    word, state = _one_word(state)
    product = _unit(word)
    count = uint32(0)
    while product > bound:
        word, state = _one_word(state)
        product = product * _unit(word)
        count = count + 1
    return count, state


@library()
def _poisson_rejection(state: State, lam: float) -> Any:
    b = 0.931 + 2.53 * sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    count = float32(0.0)
    is_open = True
    while is_open:
        first, second, state = _two_words(state)
        u = _unit(first) - 0.5
        v = _unit(second)
        us = 0.5 - abs(u)
        # A u of exactly -0.5 is past every quantile: the second test refuses it.
        count = floor((2.0 * a / us + b) * u + lam + 0.43)
        if us >= 0.07 and v <= v_r:
            is_open = False
        elif count >= 0.0 and not (us < 0.013 and v > us):
            ratio = log(v * inverse_alpha / (a / (us * us) + b))
            # The terms are as large as the mean and nearly cancel.
            log_density = float64(count) * log(float64(lam)) - float64(lam) - _log_factorial(count)
            is_open = float64(ratio) > log_density
    return uint32(count), state


@library()
def _log_factorial(count: float32) -> Any:
    """``log(count!)`` as a float64, to 1e-9: Stirling's series at ``count + 8``."""
    x = float64(count)
    z = x + 8.0
    shift = (x + 1.0) * (x + 2.0) * (x + 3.0) * (x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)
    w = 1.0 / (z * z)
    series = (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w / 1680.0))) / z
    return (z - 0.5) * log(z) - z + 0.9189385332046727 + series - log(shift)
