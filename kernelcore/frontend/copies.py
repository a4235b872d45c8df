"""Copies of what names around a kernel stand for, and texts that tell it from all else."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from kernelcore.builtins import BUILTINS, LIBRARY
from kernelcore.frontend.calls.atomics import INTRINSICS
from kernelcore.frontend.calls.compile_time import FACTORIES
from kernelcore.frontend.calls.intrinsics import printf
from kernelcore.language.composite import Composite, restore, value_class
from kernelcore.language.types import (
    PYTHON_SCALARS,
    SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    StructType,
    TypeClass,
)

# What tells a value from every other, and a copy of it that kernels can use.
Copy = tuple[str, object]

_DTYPES: Mapping[type[Any], Scalar] = MappingProxyType({s.numpy.type: s for s in SCALARS})
_PYTHON = (abs, len, max, min, pow, print, range, round, type)


def _known_objects() -> dict[int, str]:
    rows: list[tuple[str, object]] = [*BUILTINS.items(), *LIBRARY.items(), (printf.name, printf)]
    rows += [(intrinsic.name, intrinsic) for intrinsic in INTRINSICS]
    rows += [(s.name, s) for s in SCALARS]
    functions = cast("Sequence[type]", (*PYTHON_SCALARS, *_PYTHON, *FACTORIES))
    rows += [(function.__name__, function) for function in functions]
    return {id(obj): f"{type(obj).__name__} {name}" for name, obj in rows}


# What kernelcore and Python have for kernels, by identity; these objects live for ever.
_KNOWN: Mapping[int, str] = MappingProxyType(_known_objects())


def describe(type_: object) -> str | None:
    """What tells ``type_`` from all other types; None where it is no concrete type."""
    match type_:
        case Scalar() if id(type_) in _KNOWN:
            return type_.name
        case TypeClass(name, members):
            return f"{name}{[m.name for m in members]}"
        case Dense(kind, dtype, shape):
            return f"{kind}({describe(dtype)}, {shape})"
        case StructType(name, fields):
            rows = [(field, describe(member)) for field, member in fields]
            return None if any(text is None for _, text in rows) else f"struct {name!r} {rows}"
        case ArrayOf(element, ndim, is_indexed):
            text = describe(element)
            return None if text is None else f"array({text}, {ndim}, {is_indexed})"
        case _:
            return None


def copied_value(obj: object) -> Copy | None:
    """A copy of a number, a vector, a tuple of these, a type, or the object that kernelcore has.

    None for all else.
    """
    known = _KNOWN.get(id(obj))
    if known is not None:
        return known, obj
    kind = cast("type[Any]", type(obj))
    if kind in _DTYPES:
        return f"{_DTYPES[kind].name} {cast('Any', obj).tobytes().hex()}", obj
    match obj:
        case bool():
            return str(obj), obj
        case int():
            # Decimal digits of large numbers take long, and Python refuses them.
            return f"int {int(obj):x}", int(obj)
        case float():
            # As numbers of subclasses convert themselves.
            number = float(obj)
            return f"float {struct.pack('>d', number).hex()}", number
        case tuple() | list() | range():
            members = [copied_value(m) for m in cast("Sequence[object]", obj)]
            found = [m for m in members if m is not None]
            if len(found) < len(members):
                return None
            return repr([text for text, _ in found]), tuple(copy for _, copy in found)
        case type():
            return _copied_type(getattr(obj, "kernel_type", None), obj)
        case _:
            return _copied_components(obj)


def _copied_type(type_: object, cls: type) -> Copy | None:
    """A class of values, or of a struct."""
    text = describe(type_)
    if text is None:
        return None
    if isinstance(type_, Dense):
        return (f"type {text}", cls) if value_class(type_) is cls else None
    return (f"type {text}", type_) if isinstance(type_, StructType) else None


def _copied_components(obj: object) -> Copy | None:
    """A vector, matrix, quaternion or transform, whose components may be assigned later."""
    if not isinstance(obj, Composite) or value_class(obj.kernel_type) is not type(obj):
        return None
    components = np.asarray(obj)
    text = f"{describe(obj.kernel_type)} {components.tobytes().hex()}"
    return text, restore(obj.kernel_type, components)
