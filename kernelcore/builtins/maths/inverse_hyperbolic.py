"""asinh, acosh, atanh: logarithms of sums that are known to twice the bits."""

from __future__ import annotations

import math

from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.compensated import (
    Pair,
    quotient,
    square_root,
    two_product,
    two_sum,
)
from kernelcore.builtins.maths.formats import copy_sign, format_of
from kernelcore.builtins.maths.logarithm import log_of_sum


def asinh(x: Value) -> Value:
    """Inverse of ``sinh``: within 1.5 ulp."""
    size = abs(x)
    square = two_product(size, size)
    above = two_sum(square.high, x.like(1.0))
    root = square_root(Pair(above.high, above.low + square.low))
    return copy_sign(_log_with_root(size, root), x)


def acosh(x: Value) -> Value:
    """Inverse of ``cosh``: within 1.5 ulp."""
    # x**2 - 1 = 2 * t + t**2 with t = x - 1.
    t = x - 1.0
    square = two_product(t, t)
    product = two_sum(t + t, square.high)
    root = square_root(Pair(product.high, product.low + square.low))
    return (x >= 1.0).where(_log_with_root(x, root), math.nan)


def atanh(x: Value) -> Value:
    """Inverse of ``tanh``: within 1.5 ulp."""
    size = abs(x)
    one = x.like(1.0)
    ratio = quotient(two_sum(one, size), two_sum(one, -size))
    result = size.equals(1.0).where(math.inf, log_of_sum(ratio) * 0.5)
    return copy_sign((size <= 1.0).where(result, math.nan), x)


def _log_with_root(x: Value, root: Pair) -> Value:
    """``log(x + root)``, where ``root`` is next to a large ``x``."""
    is_large = x > 2.0 ** (format_of(x).digits // 2 + 2)
    total = two_sum(root.high, x)
    high = is_large.where(x, total.high)
    low = is_large.where(x.like(0.0), total.low + root.low)
    doublings = is_large.where(x.like(1.0), 0.0)
    return x.equals(math.inf).where(x, log_of_sum(Pair(high, low), doublings))
