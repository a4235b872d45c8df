"""Array annotations of kernel parameters."""

from __future__ import annotations

from dataclasses import dataclass

from kernelcore.errors import KernelTypeError
from kernelcore.types import MAX_ARRAY_DIMS, ArrayType, scalar_of


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """Makes the types of array parameters: ``array(dtype=float, ndim=2)``, ``array2d[float]``.

    ``dtype`` is a kernelcore scalar type, or Python's bool, int (32 bits) or float (32 bits).
    ``is_open`` says that a call may give another number of dimensions than ``ndim``.

    Raises:
        KernelTypeError: No scalar type, or a number of dimensions that kernels do not have.
    """

    ndim: int
    is_open: bool = False

    def __call__(self, dtype: object = float, ndim: int | None = None) -> ArrayType:
        ndim = self.ndim if ndim is None else ndim
        scalar = scalar_of(dtype)
        if scalar is None:
            raise KernelTypeError(
                f"array: expected a scalar dtype, found {dtype!r}",
                remedy="use float, int, bool, or a type such as kc.float64",
            )
        allowed = range(1, MAX_ARRAY_DIMS + 1) if self.is_open else (self.ndim,)
        if ndim not in allowed:
            raise KernelTypeError(
                f"array: expected {' to '.join(str(n) for n in (allowed[0], allowed[-1]))} "
                f"dimensions, found {ndim}",
                remedy="use array(dtype=..., ndim=...)",
            )
        return ArrayType(scalar, ndim)

    def __getitem__(self, dtype: object) -> ArrayType:
        return self(dtype)


array = ArrayAnnotation(1, is_open=True)
array2d = ArrayAnnotation(2)
array3d = ArrayAnnotation(3)
array4d = ArrayAnnotation(4)
