"""Values of structs: named fields that are passed to kernels together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Self, cast
from weakref import WeakValueDictionary

import numpy as np

from kernelcore.base.errors import (
    KernelAttributeError,
    KernelError,
    KernelTypeError,
    suggestion,
)
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.conversion import describe, take_scalar
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Member,
    Scalar,
    StructType,
)
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.described_arrays import descriptor_of
from kernelcore.runtime.array.indexed_array import IndexedArray

_ARRAY_PROTOCOLS = (
    "__array_interface__",
    "__cuda_array_interface__",
    "__dlpack__",
    "__array__",
    "__buffer__",
)


# Classes whose instances are fields as they are, since they have no value yet.
_traced: list[type] = []


def keep_in_structs(traced: type) -> None:
    """Let structs keep instances of ``traced``, which stand for values, in fields of any type.

    Whatever takes such structs converts them.
    """
    _traced.append(traced)


class StructValue:
    """Base of the classes that ``struct`` makes: named fields, which start as zeros.

    Structs are values: assignment to a field copies. A field that holds an array starts as None and
    keeps a reference to the array.
    """

    __slots__ = ("_values",)
    kernel_type: ClassVar[StructType]
    _classes: ClassVar[dict[str, type[StructValue]]]
    _values: dict[str, Any]

    def __init__(self, *args: object, **fields: Any) -> None:
        if args:
            raise KernelTypeError(
                f"{self.kernel_type}(): expected keyword arguments, found {len(args)} positional",
                remedy=f"name the fields: {self.kernel_type}({_field_list(self.kernel_type)})",
            )
        object.__setattr__(
            self, "_values", {n: self._zero(n, m) for n, m in self.kernel_type.fields}
        )
        for name, value in fields.items():
            setattr(self, name, value)

    @classmethod
    def numpy_dtype(cls) -> np.dtype[Any]:
        """The NumPy dtype with the same layout as a C compiler's.

        An array is a uint64, its address, and its extents, one int32 per dimension.
        """
        return cls.kernel_type.numpy

    @classmethod
    def of_fields(cls, values: dict[str, Any]) -> Self:
        """A struct that keeps ``values``, one per field, as they are."""
        made = object.__new__(cls)
        object.__setattr__(made, "_values", values)
        return made

    @classmethod
    def from_numpy(cls, value: Any) -> Self:
        """The struct that a structured scalar, or an array of one element, holds.

        Raises:
            KernelTypeError: A field is missing, of another type, or an array.
        """
        return cls(**_named(cls.kernel_type, value))

    def to_numpy(self) -> Any:
        """The fields as a structured scalar of NumPy; it has the addresses of arrays alone.

        Raises:
            KernelTypeError: An array has another type than its field, or gaps.
        """
        return np.array(self._as_tuple(), self.numpy_dtype())[()]

    def _as_tuple(self) -> tuple[Any, ...]:
        return tuple(
            _described(name, member, value)
            if isinstance(member, ArrayOf)
            else value._as_tuple()
            if isinstance(value, StructValue)
            else value
            for (name, member), value in zip(
                self.kernel_type.fields, self._values.values(), strict=True
            )
        )

    @classmethod
    def _zero(cls, name: str, member: Member) -> Any:
        default: Any = dict(cls.kernel_type.defaults).get(name, 0)
        match member:
            case Scalar():
                return member(default)
            case Dense():
                return value_class(member)(default) if default else value_class(member)()
            case StructType():
                return cls._classes[name]()
            case ArrayOf():
                return None

    def __getattr__(self, name: str) -> Any:
        if name in _slot(self):
            return _slot(self)[name]
        raise _unknown(self.kernel_type, name)

    def __setattr__(self, name: str, value: Any) -> None:
        member = self.kernel_type.field(name)
        if member is None:
            raise _unknown(self.kernel_type, name)
        try:
            self._values[name] = self._taken(name, member, value)
        except KernelTypeError as error:
            message = error.message
            if not message.startswith("struct "):
                message = f"struct {self.kernel_type}, field '{name}' of type {member}: {message}"
            raise KernelTypeError(message, remedy=error.remedy) from None

    def __delattr__(self, name: str) -> None:
        raise KernelAttributeError(
            f"struct {self.kernel_type}: fields cannot be deleted", remedy="assign zeros"
        )

    def _taken(self, name: str, member: Member, value: Any) -> Any:
        """``value`` converted to the type of the field."""
        if isinstance(value, tuple(_traced)):
            return value
        match member:
            case Scalar():
                return take_scalar(member, value)
            case Dense():
                if isinstance(value, Composite) and value.kernel_type != member:
                    raise KernelTypeError(
                        f"expected {member}, found a {value.kernel_type}",
                        remedy=f"convert it: {member}(...)",
                    )
                return value_class(member)(value)
            case StructType():
                return self._classes[name](**_named(member, value))
            case ArrayOf():
                return _array(value)

    def __reduce__(self) -> tuple[Callable[..., StructValue], tuple[()]]:
        return partial(type(self), **self._values), ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        kept = cast("StructValue", other)._values
        arrays = {n for n, m in self.kernel_type.fields if isinstance(m, ArrayOf)}
        return all(
            value is kept[name] if name in arrays else bool(value == kept[name])
            for name, value in self._values.items()
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        texts = [
            f"{name}={value if isinstance(value, np.generic) else repr(value)}"
            for name, value in self._values.items()
        ]
        return f"{self.kernel_type}({', '.join(texts)})"


# The class that was made last of each type; classes of one type hold the same values.
known_classes: WeakValueDictionary[StructType, type[StructValue]] = WeakValueDictionary()


def struct_class(type_: StructType) -> type[StructValue]:
    """A class of values of ``type_``, which a living class has."""
    return known_classes[type_]


def _named(type_: StructType, value: Any) -> dict[str, Any]:
    """The fields of ``value``: a struct, a mapping, or a structured scalar of NumPy."""
    given: object = value
    if isinstance(value, StructValue) and value.kernel_type == type_:
        return {name: getattr(value, name) for name, _ in type_.fields}
    if isinstance(value, Mapping):
        found = dict(cast("Mapping[str, Any]", value))
    else:
        is_numpy = isinstance(given, np.void | np.ndarray)
        record: Any = np.asarray(cast("Any", given)) if is_numpy else None
        if record is None or record.dtype.names is None or record.size != 1:
            raise KernelTypeError(
                f"expected a struct {type_}, found {describe(given)}",
                remedy=f"give a {type_}, a mapping, or a structured scalar",
            )
        found = {name: record.reshape(())[name][()] for name in record.dtype.names}
    for name, _ in type_.fields:
        if name not in found:
            raise KernelTypeError(
                f"struct {type_}: field '{name}' is missing in {describe(given)}",
                remedy=f"give the fields {_field_list(type_)}",
            )
    return found


def struct_fields(type_: StructType, value: Any) -> list[Any]:
    """The fields in order of a struct, a mapping, or a structured scalar of NumPy.

    Raises:
        KernelTypeError: It is none of these, or a field is missing or unknown.
    """
    found = _named(type_, value)
    for name in found:
        if type_.field(name) is None:
            raise _unknown(type_, name)
    return [found[name] for name, _ in type_.fields]


def _array(value: Any) -> Any:
    """``value`` if it may be an array; launches check its elements."""
    given: object = value
    if given is None or isinstance(given, IndexedArray | Mapping | memoryview | bytearray):
        return value
    is_value = isinstance(given, Composite | np.generic)
    if is_value or not any(hasattr(value, protocol) for protocol in _ARRAY_PROTOCOLS):
        raise KernelTypeError(
            f"expected an array, found {describe(value)}", remedy="give a NumPy array, for example"
        )
    return value


def _described(name: str, type_: ArrayOf, value: Any) -> tuple[int, tuple[int, ...]]:
    """What an array of structs holds of the array ``value``, field ``name``."""
    if value is None:
        return 0, (0,) * type_.ndim
    element = type_.element
    dtype = struct_class(element) if isinstance(element, StructType) else type_.dtype
    try:
        array = value if isinstance(value, Array) else Array.sharing(value, dtype)
        return descriptor_of(type_, array)
    except KernelError as error:
        message = f"field '{name}': {error.message}"
        raise KernelTypeError(message, remedy=error.remedy) from None


def _slot(value: StructValue) -> dict[str, Any]:
    """The fields of ``value``; empty while it is constructed."""
    try:
        return object.__getattribute__(value, "_values")
    except AttributeError:
        return {}


def _field_list(type_: StructType) -> str:
    return ", ".join(f"{name}=..." for name, _ in type_.fields)


def _unknown(type_: StructType, name: str) -> KernelAttributeError:
    names = [field for field, _ in type_.fields]
    remedy = suggestion(name, names, f"its fields are {', '.join(names)}")
    return KernelAttributeError(f"struct {type_} has no field '{name}'", remedy=remedy)
