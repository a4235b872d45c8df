"""Closed kernels: their text, their types and plain values around them decide all of their code.

They are lowered from copies of what their names stand for, so nothing else can be read.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import CellType, FunctionType, MappingProxyType
from typing import Any

from kernelcore.base.errors import KernelError
from kernelcore.frontend.annotations import Open, Wanted, parameter_nodes, result_types
from kernelcore.frontend.calls.overloads import Definition, define
from kernelcore.frontend.copies import Copy, copied_value, describe
from kernelcore.frontend.source import EXPRESSION_ERRORS, Source
from kernelcore.language.composite import Composite
from kernelcore.language.function import Function, Overload
from kernelcore.language.types import SourceType

# The attributes that are read of a name, and those that are read of these.
_Inner = dict[str, "_Inner"]


@dataclass(frozen=True, slots=True)
class Closed:
    """A kernel of which all that decides its code is known.

    Attributes:
        source: Its text, with copies of what its names stand for.
        text: What tells it from kernels that may have other code or other messages.
    """

    source: Source
    text: str


def close(source: Source, types: Sequence[SourceType]) -> Closed | None:
    """The kernel ``source`` for parameters of ``types``; None where more may decide its code."""
    described = [describe(type_) for type_ in types]
    try:
        found = None if None in described else _Copier().source(source)
    except RecursionError:
        # A list that holds itself, say; lowering tells where.
        return None
    return found and Closed(found.source, repr((described, found.text)))


class _Owner:
    """An object that kernels read attributes of, as a module, and use for nothing else."""

    def __init__(self, members: Mapping[str, object]) -> None:
        self.__dict__.update(members)


class _Copier:
    """Copies what the functions that one kernel consists of stand on, each function once."""

    def __init__(self) -> None:
        # None also while a function is copied: those that call themselves are no kernels.
        self.functions: dict[Function, Copy | None] = {}

    def source(self, source: Source) -> Closed | None:
        """A function with copies of what its names stand for."""
        outer = _outer_names(source) if source.text else None
        if outer is None:
            return None
        found: dict[str, Copy] = {}
        for name, inner in outer.items():
            try:
                copied = self.copied(source.resolve(name, None), inner)
            except KernelError:
                return None
            if copied is None:
                return None
            found[name] = copied
        text = repr((source.file, source.line_offset, source.text, _texts(found)))
        names = MappingProxyType({name: copy for name, (_, copy) in found.items()})
        return Closed(replace(source, names=names), text)

    def copied(self, obj: object, inner: _Inner) -> Copy | None:
        """A copy of ``obj``, of which the attributes ``inner`` are read; None if it may change."""
        if isinstance(obj, Function) and not inner and not obj.is_library:
            if obj not in self.functions:
                self.functions[obj] = None
                self.functions[obj] = self.function(obj)
            return self.functions[obj]
        if not inner or isinstance(obj, Composite):
            return copied_value(obj)
        found: dict[str, Copy] = {}
        for name, deeper in inner.items():
            try:
                copied = self.copied(getattr(obj, name), deeper)
            except EXPRESSION_ERRORS:
                return None
            if copied is None:
                return None
            found[name] = copied
        return _texts(found), _Owner({name: copy for name, (_, copy) in found.items()})

    def function(self, function: Function) -> Copy | None:
        """A function of the program, all overloads of it."""
        texts: list[str] = []
        copies: list[Overload] = []
        for overload in function.overloads:
            if overload.rules or overload.captures or overload.updates or overload.home is not None:
                return None
            copied = self.overload(overload)
            if copied is None:
                return None
            texts.append(copied[0])
            copies.append(copied[1])
        return f"func {function.name!r} {texts}", Function(function.name, copies)

    def overload(self, overload: Overload) -> tuple[str, Overload] | None:
        """An overload that has been read; what is read of it later is in the copy."""
        definition = define(overload)
        results = result_types(definition.source)
        closed = self.source(definition.source)
        parts = [_described(w) for w in definition.wanted]
        parts += [describe(type_) for type_ in results or ()]
        given: list[tuple[str, str, str]] = []
        params: list[Any] = []
        for param in definition.signature.parameters.values():
            copied = ("", param.default)
            if param.default is not param.empty:
                copied = copied_value(param.default)
            if copied is None:
                return None
            given.append((param.name, param.kind.name, copied[0]))
            params.append(param.replace(default=copied[1]))
        if closed is None or None in parts:
            return None
        pyfunc = _without_names(overload.pyfunc, results)
        signature = definition.signature.replace(parameters=params)
        source = replace(closed.source, pyfunc=pyfunc)
        read = Definition(source, definition.nodes, definition.wanted, signature, ())
        text = repr((closed.text, parts, given, results is None))
        return text, Overload(pyfunc, read=[read])


def _texts(found: Mapping[str, Copy]) -> str:
    return repr({name: text for name, (text, _) in found.items()})


def _described(wanted: Wanted) -> str | None:
    return wanted.value if isinstance(wanted, Open) else describe(wanted)


def _without_names(pyfunc: Any, results: Sequence[SourceType] | None) -> FunctionType:
    """A function like ``pyfunc`` that nothing is around, and that promises ``results``."""
    cells = tuple(CellType() for _ in pyfunc.__code__.co_freevars)
    found = FunctionType(pyfunc.__code__, {}, pyfunc.__name__, None, cells)
    promise: Any = Any if results is None else None
    if results:
        promise = results[0] if len(results) == 1 else tuple[results]
    found.__annotations__ = {"return": promise}
    return found


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
