"""Types of parameters that are arrays, as ``array2d[float]`` and ``array(dtype=float)`` ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, Literal, cast, get_args, get_origin

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelTypeError
from kernelcore.language.types import (
    MAX_ARRAY_DIMS,
    ArrayOf,
    StructType,
    can_be_stored,
    type_of,
)
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.indexed_array import IndexedArray


@dataclass(frozen=True, slots=True)
class Annotation:
    """Makes the types of parameters that are arrays of ``ndim`` dimensions.

    Attributes:
        name: The name that users write.
        ndim: The number of dimensions; ``...`` for any.
        is_open: Whether a call may give another number of dimensions.
    """

    name: str
    ndim: int | EllipsisType
    is_open: bool = False

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        raise KernelTypeError(
            f"kc.{self.name} is no class", remedy="derive the class from kc.array"
        )

    def __getitem__(self, dtype: object) -> ArrayOf:
        if not isinstance(dtype, tuple):
            return self._type(dtype, None)
        # ``array[float, Literal[2]]``, as type checkers read a number of dimensions.
        element, *rest = cast("tuple[object, ...]", dtype)
        dims = [n for r in rest for n in (get_args(r) if get_origin(r) is Literal else (r,))]
        if len(dims) != 1:
            raise KernelTypeError(
                f"{self.name}: expected a dtype and one number of dimensions, found {dtype!r}",
                remedy=f"write kc.{self.name}[float, Literal[2]]",
            )
        return self._type(element, cast("int", dims[0]))

    def _type(self, dtype: object, ndim: int | EllipsisType | None) -> ArrayOf:
        element = None if dtype is Any else type_of(dtype)
        if isinstance(element, ArrayOf) or (element is None and dtype is not Any):
            raise KernelTypeError(
                f"{self.name}: expected a scalar, vector or struct as dtype, found {dtype!r}",
                remedy="use float, int, bool, or a type such as kc.float64 or kc.vec3",
            )
        if isinstance(element, StructType) and not can_be_stored(element):
            raise KernelTypeError(
                f"{self.name}: struct {element} holds an indexed array or one of any rank, so "
                "there are no arrays of it",
                remedy="give its arrays numbers of dimensions, or pass them on their own",
            )
        ndim = self.ndim if ndim is None else ndim
        if ndim is ... and self.is_open and not isinstance(self, IndexedArrayAnnotation):
            if isinstance(element, StructType):
                raise KernelTypeError(
                    f"{self.name}: expected numbers or vectors as elements of arrays of any rank, "
                    f"found struct {element}",
                    remedy="give the number of dimensions",
                )
            return ArrayOf(element, 1, is_flat=True)
        lowest, highest = 1, MAX_ARRAY_DIMS
        if not self.is_open and isinstance(self.ndim, int):
            lowest = highest = self.ndim
        is_int = isinstance(ndim, int)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_int or not lowest <= ndim <= highest:
            raise KernelTypeError(
                f"{self.name}: expected {lowest} to {highest} dimensions, found {ndim!r}",
                remedy="use array(dtype=..., ndim=...)",
            )
        return ArrayOf(element, ndim, isinstance(self, IndexedArrayAnnotation))


class ArrayAnnotation(Annotation):
    """Makes the types of array parameters, and data arrays of one number of dimensions.

    ``array2d[vec3]`` and ``array2d(dtype=vec3)`` are annotations; see ``array_type``. With data or
    a shape it makes an Array: ``array1d([1.0, 2.0], dtype=float)``. Arguments as of ``kc.array``.

    Raises:
        KernelTypeError: No type of an element, or a number of dimensions that kernels do not have.
        KernelArgumentError: Data of another shape.
    """

    __slots__ = ()

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, Array) and self.ndim in (..., value.ndim)

    def __call__(self, *args: Any, **options: Any) -> Any:
        found = self.asked_for(args, options)
        if found is None:
            wanted = None if self.is_open else self.ndim
            found = Array(*args, **{"ndim": wanted, **options})
        return found

    def asked_for(self, args: Sequence[Any], options: Mapping[str, Any]) -> ArrayOf | None:
        """The type that a call with these arguments asks for; None if it asks for an array."""
        names = ("data", "dtype", "shape")
        given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **options}
        if len(args) > len(names) or not given.keys() <= {*names, "ndim"}:
            return None
        data, dtype, ndim = given.get("data"), given.get("dtype"), given.get("ndim")
        is_type = data is Any or type_of(data) is not None
        if given.get("shape") is not None or not (data is None or is_type):
            return None
        # As an annotation, it also takes dtype and ndim in order.
        element, dims = (data, ndim if dtype is None else dtype) if is_type else (dtype, ndim)
        return self._type(float if element is None else element, dims)


class IndexedArrayAnnotation(Annotation):
    """Makes types of parameters that are looked up through indices, and arguments for them.

    ``indexedarray(dtype=float, ndim=2)`` and ``indexedarray2d[vec3]`` are annotations as those of
    arrays are; ``indexedarray(data, [indices, None])`` is an IndexedArray.

    Raises:
        KernelTypeError: As for arrays.
        KernelArgumentError: As for IndexedArray.
    """

    __slots__ = ()

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, IndexedArray) and (self.is_open or self.ndim == value.ndim)

    def __call__(
        self,
        data: Any = None,
        indices: Sequence[Any] | None = None,
        *,
        dtype: object = None,
        ndim: int | None = None,
    ) -> Any:
        is_annotation = data is None or data is Any or type_of(data) is not None
        if not is_annotation and dtype is None and ndim is None:
            return IndexedArray(data, () if indices is None else indices)
        if not is_annotation or indices is not None or (data is not None and dtype is not None):
            raise KernelTypeError(
                f"{self.name}: expected a type or an array, found both",
                remedy="annotate with dtype and ndim, or give data and indices",
            )
        return self._type(dtype if dtype is not None else float if data is None else data, ndim)


array1d = ArrayAnnotation("array1d", 1)
array2d = ArrayAnnotation("array2d", 2)
array3d = ArrayAnnotation("array3d", 3)
array4d = ArrayAnnotation("array4d", 4)
arraynd = ArrayAnnotation("arraynd", ..., is_open=True)
indexedarray = IndexedArrayAnnotation("indexedarray", 1, is_open=True)
indexedarray1d = IndexedArrayAnnotation("indexedarray1d", 1)
indexedarray2d = IndexedArrayAnnotation("indexedarray2d", 2)
indexedarray3d = IndexedArrayAnnotation("indexedarray3d", 3)
indexedarray4d = IndexedArrayAnnotation("indexedarray4d", 4)
_ARRAY = ArrayAnnotation("array", 1, is_open=True)


def array_type(dtype: Any) -> ArrayOf:
    """The type of arrays with elements ``dtype``, which ``kc.array[dtype]`` stands for.

    ``dtype`` is a kernelcore scalar type, Python's bool, int (32 bits) or float (32 bits), the
    class of a vector, matrix, quaternion, transform or struct, or typing.Any for any of them. The
    array has one dimension; ``array(dtype=float, ndim=2)`` and ``array2d[float]`` have others.
    ``arraynd[float]``, or ``ndim=...``, is for elementwise kernels: calls give arrays of any rank,
    all of one shape, and the kernel sees their elements in row-major order as one dimension.

    Raises:
        KernelTypeError: No type of an element.
    """
    return _ARRAY[dtype]


def asked_for(args: Sequence[Any], options: Mapping[str, Any]) -> ArrayOf | None:
    """The type that ``kc.array`` of these arguments stands for; None if it makes an array."""
    return _ARRAY.asked_for(args, options)
