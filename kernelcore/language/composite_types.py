"""The classes of composites by name, and the factories that make any of them.

Names end in the scalar type of a component: none or f for float32, d float64, h float16, b int8,
ub uint8, s int16, us uint16, i int32, ui uint32, l int64, ul uint64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelTypeError
from kernelcore.language import types
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.conversion import scalar_of_numpy
from kernelcore.language.types import AnyFloat, AnyScalar, Dense, Scalar, TypeClass, scalar_of


def vector(*args: Any, length: Any = None, dtype: object = None) -> Any:
    """The class of vectors of ``length`` components; typing.Any stands for any of them.

    ``vector(3, float)`` is ``vector(length=3, dtype=float)``. Other arguments are components, and
    the result is a value, as in a kernel: ``vector(x, y, z, length=3, dtype=float)``. One vector is
    converted: ``vector(v, dtype=kc.float64)``.

    Raises:
        KernelTypeError: No length, no scalar type, or other components.
    """
    if len(args) == 1 and np.ndim(args[0]) == 1:
        length = len(args[0]) if length is None else length
        dtype = _common(args) if dtype is None else dtype
    components, (length, dtype) = _split(args, (length, dtype))
    if components:
        length = len(components) if length is None else length
        dtype = _common(components) if dtype is None else dtype
    made = value_class(Dense("vector", _component(dtype), (_extent("vector", length, 0),)))
    return made(*components) if components else made


def matrix(*args: Any, shape: Any = None, dtype: object = None) -> Any:
    """The class of matrices of ``shape``, rows and columns; typing.Any stands for any of them.

    ``matrix((2, 3), float)`` is ``matrix(shape=(2, 3), dtype=float)``. Other arguments are
    components, and the result is a value, as in a kernel.

    Raises:
        KernelTypeError: No shape of two extents, no scalar type, or other components.
    """
    if len(args) == 1 and np.ndim(args[0]) == 2:
        shape = np.shape(args[0]) if shape is None else shape
        dtype = _common(args) if dtype is None else dtype
    components, (shape, dtype) = _split(args, (shape, dtype))
    dtype = _common(components) if components and dtype is None else dtype
    extents: Sequence[Any] = (Any, Any) if shape is Any else shape
    if not isinstance(extents, tuple | list) or len(extents) != 2:
        raise KernelTypeError(
            f"matrix: expected a shape of two extents, found {shape!r}",
            remedy="use matrix(shape=(rows, columns), dtype=...)",
        )
    rows, columns = (_extent("matrix", n) for n in extents)
    made = value_class(Dense("matrix", _component(dtype), (rows, columns)))
    return made(*components) if components else made


def quaternion(*args: Any, dtype: object = None) -> Any:
    """The class of quaternions of a float type; typing.Any stands for any of them.

    ``quaternion(float)`` is ``quaternion(dtype=float)``. Other arguments are components, and the
    result is a value, as in a kernel.

    Raises:
        KernelTypeError: No float type, or other components.
    """
    return _rotation("quaternion", Dense("quaternion", AnyFloat, (4,)), args, dtype)


def transformation(*args: Any, dtype: object = None) -> Any:
    """The class of rigid transforms of a float type; typing.Any stands for any of them.

    ``transformation(float)`` is ``transformation(dtype=float)``. Other arguments are components,
    and the result is a value, as in a kernel.

    Raises:
        KernelTypeError: No float type, or other components.
    """
    return _rotation("transformation", Dense("transform", AnyFloat, (7,)), args, dtype)


def _rotation(name: str, pattern: Dense, args: tuple[Any, ...], dtype: object) -> Any:
    """The class that ``pattern`` stands for, of ``dtype``; called with the components, if any."""
    components, (dtype,) = _split(args, (dtype,))
    if dtype is None:
        dtype = _common(components) if components else Any
    made = value_class(replace(pattern, dtype=_float(name, dtype)))
    return made(*components) if components else made


def _split(args: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[tuple[Any, ...], Sequence[Any]]:
    """The components among ``args``, and ``given`` completed by the other arguments."""
    missing = [k for k, value in enumerate(given) if value is None]
    if not missing or len(args) > len(missing):
        return args, given
    found = list(given)
    for k, value in zip(missing, args, strict=False):
        found[k] = value
    return (), found


def _common(components: Sequence[Any]) -> Scalar:
    """The type of the first component that has one; float32 of Python's numbers."""
    typed = (_type_of_components(c.dtype) for c in components if hasattr(c, "dtype"))
    return next((t for t in typed if t is not None), types.float32)


