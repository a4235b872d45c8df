"""Gradient noise, plain and periodic, over one to four dimensions.

Values lie between -1 and 1, are 0 on the integer lattice, and have two continuous derivatives.

Source: Perlin, "Improving Noise", SIGGRAPH 2002 (the interpolant); Teschner et al., "Optimized
Spatial Hashing for Collision Detection of Deformable Objects", VMV 2003 (the products of lattice
coordinates that are combined into one number, which the hash of ``random`` turns into a gradient).
"""

# Overloads share a name; types of the kernel language are values to a type checker.
# ruff: noqa: F811
# pyright: basic, reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any, TypeVar

from kernelcore.builtins.arithmetic import floor
from kernelcore.builtins.library import library
from kernelcore.builtins.random import _hash, _unit
from kernelcore.builtins.vector import normalize
from kernelcore.language.composite_types import vec2, vec3, vec4, vector
from kernelcore.language.types import float32, int32, uint32

vec5 = vector(length=5, dtype=float32)

AnyVector = vector(length=Any, dtype=float32)
# A jet is the value of a function of n coordinates and its n derivatives, a vector of n + 1.
Jet = TypeVar("Jet", bound=AnyVector)

_PX = 73856093
_PY = 19349663
_PZ = 53471161
_PT = 10000019


@library()
def _mix(a: Jet, b: Jet, t: float, axis: int) -> Any:
    """The jet between ``a`` and ``b``, jets of what depends on all coordinates, along ``axis``."""
    weight = t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
    mixed = a + (b - a) * weight
    mixed[axis + 1] += (b[0] - a[0]) * (30.0 * t * t * (t * (t - 2.0) + 1.0))
    return mixed


@library()
def _signed(state: uint32) -> Any:
    return 2.0 * _unit(state) - 1.0


@library()
def _ramp1(state: uint32, ix: int, x: float) -> Any:
    """Jet at ``x``, relative to lattice point ``ix``, of the linear function that is 0 there."""
    slope = _signed(_hash(state + uint32(ix) * _PX))
    return vec2(slope * x, slope)


@library()
def _ramp2(state: uint32, ix: int, iy: int, x: float, y: float) -> Any:
    first = _hash((state + uint32(iy) * _PY) ^ (uint32(ix) * _PX))
    slope = normalize(vec2(_signed(first), _signed(_hash(first))))
    return vec3(slope[0] * x + slope[1] * y, slope[0], slope[1])


@library()
def _ramp3(state: uint32, ix: int, iy: int, iz: int, at: vec3) -> Any:
    first = _hash((state + uint32(iz) * _PZ) ^ (uint32(iy) * _PY) ^ (uint32(ix) * _PX))
    second = _hash(first)
    third = _hash(second)
    slope = normalize(vec3(_signed(first), _signed(second), _signed(third)))
    value = slope[0] * at[0] + slope[1] * at[1] + slope[2] * at[2]
    return vec4(value, slope[0], slope[1], slope[2])


@library()
def _ramp4(state: uint32, ix: int, iy: int, iz: int, it: int, at: vec4) -> Any:
    products = (uint32(iz) * _PZ) ^ (uint32(iy) * _PY) ^ (uint32(ix) * _PX)
    first = _hash((state + uint32(it) * _PT) ^ products)
    second = _hash(first)
    third = _hash(second)
    fourth = _hash(third)
    slope = normalize(vec4(_signed(first), _signed(second), _signed(third), _signed(fourth)))
    value = slope[0] * at[0] + slope[1] * at[1] + slope[2] * at[2] + slope[3] * at[3]
    return vec5(value, slope[0], slope[1], slope[2], slope[3])


# The functions below take, per coordinate, the lattice points on either side and the distance
# from the lower one.


@library()
def _jet1(state: uint32, x0: int, x1: int, x: float) -> Any:
    return _mix(_ramp1(state, x0, x), _ramp1(state, x1, x - 1.0), x, 0)


@library()
def _jet2(state: uint32, x0: int, x1: int, y0: int, y1: int, x: float, y: float) -> Any:
    low = _mix(_ramp2(state, x0, y0, x, y), _ramp2(state, x1, y0, x - 1.0, y), x, 0)
    high = _mix(_ramp2(state, x0, y1, x, y - 1.0), _ramp2(state, x1, y1, x - 1.0, y - 1.0), x, 0)
    return _mix(low, high, y, 1)


@library()
def _plane3(state: uint32, x0: int, x1: int, y0: int, y1: int, iz: int, at: vec3) -> Any:
    across = vec3(1.0, 0.0, 0.0)
    up = vec3(0.0, 1.0, 0.0)
    low = _mix(_ramp3(state, x0, y0, iz, at), _ramp3(state, x1, y0, iz, at - across), at[0], 0)
    over = at - up
    high = _mix(_ramp3(state, x0, y1, iz, over), _ramp3(state, x1, y1, iz, over - across), at[0], 0)
    return _mix(low, high, at[1], 1)


@library()
def _jet3(state: uint32, x0: int, x1: int, y0: int, y1: int, z0: int, z1: int, at: vec3) -> Any:
    low = _plane3(state, x0, x1, y0, y1, z0, at)
    high = _plane3(state, x0, x1, y0, y1, z1, at - vec3(0.0, 0.0, 1.0))
    return _mix(low, high, at[2], 2)


