"""Meanings on NumPy scalars that NumPy itself does not have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def minimum(x: Any, y: Any) -> Any:
    """The smaller one, NaN if either is; of two equal ones ``y``."""
    return x if x < y or np.isnan(x) else y


def maximum(x: Any, y: Any) -> Any:
    """The larger one, NaN if either is; of two equal ones ``y``."""
    return x if x > y or np.isnan(x) else y


def clamp(x: Any, lo: Any, hi: Any) -> Any:
    """``x`` held within ``lo`` and ``hi``; ``hi`` wins."""
    return minimum(maximum(x, lo), hi)


def shl(x: Any, y: Any) -> Any:
    """Shift left by ``y`` modulo the width."""
    return np.left_shift(x, y & _last_bit(x))


def shr(x: Any, y: Any) -> Any:
    """Arithmetic shift right by ``y`` modulo the width."""
    return np.right_shift(x, y & _last_bit(x))


def _last_bit(x: Any) -> Any:
    return type(x)(8 * np.asarray(x).dtype.itemsize - 1)


def select(c: Any, x: Any, y: Any) -> Any:
    """``x`` if ``c`` holds, else ``y``."""
    return x if c else y


def frac(x: Any) -> Any:
    """``x`` less its integer part."""
    return x - np.trunc(x)


def rsqrt(x: Any) -> Any:
    """``1 / sqrt(x)``."""
    return np.divide(type(x)(1), np.sqrt(x))


def degrees(x: Any) -> Any:
    """Radians to degrees."""
    return x * type(x)(180.0 / math.pi)


def radians(x: Any) -> Any:
    """Degrees to radians."""
    return x * type(x)(math.pi / 180.0)


def power(x: Any, y: Any) -> Any:
    """``x`` raised to ``y`` as the C library has it; NumPy takes 0.5 for a square root."""
    if y == 0.5 and (x == 0 or np.isinf(x)):
        return np.abs(x)
    return np.power(x, y)


def erf(x: Any) -> Any:
    """The error function."""
    return type(x)(math.erf(x))


def erfc(x: Any) -> Any:
    """``1 - erf(x)``, accurate for large ``x``."""
    return type(x)(math.erfc(x))


def range_len(start: Any, stop: Any, step: Any) -> Any:
    """Iterations of ``range(start, stop, step)``, 0 for step 0, at most the largest integer."""
    largest = int(np.iinfo(np.asarray(start).dtype).max)
    return type(start)(min(trip_count(int(start), int(stop), int(step)), largest))


def trip_count(start: int, stop: int, step: int) -> int:
    """Iterations of ``range(start, stop, step)``, 0 for step 0; may exceed what ``len`` can say."""
    if step == 0:
        return 0
    away = 1 if step > 0 else -1
    return max(0, (stop - start + step - away) // step)
