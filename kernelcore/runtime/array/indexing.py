"""Indices of data arrays, and views of their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from kernelcore.base.errors import KernelArgumentError, KernelTypeError
from kernelcore.language.types import Element, Scalar, StructType
from kernelcore.runtime.array.element_layout import Numbers, numpy_layout


def index_of(index: Any, ndim: int) -> tuple[Any, ...]:
    """``index`` with one integer or slice per dimension.

    Raises:
        KernelTypeError: It is something else.
        IndexError: It has more entries than there are dimensions.
    """
    given = cast("tuple[Any, ...]", index if isinstance(index, tuple) else (index,))
    for one in given:
        is_flag = isinstance(one, bool | np.bool_)
        is_known = isinstance(one, slice | SupportsIndex) or one is Ellipsis
        if is_flag or not is_known or np.ndim(cast("Any", one)) != 0:
            raise KernelTypeError(
                f"expected integers and slices as indices, found {one!r}",
                remedy="index array.numpy() for anything else",
            )
    dots = [k for k, one in enumerate(given) if one is Ellipsis]
    missing = ndim - (len(given) - len(dots))
    if len(dots) > 1 or missing < 0:
        raise IndexError(f"expected at most {ndim} indices, found {len(given)}")
    at = dots[0] if dots else len(given)
    return (*given[:at], *([slice(None)] * missing), *given[at + len(dots) :])


def reshaped(data: Numbers, ndim: int, shape: Sequence[int]) -> Numbers:
    """A view of ``data`` whose first ``ndim`` dimensions become ``shape``.

    Raises:
        KernelArgumentError: There is none.
    """
    try:
        return np.reshape(data, (*shape, *data.shape[ndim:]), copy=False)
    except ValueError:
        raise KernelArgumentError(
            f"reshape: no view of shape {tuple(shape)} of an array of shape {data.shape[:ndim]} "
            f"and strides {data.strides[:ndim]}",
            remedy="give as many elements; contiguous() makes a copy without gaps",
        ) from None


def axis_order(axes: Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """``axes`` as a permutation of the dimensions; they are reversed by default.

    Raises:
        KernelArgumentError: It is none.
    """
    order = tuple(reversed(range(ndim)) if axes is None else axes)
    if sorted(order) != list(range(ndim)):
        raise KernelArgumentError(
            f"transpose: expected axes 0 to {ndim - 1} in some order, found {order}"
        )
    return order


def reinterpreted(data: Numbers, ndim: int, old: Element, new: Element) -> Numbers:
    """A view of ``data``, elements of type ``old``, as elements of type ``new``.

    The components of vectors and matrices that are viewed as scalars become dimensions, and the
    last dimensions of scalars can be viewed as components.

    Raises:
        KernelArgumentError: They have other sizes, or an element has gaps.
    """
    if old == new:
        return data
    mine, wanted = numpy_layout(old), numpy_layout(new)
    is_split = not isinstance(old, StructType) and isinstance(new, Scalar)
    is_joined = isinstance(old, Scalar) and data.shape[-len(wanted[1]) :] == wanted[1] != ()
    if mine[0].itemsize == wanted[0].itemsize and (
        is_split or (is_joined and _is_packed(data, wanted[1]))
    ):
        return data.view(wanted[0])
    layout, extents = numpy_layout(new)
    is_dense = not isinstance(old, StructType) and not isinstance(new, StructType)
    try:
        if is_dense:
            return np.reshape(data.view(layout), (*data.shape[:ndim], *extents), copy=False)
    except ValueError:
        pass
    raise KernelArgumentError(
        f"view: no view of {old} as {new}",
        remedy="view as a type of the same size, as the scalar of a vector, or scalars in a "
        "dimension of components as vectors; kc.array(...) makes a copy",
    )


def _is_packed(data: Numbers, extents: tuple[int, ...]) -> bool:
    """Whether the last dimensions, of ``extents``, lie without gaps."""
    return data.strides[-len(extents) :] == np.empty(extents, data.dtype).strides
