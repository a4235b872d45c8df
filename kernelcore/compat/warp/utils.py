"""``warp.utils``: sums, scans and sorts of whole arrays, by NumPy, and blocks with a scope."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore import ScopedCapture as ScopedCapture
from kernelcore import ScopedMemoryTracker as ScopedMemoryTracker
from kernelcore import ScopedStream as ScopedStream
from kernelcore import ScopedTimer as ScopedTimer
from kernelcore.base.errors import KernelArgumentError
from kernelcore.compat.warp.runtime import ScopedDevice as ScopedDevice
from kernelcore.compat.warp.semantics import DIALECT
from kernelcore.language.dialect import written_in


def map(function: Any, *inputs: Any, **options: Any) -> Any:
    """``kernelcore.map``; functions of Python have Warp's operators, see ``semantics``."""
    own = written_in(function, DIALECT) if isinstance(function, FunctionType) else function
    return kc.map(own, *inputs, **options)


def _require(condition: bool, what: str, remedy: str) -> None:
    if not condition:
        raise KernelArgumentError(what, remedy=remedy)


def _reduced(
    name: str, values: kc.Array, whole: Any, out: kc.Array | None, axis: int | None
) -> kc.Array | float | Any:
    """What ``whole``, the sum over all elements or over ``axis``, is given back as."""
    if out is not None:
        _require(
            out.dtype == values.dtype,
            f"{name}: out: expected an array of {values.element}, found one of {out.element}",
            "give an array of the dtype of the values",
        )
        out.assign(np.reshape(whole, out.layout[0]))
        return out
    if axis is not None:
        return kc.from_numpy(whole, values.dtype, device=str(values.device))
    element = np.asarray(whole)
    return values.dtype(element) if element.ndim else float(element)


def array_sum(
    values: kc.Array,
    out: kc.Array | None = None,
    value_count: int | None = None,
    axis: int | None = None,
) -> Any:
    """The sum of the first ``value_count`` elements, of all by default, or along ``axis``.

    Raises:
        KernelArgumentError: ``out`` has another dtype.
    """
    numbers = values.numpy()
    if axis is None:
        flat = numbers.reshape(values.size, *numbers.shape[values.ndim :])
        return _reduced("array_sum", values, flat[:value_count].sum(0), out, None)
    axis %= values.ndim
    part = np.take(
        numbers, range(numbers.shape[axis] if value_count is None else value_count), axis
    )
    return _reduced("array_sum", values, part.sum(axis, keepdims=True), out, axis)


def array_inner(
    a: kc.Array,
    b: kc.Array,
    out: kc.Array | None = None,
    count: int | None = None,
    axis: int | None = None,
) -> Any:
    """The sum of the products of elements, of vectors their dot products.

    Raises:
        KernelArgumentError: The arrays differ in shape or dtype.
    """
    _require(
        a.shape == b.shape and a.dtype == b.dtype,
        f"array_inner: expected arrays of one shape and dtype, found {a.shape} of {a.element} and "
        f"{b.shape} of {b.element}",
        "convert one of them",
    )
    products = a.numpy() * b.numpy()
    products = products.sum(axis=tuple(range(a.ndim, products.ndim)))
    if axis is None:
        whole = products.reshape(-1)[:count].sum()
    else:
        axis %= a.ndim
        n = products.shape[axis] if count is None else count
        whole = np.take(products, range(n), axis).sum(axis, keepdims=True)
    if out is not None:
        out.assign(np.reshape(whole, out.shape))
        return out
    return float(whole) if axis is None else kc.array(whole, device=str(a.device))


def array_scan(in_array: kc.Array, out_array: kc.Array, inclusive: bool = True) -> None:
    """Running sums of ``in_array`` in ``out_array``, with or without the element itself.

    Raises:
        KernelArgumentError: The arrays differ in size or dtype.
    """
    _require(
        in_array.size == out_array.size and in_array.dtype == out_array.dtype,
        f"array_scan: expected an output of {in_array.size} elements of {in_array.element}, found "
        f"{out_array.size} of {out_array.element}",
        "make it with zeros_like",
    )
    numbers = in_array.numpy()
    sums = np.cumsum(numbers, axis=0, dtype=numbers.dtype)
    if not inclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    out_array.assign(sums)


