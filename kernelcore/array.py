"""Array annotations of kernel parameters."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcore.errors import KernelTypeError
from kernelcore.types import MAX_ARRAY_DIMS, ArrayType, scalar_of


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """Makes the types of array parameters: ``array(dtype=float, ndim=2)``, ``array2d[float]``.

    ``dtype`` is a kernelcore scalar type, or Python's bool, int (32 bits) or float (32 bits).
    """

    ndim: int

    def __call__(self, dtype: object = float, ndim: int | None = None) -> ArrayType:
        ndim = self.ndim if ndim is None else ndim
        scalar = scalar_of(dtype)
        if scalar is None:
            raise KernelTypeError(
                f"array: expected a scalar dtype, found {dtype!r}",
                remedy="use float, int, bool, or a type such as kc.float64",
            )
        if not 1 <= ndim <= MAX_ARRAY_DIMS:
            raise KernelTypeError(f"array: expected 1 to {MAX_ARRAY_DIMS} dimensions, found {ndim}")
        return ArrayType(scalar, ndim)

    def __getitem__(self, dtype: object) -> ArrayType:
        return self(dtype)


array = ArrayAnnotation(1)
array2d = ArrayAnnotation(2)
array3d = ArrayAnnotation(3)
array4d = ArrayAnnotation(4)
