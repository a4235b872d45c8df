"""Meanings on NumPy scalars that NumPy itself does not have, and how arrays are given them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelcore.base import native
from kernelcore.language.types import FLOATS, Scalar, bfloat16, float64

_FLOATS = frozenset(f.numpy for f in FLOATS)


# References that accept scalars only.
_ON_SCALARS: set[Callable[..., Any]] = set()


def on_scalars(ref: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a meaning that takes NumPy scalars only."""
    _ON_SCALARS.add(ref)
    return ref


def evaluate(ref: Callable[..., Any], args: Sequence[Any]) -> Any:
    """``ref`` on scalars, or element by element on arrays and scalars that broadcast."""
    if ref not in _ON_SCALARS or not any(isinstance(a, np.ndarray) for a in args):
        return ref(*args)
    arrays = np.broadcast_arrays(*args)
    found = [ref(*(a[at] for a in arrays)) for at in np.ndindex(arrays[0].shape)]
    return np.reshape(found, arrays[0].shape)


def is_narrow(dtype: Scalar) -> bool:
    """Whether it is a float of 16 bits: computed with in float32, and rounded after each step."""
    return dtype.is_float and dtype.bits == 16


def nothing_added(dtype: Scalar) -> float:
    """The identity of addition in ``dtype``; for floats -0.0, since 0.0 would change -0.0."""
    return -0.0 if dtype.is_float else 0


def lowest(dtype: Scalar) -> float:
    """The identity of ``max`` in ``dtype``."""
    return -np.inf if dtype.is_float else dtype.limits[0]


def highest(dtype: Scalar) -> float:
    """The identity of ``min`` in ``dtype``."""
    return np.inf if dtype.is_float else dtype.limits[1]


def nearest(value: Any, dtype: Scalar) -> Any:
    """A Python or NumPy number as a NumPy scalar of the float type ``dtype``, rounded once."""
    if dtype == float64:
        return np.float64(value)
    wide = _odd_float64(int(value)) if _is_integer(value) else np.float64(value)
    with np.errstate(all="ignore"):
        # NumPy makes a bfloat16 by way of a float32.
        source = _odd_float32(wide) if dtype == bfloat16 else wide
        return np.asarray(source).astype(dtype.numpy)[()]


def as_scalar(value: Any, dtype: Scalar) -> Any:
    """A Python or NumPy number that ``dtype`` takes as one of its NumPy scalars."""
    return nearest(value, dtype) if is_narrow(dtype) else dtype(value)


def convert(value: Any, dtype: Scalar) -> Any:
    """NumPy scalar ``value`` as ``dtype``; floats saturate as integers, where NaN becomes 0."""
    source = np.asarray(value)
    if dtype.is_integer and source.dtype in _FLOATS:
        return dtype(float(value))
    return nearest(value, dtype) if is_narrow(dtype) else source.astype(dtype.numpy)[()]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer | np.bool_)


def _odd_float64(number: int) -> np.float64:
    """Rounded to odd: an inexact result has an odd significand, so it can be rounded again."""
    shift = max(number.bit_length() - 53, 0)
    kept = number >> shift
    return np.float64((kept | (kept << shift != number)) << shift)


def _odd_float32(number: np.float64) -> np.float32:
    """Rounded to odd, as ``_odd_float64`` does."""
    near = np.float32(number)
    back = np.float64(near)
    if back == number or np.isnan(number):
        return near
    bits = int(near.view(np.uint32)) - bool(np.abs(back) > np.abs(number))
    return np.uint32(bits | 1).view(np.float32)


@on_scalars
def sign(x: Any) -> Any:
    """-1, 0 or 1, as ``x`` is; NumPy's function leaves a zero of bfloat16 its sign."""
    return np.sign(x) + 0


@on_scalars
def minimum(x: Any, y: Any) -> Any:
    """The smaller one, NaN if either is; of two equal ones ``y``."""
    return x if x < y or np.isnan(x) else y


@on_scalars
def maximum(x: Any, y: Any) -> Any:
    """The larger one, NaN if either is; of two equal ones ``y``."""
    return x if x > y or np.isnan(x) else y


@on_scalars
def clamp(x: Any, lo: Any, hi: Any) -> Any:
    """``x`` held within ``lo`` and ``hi``; ``hi`` wins."""
    return minimum(maximum(x, lo), hi)


@on_scalars
def shl(x: Any, y: Any) -> Any:
    """Shift left by ``y`` modulo the width."""
    return np.left_shift(x, y & _last_bit(x))


@on_scalars
def shr(x: Any, y: Any) -> Any:
    """Shift right by ``y`` modulo the width; copies of the sign bit move in."""
    return np.right_shift(x, y & _last_bit(x))


@on_scalars
def rotl(x: Any, y: Any) -> Any:
    """Bits moved left by ``y`` modulo the width."""
    bits = 8 * x.dtype.itemsize
    word, count = int(x) % (1 << bits), int(y) % bits
    turned = (word << count | word >> (bits - count)) % (1 << bits)
    return np.asarray(turned, f"u{x.dtype.itemsize}").astype(x.dtype)[()]


@on_scalars
def rotr(x: Any, y: Any) -> Any:
    """Bits moved right by ``y`` modulo the width."""
    return rotl(x, type(x)(-int(y) % (8 * x.dtype.itemsize)))


@on_scalars
def bit_count(x: Any) -> Any:
    """Number of bits set."""
    return (int(x) % (1 << 8 * x.dtype.itemsize)).bit_count()


@on_scalars
def clz(x: Any) -> Any:
    """Number of zero bits above the highest one."""
    bits = 8 * x.dtype.itemsize
    return bits - (int(x) % (1 << bits)).bit_length()


@on_scalars
def ctz(x: Any) -> Any:
    """Number of zero bits below the lowest one."""
    bits = 8 * x.dtype.itemsize
    return bits if x == 0 else (int(x) & -int(x)).bit_length() - 1


@on_scalars
def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once."""
    kind = np.result_type(x, y, z).type
    return kind((native.fma if kind is np.float64 else native.fmaf)(x, y, z))


def _last_bit(x: Any) -> Any:
    return type(x)(8 * np.asarray(x).dtype.itemsize - 1)


@on_scalars
def select(c: Any, x: Any, y: Any) -> Any:
    """``x`` if ``c`` holds, else ``y``."""
    return x if c else y


def frac(x: Any) -> Any:
    """``x`` less its integer part."""
    return x - np.trunc(x)


@on_scalars
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


def stride_of_product(strides: Sequence[int], factors: Sequence[int | None]) -> int | None:
    """By how much a product grows from thread to thread: one factor has to be known."""
    for stride, factor in zip(strides, reversed(factors), strict=True):
        if factor is not None:
            return stride * factor
    return None
