"""Python objects of outer scopes as values of the kernel language."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.builtins import Builtin
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import Leaf, Static, Value, build, describe_object
from kernelcore.ir.core import Const
from kernelcore.language.function import Function
from kernelcore.language.types import (
    SCALARS,
    Dense,
    Scalar,
    StructType,
    boolean,
    has_layout,
    type_of,
)

_STATIC: tuple[type[Any], ...] = (Builtin, Function)


def host_value(obj: object, text: str, loc: SrcLoc | None) -> Value:
    """A number, composite, tuple, type or function of an outer scope as a value.

    Raises:
        KernelTypeError: ``obj`` is none of these.
    """
    whole = cast("Any", obj)
    match obj:
        case bool():
            return Const(boolean, obj)
        case int():
            if obj.bit_length() >= sys.float_info.max_exp:
                raise KernelTypeError(
                    "an integer too large for any type", loc, "write a float, such as 1e30"
                )
            return UntypedLiteral(int(obj))
        case float() if type(obj) is not np.float64:
            return UntypedLiteral(float(obj))
        case tuple() | list() | range():
            members = cast("Sequence[Any]", obj)
            return tuple(host_value(m, f"{text}[{k}]", loc) for k, m in enumerate(members))
        case _:
            pass
    found = cast("type[Any]", obj.__class__)
    for dtype in SCALARS:
        if found is dtype.numpy.type:
            return _const(dtype, whole)
    kind = type_of(found)
    if isinstance(kind, Dense | StructType) and has_layout(kind):
        return build(kind, iter(_scalars(kind, whole)))
    if type_of(whole) is not None or isinstance(whole, _STATIC):
        return Static(whole)
    raise KernelTypeError(
        f"expected a value, found '{text}', {describe_object(whole)}",
        loc,
        "kernels read numbers, vectors, structs and functions of outer scopes; "
        "pass anything else as a parameter",
    )


def _const(dtype: Scalar, value: object) -> Const:
    return Const(dtype, dtype.python(value))  # pyright: ignore[reportArgumentType]


def _scalars(kind: Dense | StructType | Scalar, value: object) -> list[Leaf]:
    """The scalars in ``value``, an object of the Python class of ``kind``."""
    match kind:
        case Scalar():
            return [_const(kind, value)]
        case Dense():
            return [_const(kind.scalar, x) for x in np.asarray(value).ravel()]
        case StructType(fields=fields):
            found: list[Leaf] = []
            for name, member in fields:
                assert isinstance(member, Scalar | Dense | StructType)
                found.extend(_scalars(member, getattr(value, name)))
            return found
