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
from kernelcore.builtins.vector import dot, normalize
from kernelcore.language.composite_types import vec2, vec3, vec4, vector
from kernelcore.language.types import float32, int32, uint32

Point = vector(length=Any, dtype=float32)
Cell = vector(length=Any, dtype=int32)
# A jet is the value of a function of n coordinates and its n derivatives, a vector of n + 1.
Jet = TypeVar("Jet", bound=Point)

# A factor of the lattice coordinates along each axis.
_PRIMES = (73856093, 19349663, 53471161, 10000019)


@library()
def _mix(a: Jet, b: Jet, t: float, axis: int) -> Any:
    """The jet between ``a`` and ``b``, jets of what depends on all coordinates, along ``axis``."""
    weight = t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
    mixed = a + (b - a) * weight
    mixed[axis + 1] += (b[0] - a[0]) * (30.0 * t * t * (t * (t - 2.0) + 1.0))
    return mixed


@library()
def _ramp(state: uint32, corner: Cell, at: Point) -> Any:
    """Jet at ``at``, relative to ``corner``, of the linear function that is 0 at that corner."""
    last = len(at) - 1
    word = state + uint32(corner[last]) * _PRIMES[last]
    for k in range(last - 1, -1, -1):
        word = word ^ (uint32(corner[k]) * _PRIMES[k])
    slope = type(at)()
    for k in range(len(at)):
        word = _hash(word)
        slope[k] = 2.0 * _unit(word) - 1.0
    if last > 0:
        slope = normalize(slope)
    jet = vector(0.0, length=len(at) + 1, dtype=float32)
    jet[0] = dot(slope, at)
    jet[1:] = slope
    return jet


# The functions below give the jet at ``at``, relative to the lattice point ``low``, in a cell whose
# opposite corner is ``high``.


@library()
def _line(state: uint32, low: Cell, high: Cell, at: Point) -> Any:
    return _mix(_ramp(state, low, at), _ramp(state, high, _step(at, 0)), at[0], 0)


@library()
def _plane(state: uint32, low: Cell, high: Cell, at: Point) -> Any:
    right = _moved(low, high, 0)
    near = _mix(_ramp(state, low, at), _ramp(state, right, _step(at, 0)), at[0], 0)
    upper = _moved(low, high, 1)
    over = _step(at, 1)
    right = _moved(upper, high, 0)
    corner = _step(over, 0)
    if len(at) == 2:
        # Each corner computes its offset anew, so that the adjoint adds them in this order.
        corner = _step(_step(at, 1), 0)
    far = _mix(_ramp(state, upper, over), _ramp(state, right, corner), at[0], 0)
    return _mix(near, far, at[1], 1)


@library()
def _space(state: uint32, low: Cell, high: Cell, at: Point) -> Any:
    near = _plane(state, low, high, at)
    return _mix(near, _plane(state, _moved(low, high, 2), high, _step(at, 2)), at[2], 2)


@library()
def _spacetime(state: uint32, low: Cell, high: Cell, at: Point) -> Any:
    near = _space(state, low, high, at)
    return _mix(near, _space(state, _moved(low, high, 3), high, _step(at, 3)), at[3], 3)


@library()
def _moved(low: Cell, high: Cell, axis: int) -> Any:
    """``low`` with the coordinate of ``high`` along ``axis``."""
    corner = type(low)(low)
    corner[axis] = high[axis]
    return corner


@library()
def _step(at: Point, axis: int) -> Any:
    """``at`` relative to the next lattice point along ``axis``."""
    unit = type(at)()
    unit[axis] = 1.0
    return at - unit


# Indexed by the number of coordinates minus one.
_JETS = (_line, _plane, _space, _spacetime)


@library()
def _jet_in(state: uint32, low: Cell, high: Cell, at: Point) -> Any:
    """Jet at ``at``, which lies in the cell between the lattice points ``low`` and ``high``."""
    rest = type(at)(at)
    for k in range(len(at)):
        rest[k] = at[k] - floor(at[k])
    return _JETS[len(at) - 1](state, low, high, rest)


@library()
def _jet_at(state: uint32, at: Point) -> Any:
    low = vector(0, length=len(at), dtype=int32)
    high = vector(0, length=len(at), dtype=int32)
    for k in range(len(at)):
        low[k] = int32(floor(at[k]))
        high[k] = low[k] + 1
    return _jet_in(state, low, high, at)


@library()
def _periodic(state: uint32, at: Point, periods: Cell) -> Any:
    """The value at ``at`` on a lattice whose coordinates repeat after ``periods``."""
    low = type(periods)()
    high = type(periods)()
    for k in range(len(at)):
        low[k] = int32(floor(at[k])) % periods[k]
        high[k] = (low[k] + 1) % periods[k]
    return _jet_in(state, low, high, at)[0]


@library()
def noise(state: uint32, x: float) -> Any:
    """Noise at ``x``, a float32 without unit; a float32.

    ``state`` (a uint32, from ``rand_init``) chooses the function and stays as it is.
    """
    return _jet_at(state, vector(x, length=1, dtype=float32))[0]


@library()
def noise(state: uint32, xy: vec2) -> Any:
    """Noise at a point of the plane, a vec2; a float32."""
    return _jet_at(state, xy)[0]


@library()
def noise(state: uint32, xyz: vec3) -> Any:
    """Noise at a point of space, a vec3; a float32."""
    return _jet_at(state, xyz)[0]


@library()
def noise(state: uint32, xyzt: vec4) -> Any:
    """Noise at a point of space and a time, a vec4; a float32."""
    return _jet_at(state, xyzt)[0]


@library()
def pnoise(state: uint32, x: float, px: int) -> Any:
    """Noise that repeats after ``px``, a positive int32; a float32. Else as ``noise``."""
    return _periodic(state, vector(x, length=1, dtype=float32), vector(px, length=1, dtype=int32))


@library()
def pnoise(state: uint32, xy: vec2, px: int, py: int) -> Any:
    """Noise over the plane that repeats after ``px`` and ``py``, positive int32; a float32."""
    return _periodic(state, xy, vector(px, py, length=2, dtype=int32))


@library()
def pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> Any:
    """Noise over space that repeats after ``px``, ``py``, ``pz``, positive int32; a float32."""
    return _periodic(state, xyz, vector(px, py, pz, length=3, dtype=int32))


@library()
def pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> Any:
    """Noise over space and time that repeats after the four periods, int32 > 0; a float32."""
    return _periodic(state, xyzt, vector(px, py, pz, pt, length=4, dtype=int32))
