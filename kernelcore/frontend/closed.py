"""Closed kernels: their text, their types and plain values around them decide all of their code.

They are lowered from copies of what their names stand for, so nothing else can be read.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from kernelcore.builtins import BUILTINS, LIBRARY
from kernelcore.composite import Composite, restore, value_class
from kernelcore.errors import KernelNameError
from kernelcore.frontend.annotations import parameter_nodes
from kernelcore.frontend.compile_time import FACTORIES
from kernelcore.frontend.intrinsics import printf
from kernelcore.frontend.memory import INTRINSICS
from kernelcore.frontend.source import Source
from kernelcore.types import (
    PYTHON_SCALARS,
    SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    SourceType,
    StructType,
    TypeClass,
)

# The attributes that are read of a name, and those that are read of these.
_Inner = dict[str, "_Inner"]
# What tells a value from every other, and a copy of it that kernels can use.
_Copy = tuple[str, object]

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


@dataclass(frozen=True, slots=True)
class Closed:
    """A kernel of which all that decides its code is known.

    Attributes:
        source: Its text, with copies of what its names stand for.
        text: What tells it from kernels that may have other code or other messages.
    """

    source: Source
    text: str


class _Owner:
    """An object that kernels read attributes of, as a module, and use for nothing else."""

    def __init__(self, members: Mapping[str, object]) -> None:
        self.__dict__.update(members)


def close(source: Source, types: Sequence[SourceType]) -> Closed | None:
    """The kernel ``source`` for parameters of ``types``; None where more may decide its code."""
    described = [describe(type_) for type_ in types]
    outer = _outer_names(source)
    if outer is None or None in described or not source.text:
        return None
    texts = [source.file, str(source.line_offset), source.text, *map(str, described)]
    names: dict[str, object] = {}
    for name, inner in outer.items():
        try:
            copied = _copied(source.resolve(name, None), inner)
        except KernelNameError:
            return None
        if copied is None:
            return None
        texts += [name, copied[0]]
        names[name] = copied[1]
    return Closed(replace(source, names=MappingProxyType(names)), "\0".join(texts))


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


def _outer_names(source: Source) -> dict[str, _Inner] | None:
    """The names that the text reads from around it, and attributes of these."""
    own = {node.arg for node in parameter_nodes(source)}
    paths: list[list[str]] = []
    for node in source.own_nodes():
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                own.add(name)
            case ast.Name() | ast.Attribute():
                paths.append(_path(node))
            case ast.FunctionDef() | ast.Lambda():
                return None
            case _:
                pass
    found: dict[str, _Inner] = {}
    for path in paths:
        inner = found
        for name in path if path and path[0] not in own else ():
            inner = inner.setdefault(name, {})
    return found


def _path(node: ast.AST) -> list[str]:
    """The parts of a dotted name; none of anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def _copied(obj: object, inner: _Inner) -> _Copy | None:
    """A copy of ``obj``, of which the attributes ``inner`` are read; None if it may change."""
    if not inner or isinstance(obj, Composite):
        return _copied_value(obj)
    found: dict[str, _Copy] = {}
    for name, deeper in inner.items():
        try:
            copied = _copied(getattr(obj, name), deeper)
        except AttributeError:
            return None
        if copied is None:
            return None
        found[name] = copied
    texts = {name: text for name, (text, _) in found.items()}
    return repr(texts), _Owner({name: copy for name, (_, copy) in found.items()})


def _copied_value(obj: object) -> _Copy | None:
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
            return f"int {int(obj)}", int(obj)
        case float():
            return f"float {struct.pack('>d', obj).hex()}", float(obj)
        case tuple() | list() | range():
            members = [_copied_value(m) for m in cast("Sequence[object]", obj)]
            found = [m for m in members if m is not None]
            if len(found) < len(members):
                return None
            return repr([text for text, _ in found]), tuple(copy for _, copy in found)
        case type():
            return _copied_type(getattr(obj, "kernel_type", None), obj)
        case _:
            return _copied_components(obj)


def _copied_type(type_: object, cls: type) -> _Copy | None:
    """A class of values, or of a struct."""
    text = describe(type_)
    if text is None:
        return None
    if isinstance(type_, Dense):
        return (f"type {text}", cls) if value_class(type_) is cls else None
    return (f"type {text}", type_) if isinstance(type_, StructType) else None


def _copied_components(obj: object) -> _Copy | None:
    """A vector, matrix, quaternion or transform, whose components may be assigned later."""
    if not isinstance(obj, Composite) or value_class(obj.kernel_type) is not type(obj):
        return None
    components = np.asarray(obj)
    text = f"{describe(obj.kernel_type)} {components.tobytes().hex()}"
    return text, restore(obj.kernel_type, components)
