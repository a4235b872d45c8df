"""IR as text for the disk cache: reading it makes IR or nothing, and never runs code of the text.

A text is a JSON list of rows, one per object, the kernel last: the name of its class, then its
fields. A field is null, a bool, an integer, a string, or a list that starts with a tag:

    ["at", n]           the object of row n, which comes before
    ["of", ...]         a tuple of fields
    ["float", digits]   the 64 bits of a float
    ["attrs", {...}]    fields by name
    ["op", name], ["scalar", name]
    ["enum", class, value]
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, cast

from kernelcore.base.dataclass import fields
from kernelcore.base.errors import KernelError, SrcLoc
from kernelcore.builtins import OPS
from kernelcore.ir import op as grammar
from kernelcore.ir.core import Const, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Rules
from kernelcore.ir.op import AddForm, Op
from kernelcore.ir.snippet import Snippet, SnippetParam, Use, Variant
from kernelcore.ir.verify import verify
from kernelcore.language.types import SCALARS, ArrayType, Dense, Scalar, StackType

_OPS = {**OPS, **{op.name: op for op in vars(grammar).values() if isinstance(op, Op)}}
_SCALARS = {scalar.name: scalar for scalar in SCALARS}
_CLASSES: dict[str, type] = {
    c.__name__: c
    for c in (
        *(Var, Const, Eqn, Region, Func, SrcLoc, ArrayType, StackType, Dense, Rules),
        *(Snippet, SnippetParam),
    )
}
_ENUMS: dict[str, type[Enum]] = {c.__name__: c for c in (AddForm, Use, Variant)}
# What texts raise that ``dumps`` did not write.
_WRONG = (
    *(ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError),
    *(struct.error, OverflowError, KernelError),
)


class _Writer:
    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        # Values are told apart by identity, since -0.0 equals 0.0; places are many and alike.
        self._places: dict[int | SrcLoc, int] = {}

    def field(self, value: Any) -> Any:
        """``value`` as a field.

        Raises:
            TypeError: It is nothing that IR holds.
        """
        match value:
            case None | bool() | str():
                return value
            case Op():
                return ["op", value.name]
            case Scalar():
                return ["scalar", value.name]
            case Enum():
                return ["enum", type(value).__name__, value.value]
            case tuple():
                return ["of", *map(self.field, cast("tuple[Any, ...]", value))]
            case Mapping():
                named = cast("Mapping[str, Any]", value)
                return ["attrs", {name: self.field(found) for name, found in named.items()}]
            case _ if type(value) is int:
                return value
            case _ if type(value) is float:
                return ["float", struct.pack("<d", value).hex()]
            case _:
                return ["at", self._row(value)]

    def _row(self, value: Any) -> int:
        key = value if isinstance(value, SrcLoc) else id(value)
        if key not in self._places:
            name = type(value).__name__
            if _CLASSES.get(name) is not type(value):
                raise TypeError(f"no IR holds {value!r}")
            row = [name, *(self.field(getattr(value, f.name)) for f in fields(value))]
            self._places[key] = len(self.rows)
            self.rows.append(row)
        return self._places[key]


def dumps(func: Func) -> bytes:
    """``func``, a normalized kernel, for ``loads``."""
    writer = _Writer()
    writer.field(func)
    return json.dumps(writer.rows, separators=(",", ":")).encode()


def loads(stored: bytes) -> Func | None:
    """The kernel that ``dumps`` stored; None of any other text."""
    try:
        func = _read(stored)
        verify(func)
    except _WRONG:
        return None
    return func


def _read(stored: bytes) -> Func:
    made: list[Any] = []

    def field(value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        match value:
            case ["at", int() as place]:
                return made[place]
            case ["of", *values]:
                return tuple(map(field, values))
            case ["float", str() as digits]:
                return struct.unpack("<d", bytes.fromhex(digits))[0]
            case ["attrs", {**named}]:
                return MappingProxyType({name: field(found) for name, found in named.items()})
            case ["op", str() as name]:
                return _OPS[name]
            case ["scalar", str() as name]:
                return _SCALARS[name]
            case ["enum", str() as name, found]:
                return _ENUMS[name](found)
            case _:
                raise TypeError("no field")

    for name, *values in json.loads(stored):
        made.append(_CLASSES[name](*map(field, values)))
    if not isinstance(made[-1], Func):
        raise TypeError("no kernel")
    return made[-1]