def radix_sort_pairs(
    keys: kc.Array, values: kc.Array, count: int, begin_bit: int = 0, end_bit: int | None = None
) -> None:
    """Sort the first ``count`` keys, and values with them; equal keys keep their order.

    Raises:
        KernelArgumentError: The arrays hold less than ``2 * count`` elements, as Warp needs, or
            other bits than all are to be compared.
    """
    _require(
        min(keys.size, values.size) >= 2 * count,
        f"radix_sort_pairs: expected arrays of at least {2 * count} elements, found {keys.size} "
        f"keys and {values.size} values",
        "make them twice as long as what is sorted",
    )
    bits = keys.element.numpy.itemsize * 8
    _require(
        begin_bit == 0 and end_bit in (None, bits),
        f"radix_sort_pairs: expected bits 0 to {bits}, found {begin_bit} to {end_bit}",
        "leave begin_bit and end_bit out",
    )
    all_keys, all_values = np.array(keys.numpy()), np.array(values.numpy())
    order = np.argsort(all_keys[:count], kind="stable")
    all_keys[:count], all_values[:count] = all_keys[order], all_values[order]
    keys.assign(all_keys)
    values.assign(all_values)


def segmented_sort_pairs(
    keys: kc.Array,
    values: kc.Array,
    count: int,
    segment_start_indices: kc.Array,
    segment_end_indices: kc.Array | None = None,
) -> None:
    """Sort keys, and values with them, within segments; equal keys keep their order.

    Without ends, a segment ends where the next one starts, and the last start is the last end.

    Raises:
        KernelArgumentError: The arrays hold less than ``2 * count`` elements, as Warp needs.
    """
    _require(
        min(keys.size, values.size) >= 2 * count,
        f"segmented_sort_pairs: expected arrays of at least {2 * count} elements, found "
        f"{keys.size} keys and {values.size} values",
        "make them twice as long as what is sorted",
    )
    starts = segment_start_indices.numpy().tolist()
    ends = starts[1:] if segment_end_indices is None else segment_end_indices.numpy().tolist()
    all_keys, all_values = np.array(keys.numpy()), np.array(values.numpy())
    for start, end in zip(starts, ends, strict=False):
        order = start + np.argsort(all_keys[start:end], kind="stable")
        all_keys[start:end], all_values[start:end] = all_keys[order], all_values[order]
    keys.assign(all_keys)
    values.assign(all_values)


def runlength_encode(
    values: kc.Array,
    run_values: kc.Array,
    run_lengths: kc.Array,
    run_count: kc.Array | None = None,
    value_count: int | None = None,
) -> Any:
    """Runs of equal elements: the value and the length of each, and how many there are."""
    numbers = values.numpy()[:value_count]
    starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
    count = len(starts)
    if count:
        run_values[:count].assign(numbers[starts])
        run_lengths[:count].assign(np.diff(starts, append=len(numbers)).astype(np.int32))
    if run_count is None:
        return count
    run_count.assign(np.array([count], np.int32))
    return run_count


def array_cast(in_array: kc.Array, out_array: kc.Array, count: int | None = None) -> None:
    """Convert the elements of ``in_array`` to the dtype of ``out_array``.

    Raises:
        KernelArgumentError: The arrays differ in size.
    """
    scalars = in_array.numpy().reshape(-1)
    target = np.array(out_array.numpy()).reshape(-1)
    n = scalars.size if count is None else count * (scalars.size // max(in_array.size, 1))
    _require(
        target.size >= n and (count is not None or target.size == n),
        f"array_cast: expected an output of {n} numbers, found {target.size}",
        "make it of the shape of the input",
    )
    with np.errstate(all="ignore"):
        target[:n] = scalars[:n].astype(target.dtype)
    out_array.assign(target.reshape(out_array.layout[0]))