@library()
def _plane4(state: uint32, x0: int, x1: int, y0: int, y1: int, iz: int, it: int, at: vec4) -> Any:
    across = vec4(1.0, 0.0, 0.0, 0.0)
    up = vec4(0.0, 1.0, 0.0, 0.0)
    a = _mix(
        _ramp4(state, x0, y0, iz, it, at), _ramp4(state, x1, y0, iz, it, at - across), at[0], 0
    )
    over = at - up
    b = _mix(
        _ramp4(state, x0, y1, iz, it, over), _ramp4(state, x1, y1, iz, it, over - across), at[0], 0
    )
    return _mix(a, b, at[1], 1)


@library()
def _space4(
    state: uint32,
    x0: int,
    x1: int,
    y0: int,
    y1: int,
    z0: int,
    z1: int,
    it: int,
    at: vec4,
) -> Any:
    low = _plane4(state, x0, x1, y0, y1, z0, it, at)
    high = _plane4(state, x0, x1, y0, y1, z1, it, at - vec4(0.0, 0.0, 1.0, 0.0))
    return _mix(low, high, at[2], 2)


@library()
def _wrapped(x: float, period: int) -> Any:
    """The lattice points on either side of ``x``, modulo ``period``."""
    low = int32(floor(x)) % period
    return low, (low + 1) % period


@library()
def _around1(state: uint32, x: float) -> Any:
    x0 = int32(floor(x))
    return _jet1(state, x0, x0 + 1, x - floor(x))


@library()
def _around2(state: uint32, xy: vec2) -> Any:
    x0 = int32(floor(xy[0]))
    y0 = int32(floor(xy[1]))
    return _jet2(state, x0, x0 + 1, y0, y0 + 1, xy[0] - floor(xy[0]), xy[1] - floor(xy[1]))


@library()
def _fraction(at: AnyVector) -> Any:
    rest = at
    for i in range(len(at)):
        rest[i] = at[i] - floor(at[i])
    return rest


@library()
def _around3(state: uint32, xyz: vec3) -> Any:
    x0 = int32(floor(xyz[0]))
    y0 = int32(floor(xyz[1]))
    z0 = int32(floor(xyz[2]))
    return _jet3(state, x0, x0 + 1, y0, y0 + 1, z0, z0 + 1, _fraction(xyz))


@library()
def _around4(state: uint32, xyzt: vec4) -> Any:
    x0 = int32(floor(xyzt[0]))
    y0 = int32(floor(xyzt[1]))
    z0 = int32(floor(xyzt[2]))
    t0 = int32(floor(xyzt[3]))
    rest = _fraction(xyzt)
    low = _space4(state, x0, x0 + 1, y0, y0 + 1, z0, z0 + 1, t0, rest)
    high = _space4(
        state, x0, x0 + 1, y0, y0 + 1, z0, z0 + 1, t0 + 1, rest - vec4(0.0, 0.0, 0.0, 1.0)
    )
    return _mix(low, high, rest[3], 3)


@library()
def noise(state: uint32, x: float) -> Any:
    """Noise at ``x``, a float32 without unit; a float32.

    ``state`` (a uint32, from ``rand_init``) chooses the function and stays as it is.
    """
    return _around1(state, x)[0]


@library()
def noise(state: uint32, xy: vec2) -> Any:
    """Noise at a point of the plane, a vec2; a float32."""
    return _around2(state, xy)[0]


@library()
def noise(state: uint32, xyz: vec3) -> Any:
    """Noise at a point of space, a vec3; a float32."""
    return _around3(state, xyz)[0]


@library()
def noise(state: uint32, xyzt: vec4) -> Any:
    """Noise at a point of space and a time, a vec4; a float32."""
    return _around4(state, xyzt)[0]


@library()
def pnoise(state: uint32, x: float, px: int) -> Any:
    """Noise that repeats after ``px``, a positive int32; a float32. Else as ``noise``."""
    x0, x1 = _wrapped(x, px)
    return _jet1(state, x0, x1, x - floor(x))[0]


@library()
def pnoise(state: uint32, xy: vec2, px: int, py: int) -> Any:
    """Noise over the plane that repeats after ``px`` and ``py``, positive int32; a float32."""
    x0, x1 = _wrapped(xy[0], px)
    y0, y1 = _wrapped(xy[1], py)
    return _jet2(state, x0, x1, y0, y1, xy[0] - floor(xy[0]), xy[1] - floor(xy[1]))[0]


@library()
def pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> Any:
    """Noise over space that repeats after ``px``, ``py``, ``pz``, positive int32; a float32."""
    x0, x1 = _wrapped(xyz[0], px)
    y0, y1 = _wrapped(xyz[1], py)
    z0, z1 = _wrapped(xyz[2], pz)
    return _jet3(state, x0, x1, y0, y1, z0, z1, _fraction(xyz))[0]


@library()
def pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> Any:
    """Noise over space and time that repeats after the four periods, int32 > 0; a float32."""
    x0, x1 = _wrapped(xyzt[0], px)
    y0, y1 = _wrapped(xyzt[1], py)
    z0, z1 = _wrapped(xyzt[2], pz)
    t0, t1 = _wrapped(xyzt[3], pt)
    rest = _fraction(xyzt)
    low = _space4(state, x0, x1, y0, y1, z0, z1, t0, rest)
    high = _space4(state, x0, x1, y0, y1, z0, z1, t1, rest - vec4(0.0, 0.0, 0.0, 1.0))
    return _mix(low, high, rest[3], 3)[0]
