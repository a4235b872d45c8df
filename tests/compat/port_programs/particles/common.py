"""Types and functions of a particle simulation."""

import warp as wp

Real = wp.float32
vec5 = wp.types.vector(length=5, dtype=wp.float32)
CELLS = wp.constant(64)
EPSILON = 1.0e-6


@wp.struct
class Material:
    density: float
    stiffness: float
    friction: Real
    group: int


@wp.func
def wrap(i: int, n: int):
    return ((i % n) + n) % n  # port: differs %


@wp.func
def wrap_unsigned(i: wp.uint32, n: wp.uint32):
    return i % n


@wp.func
def cell_of(x: float, width: float) -> int:
    return int(wp.floor(x / width))


@wp.func
def kernel_poly6(r: float, h: float):
    q = wp.max(h * h - r * r, 0.0)  # port: differs max
    return 315.0 / (64.0 * wp.pi * wp.pow(h, 9.0)) * q * q * q


@wp.func
def safe_normalize(v: wp.vec3):
    n = wp.length(v)
    return wp.where(n > EPSILON, v / n, wp.vec3(0.0, 0.0, 0.0))


@wp.func
def half(n: int):
    return n / 2  # port: differs /
