"""sin, cos, tan: range reduction by multiples of pi/2, then polynomials."""

from __future__ import annotations

import math

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.coefficients import COS, SIN
from kernelcore.builtins.maths.compensated import Pair, fast_two_sum, polynomial, quotient
from kernelcore.builtins.maths.reduction import LIMITS, Reduced, reduce_large, reduce_small


def sin(x: Value) -> Value:
    """Sine, in radians: within 2 ulp."""
    usual = x.beyond(LIMITS[x.type], sin_large, _sin(reduce_small(x)))
    return x.equals(0.0).where(x, usual)


def cos(x: Value) -> Value:
    """Cosine, in radians: within 2 ulp."""
    return x.beyond(LIMITS[x.type], cos_large, _cos(reduce_small(x)))


def tan(x: Value) -> Value:
    """Tangent, in radians: within 1.5 ulp."""
    usual = x.beyond(LIMITS[x.type], tan_large, _tan(reduce_small(x, is_sensitive=True)))
    return x.equals(0.0).where(x, usual)


def sin_large(x: Value) -> Value:
    """``sin`` of large angles."""
    return _sin(reduce_large(x))


def cos_large(x: Value) -> Value:
    """``cos`` of large angles."""
    return _cos(reduce_large(x))


def tan_large(x: Value) -> Value:
    """``tan`` of large angles."""
    return _tan(reduce_large(x))


def _cos(reduced: Reduced) -> Value:
    return _sin(Reduced(reduced.angle, reduced.rest, reduced.turns + 1))


def _sin(reduced: Reduced) -> Value:
    sine, cosine = _sine(reduced).rounded(), _cosine(reduced).rounded()
    turns = reduced.turns
    result = _is_odd(turns).where(cosine, sine)
    return (result.bits() ^ ((turns & 2) << result.type.bits - 2)).as_float()


def _tan(reduced: Reduced) -> Value:
    sine, cosine = (fast_two_sum(*part) for part in (_sine(reduced), _cosine(reduced)))
    swap = _is_odd(reduced.turns)
    above = Pair(swap.where(-cosine.high, sine.high), swap.where(-cosine.low, sine.low))
    below = Pair(swap.where(sine.high, cosine.high), swap.where(sine.low, cosine.low))
    return quotient(above, below).rounded()


def _is_odd(turns: Value) -> Value:
    return (turns & 1).differs(0)


def _sine(reduced: Reduced) -> Pair:
    r, rest = reduced.angle, reduced.rest
    z = r * r
    term = polynomial(z, SIN[r.type])
    return Pair(r, (r * z) * term if rest is None else (r * z).times_plus(term, rest))


def _cosine(reduced: Reduced) -> Pair:
    r, rest = reduced.angle, reduced.rest
    z = r * r
    tail = polynomial(z, COS[r.type])
    if rest is None:
        return Pair(r.like(1.0), z * z.times_plus(tail, -0.5))
    head = fast_two_sum(r.like(1.0), z * -0.5)
    return Pair(head.high, (z * z).times_plus(tail, head.low - r * rest))


def degrees(x: Value) -> Value:
    """``x`` radians in degrees."""
    return x * (180.0 / math.pi)


def radians(x: Value) -> Value:
    """``x`` degrees in radians."""
    return x * (math.pi / 180.0)
