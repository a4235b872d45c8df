"""Curl noise: velocity fields without divergence, from the derivatives of gradient noise.

Source: Bridson, Hourihan and Nordenstam, "Curl-Noise for Procedural Fluid Flow", SIGGRAPH 2007.
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

from kernelcore.builtins.library import library
from kernelcore.builtins.noise import (
    _around2,
    _around3,
    _around4,
)
from kernelcore.builtins.random import _hash
from kernelcore.language.composite_types import vec2, vec3, vec4
from kernelcore.language.types import uint32


@library()
def _curl(a: vec3, b: vec3, c: vec3) -> Any:
    """The curl of a vector potential, from the gradients of its components."""
    return vec3(c[1] - b[2], a[2] - c[0], b[0] - a[1])


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
    total = vec2()
    frequency = 1.0
    amplitude = 1.0
    for _ in range(octaves):
        jet = _around2(state, frequency * xy)
        total += amplitude * vec2(-jet[2], jet[1])
        frequency = frequency * lacunarity
        amplitude = amplitude * gain
    return total


@library()
def curlnoise(
    state: uint32, xyz: vec3, octaves: uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
) -> Any:
    """The curl of three noise functions over space, a vec3: a field without divergence."""
    total = vec3()
    frequency = 1.0
    amplitude = 1.0
    for _ in range(octaves):
        at = frequency * xyz
        a = _around3(state, at)
        b = _around3(_hash(state), at)
        c = _around3(_hash(_hash(state)), at)
        total += amplitude * _curl(a[1:4], b[1:4], c[1:4])
        frequency = frequency * lacunarity
        amplitude = amplitude * gain
    return total


@library()
def curlnoise(
    state: uint32, xyzt: vec4, octaves: uint32 = 1, lacunarity: float = 2.0, gain: float = 0.5
) -> Any:
    """As for a vec3, a vec3 that changes with the time, the last coordinate."""
    total = vec3()
    frequency = 1.0
    amplitude = 1.0
    for _ in range(octaves):
        at = frequency * xyzt
        a = _around4(state, at)
        b = _around4(_hash(state), at)
        c = _around4(_hash(_hash(state)), at)
        total += amplitude * _curl(a[1:4], b[1:4], c[1:4])
        frequency = frequency * lacunarity
        amplitude = amplitude * gain
    return total