def _type_of_components(dtype: Any) -> Scalar | None:
    """The scalar type that ``dtype`` of NumPy or of a composite is."""
    return dtype if isinstance(dtype, Scalar) else scalar_of_numpy(dtype)


def _component(dtype: object) -> Scalar | TypeClass:
    if dtype is Any or isinstance(dtype, TypeClass):
        return dtype if isinstance(dtype, TypeClass) else AnyScalar
    found = scalar_of(dtype)
    if found is None:
        raise KernelTypeError(
            f"expected a scalar dtype, found {dtype!r}",
            remedy="use float, int, bool, or a type such as kc.float64",
        )
    return found


def _float(name: str, dtype: object) -> Scalar | TypeClass:
    found = AnyFloat if dtype is Any else _component(dtype)
    members = found.members if isinstance(found, TypeClass) else (found,)
    if not all(member.is_float for member in members):
        raise KernelTypeError(
            f"{name}: expected a float dtype, found {found}", remedy="use float or kc.float64"
        )
    return found


def _extent(name: str, extent: object, least: int = 1) -> int | None:
    if extent is Any:
        return None
    if isinstance(extent, bool) or not isinstance(extent, int) or extent < least:
        raise KernelTypeError(
            f"{name}: expected an extent of at least {least}, found {extent!r}",
            remedy="give such an integer, or typing.Any in an annotation",
        )
    return extent


_FLOATS = (types.float32, types.float64, types.float16)
_SCALARS = (
    *_FLOATS,
    *(types.int8, types.uint8, types.int16, types.uint16),
    *(types.int32, types.uint32, types.int64, types.uint64),
)
vec2, vec2d, vec2h, vec2b, vec2ub, vec2s, vec2us, vec2i, vec2ui, vec2l, vec2ul = (
    vector(2, dtype) for dtype in _SCALARS
)
vec3, vec3d, vec3h, vec3b, vec3ub, vec3s, vec3us, vec3i, vec3ui, vec3l, vec3ul = (
    vector(3, dtype) for dtype in _SCALARS
)
vec4, vec4d, vec4h, vec4b, vec4ub, vec4s, vec4us, vec4i, vec4ui, vec4l, vec4ul = (
    vector(4, dtype) for dtype in _SCALARS
)
mat22, mat22d, mat22h = (matrix((2, 2), dtype) for dtype in _FLOATS)
mat33, mat33d, mat33h = (matrix((3, 3), dtype) for dtype in _FLOATS)
mat44, mat44d, mat44h = (matrix((4, 4), dtype) for dtype in _FLOATS)
quat, quatd, quath = map(quaternion, _FLOATS)
transform, transformd, transformh = map(transformation, _FLOATS)
spatial_vector, spatial_vectord, spatial_vectorh = (vector(6, dtype) for dtype in _FLOATS)
spatial_matrix, spatial_matrixd, spatial_matrixh = (matrix((6, 6), dtype) for dtype in _FLOATS)
vec2f, vec3f, vec4f, mat22f, mat33f, mat44f = vec2, vec3, vec4, mat22, mat33, mat44
quatf, transformf, spatial_vectorf, spatial_matrixf = (
    quat,
    transform,
    spatial_vector,
    spatial_matrix,
)

# Every class above by its name.
CLASSES: dict[str, type[Any]] = {
    name: found for name, found in list(globals().items()) if hasattr(found, "kernel_type")
}


def _built_in(name: str, *, is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    """An operator on components that a built-in computes, as in kernels."""

    def operator(self: Composite, other: object) -> Any:
        # Looked up by name: this package is below that of the built-ins.
        compute = getattr(sys.modules["kernelcore"], name)
        return compute(other, self) if is_reflected else compute(self, other)

    return operator


for _name in ("mod", "floordiv", "pow"):
    setattr(Composite, f"__{_name}__", _built_in(_name))
    setattr(Composite, f"__r{_name}__", _built_in(_name, is_reflected=True))


def single(value: Any) -> Any:
    """A composite of float64 as one of float32; anything else as it is."""
    if not isinstance(value, Composite) or value.kernel_type.dtype != types.float64:
        return value
    made = value_class(replace(value.kernel_type, dtype=types.float32))
    return made._of(np.asarray(value).astype(np.float32))
