"""Products of composites over their components, each operation rounded to the component's type.

The operations are those of the functions of kernels, in the same order: the bits are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kernelcore.base.errors import KernelTypeError
from kernelcore.language.conversion import Array
from kernelcore.language.types import Dense


def matrix_product(left: Array, right: Array) -> Array:
    """The product of two matrices, or of a matrix and a vector on either side.

    Args:
        left: Shape (n, k) or (k,).
        right: Shape (k, m) or (k,).

    Returns:
        Shape (n, m), without the dimensions that the operands lack.
    """
    rows, columns = np.atleast_2d(left), right.reshape(right.shape[0], -1)
    with np.errstate(all="ignore"):
        total = rows[:, :1] * columns[:1]
        for k in range(1, columns.shape[0]):
            total = total + rows[:, k : k + 1] * columns[k : k + 1]
    return total.reshape(left.shape[:-1] + right.shape[1:])


def hamilton(left: Array, right: Array) -> Array:
    """The Hamilton product of two quaternions; shapes (4,): x, y, z, w."""
    with np.errstate(all="ignore"):
        (x, y, z, w), (a, b, c, d) = left, right
        components = (
            w * a + x * d + y * c - z * b,
            w * b + y * d + z * a - x * c,
            w * c + z * d + x * b - y * a,
            w * d - x * a - y * b - z * c,
        )
    return np.array(components, left.dtype)


def compose(left: Array, right: Array) -> Array:
    """The transform that applies ``right`` first; shapes (7,): position, rotation."""
    turned = _rotated(left[3:], right[:3])
    with np.errstate(all="ignore"):
        return np.concatenate([turned + left[:3], hamilton(left[3:], right[3:])])


def _rotated(rotation: Array, point: Array) -> Array:
    """``point`` turned by a unit quaternion."""
    with np.errstate(all="ignore"):
        axis, w, two = rotation[:3], rotation[3], rotation.dtype.type(2)
        along = axis[0] * point[0] + axis[1] * point[1] + axis[2] * point[2]
        across = np.array(
            [axis[i] * point[j] - axis[j] * point[i] for i, j in ((1, 2), (2, 0), (0, 1))],
            point.dtype,
        )
        return (
            (two * w * w - rotation.dtype.type(1)) * point + two * w * across + two * along * axis
        )


_SAME_TYPE: dict[tuple[str, str], Callable[[Array, Array], Array]] = {
    ("quaternion", "quaternion"): hamilton,
    ("transform", "transform"): compose,
}
_LINEAR = {("matrix", "matrix"), ("matrix", "vector"), ("vector", "matrix")}
_REMEDIES = {
    ("vector", "vector"): "use cw_mul for the product of components, or dot",
    ("quaternion", "vector"): "use quat_rotate",
    ("transform", "vector"): "use transform_point or transform_vector",
}


def product(
    sign: str, left: tuple[Dense, Array], right: tuple[Dense, Array]
) -> tuple[Dense, Array]:
    """The product of two composites, given as types and components, where there is one.

    Raises:
        KernelTypeError: There is none.
    """
    (one, a), (two, b) = left, right
    kinds = (one.kind, two.kind)
    if kinds not in _SAME_TYPE and kinds not in _LINEAR:
        raise no_operator(sign, one, two, _REMEDIES.get(kinds, "use the components"))
    if one.dtype != two.dtype:
        raise no_operator(sign, one, two, f"convert one of them to {one.dtype} or {two.dtype}")
    if kinds in _SAME_TYPE:
        return one, _SAME_TYPE[kinds](a, b)
    if one.extents[-1] != two.extents[0]:
        raise no_operator(sign, one, two, "the inner extents must be equal")
    result = matrix_product(a, b)
    return Dense("vector" if result.ndim == 1 else "matrix", one.dtype, result.shape), result


def no_operator(sign: str, left: Dense, right: Dense | str, remedy: str | None) -> KernelTypeError:
    """The error for an operator that does not take these operands."""
    return KernelTypeError(f"{sign}: no operator for {left} and {right}", remedy=remedy)
