"""Curl noise: velocity fields without divergence, from the derivatives of gradient noise.

Source: Bridson, Hourihan and Nordenstam, "Curl-Noise for Procedural Fluid Flow", SIGGRAPH 2007.
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

from kernelcore.builtins.library import library
from kernelcore.builtins.noise import Point, _jet_at
from kernelcore.builtins.random import rand_init
from kernelcore.language.composite_types import vec2, vec3, vec4
from kernelcore.language.types import uint32


@library()
def _curl(state: uint32, at: Point) -> Any:
    """The curl of noise over the plane, or of three noise functions over space."""
    a = _jet_at(state, at)
    if len(at) == 2:
        return vec2(-a[2], a[1])
    b = _jet_at(_second(state), at)
    c = _jet_at(_third(state), at)
    return vec3(c[2] - b[3], a[3] - c[1], b[1] - a[2])


@library()
def _second(state: uint32) -> Any:
    """The state of the second of three functions over space; the numbers are those of Warp."""
    return rand_init(int(state), 10019689)


@library()
def _third(state: uint32) -> Any:
    """The state of the third one, which the next octave starts from."""
    return rand_init(int(_second(state)), 13112221)


@library()
def _octaves(
    zero: Point, state: uint32, at: Point, octaves: uint32, lacunarity: float, gain: float
) -> Any:
    """``zero`` plus the curls of all octaves."""
    total = zero
    frequency = 1.0
    amplitude = 1.0
    for _ in range(octaves):
        total += amplitude * _curl(state, frequency * at)
        if len(at) > 2:
            state = _third(state)
        frequency = frequency * lacunarity
        amplitude = amplitude * gain
    return total


@library()
def curlnoise(
    state: uint32, xy: vec2, octaves: uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
) -> Any:
    """The curl of noise over the plane: a field without divergence.

    Args:
        state: A uint32 that chooses the function; it stays as it is.
        xy: The point, without unit.
        octaves: Functions added up, a uint32.
        lacunarity: Ratio of the frequencies of an octave and the one before, a float32.
        gain: Ratio of the amplitudes of their fields, a float32.

    Returns:
        A vec2: the sum of ``(-d/dy, d/dx)`` of noise at the points of the octaves.
    """
    return _octaves(vec2(), state, xy, octaves, lacunarity, gain)


@library()
def curlnoise(
    state: uint32, xyz: vec3, octaves: uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
) -> Any:
    """The curl of three noise functions over space, a vec3: a field without divergence."""
    return _octaves(vec3(), state, xyz, octaves, lacunarity, gain)


@library()
def curlnoise(
    state: uint32, xyzt: vec4, octaves: uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
) -> Any:
    """As for a vec3, a vec3 that changes with the time, the last coordinate."""
    return _octaves(vec3(), state, xyzt, octaves, lacunarity, gain)
