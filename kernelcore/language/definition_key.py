"""The key of a kernel: all that decides its IR, read without the compiler.

A function is its code object, its text, its annotations and defaults, and the values that names
around it have. A value is its type and its bits. A kernel that uses any other object has no key.
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import struct
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.errors import KernelError
from kernelcore.language.annotations import (
    Open,
    Wanted,
    bound_of,
    parameter_nodes,
    parameter_type,
    result_types,
)
from kernelcore.language.composite import Composite, value_class
from kernelcore.language.definition import define
from kernelcore.language.function import Function, Overload
from kernelcore.language.source import EXPRESSION_ERRORS, MISSING, Source, read_source
from kernelcore.language.source_check import is_outdated
from kernelcore.language.types import (
    SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    SourceType,
    StructType,
    TypeClass,
    scalar_of_numpy,
)

# What kernels may use of Python itself; the results follow from the arguments.
_PYTHON = (abs, bool, float, int, len, max, min, pow, print, range, round, type)
# Typed loosely: NumPy leaves the bit width of its scalars open.
_NUMPY_SCALAR: type[Any] = np.generic
# Where kernelcore has what its language consists of, besides the table of operations.
_FRONTEND = "kernelcore.frontend."

# A name around a function and the attributes that are read of it: ``kc.types.vec3``.
Path = tuple[str, ...]


class _Unkeyed(Exception):
    """A kernel uses an object that has no key."""


def definition_key(pyfunc: Callable[..., Any], types: Sequence[SourceType]) -> str | None:
    """The key of the kernel ``pyfunc`` for parameters of ``types``; None if it has none.

    Equal keys mean equal IR and equal messages, in every process of this version of kernelcore.
    """
    keys = _Keys()
    try:
        parts = [keys.type_(t) for t in types], keys.source(read_source(pyfunc))
    except (_Unkeyed, KernelError, RecursionError, ValueError):
        # The compiler says what is wrong.
        return None
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


class _Keys:
    """The keys of what one kernel uses, as nested tuples of texts and numbers."""

    def __init__(self) -> None:
        # The places of what has an identity; a function that calls itself is no kernel.
        self.functions: dict[Function, int] = {}
        self.variables: dict[typing.TypeVar, int] = {}

    def source(self, source: Source) -> object:
        """The key of a function, apart from its signature."""
        if not source.text or is_outdated(source.pyfunc, source.tree):
            raise _Unkeyed
        values = [(path, self.path(source, path)) for path in sorted(set(free_paths(source)))]
        return marshal.dumps(source.pyfunc.__code__, 2), source.text, values

    def path(self, source: Source, path: Path) -> object:
        """The key of what a dotted name stands for."""
        found = source.find(path[0])
        if found is MISSING:
            return "missing"
        for place, name in enumerate(path[1:], 1):
            if _is_of_language(found, name):
                return "kernelcore", path[place:]
            try:
                found = getattr(found, name)
            except EXPRESSION_ERRORS:
                return "missing"
        return self.value(found)

    def value(self, obj: Any) -> object:
        """The key of a number, a string, a composite, a struct, a function, a type or a tuple."""
        kind = cast("type[Any]", type(obj))
        scalar = scalar_of_numpy(obj.dtype) if isinstance(obj, _NUMPY_SCALAR) else None
        if scalar is not None:
            return scalar.name, obj.tobytes()
        match obj:
            case None | bool() | str() if kind in (type(None), bool, str):
                return repr(obj)
            case int():
                # Decimal digits of large numbers take long, and Python refuses them.
                return kind.__qualname__, f"{int(obj):x}"
            case float():
                return kind.__qualname__, struct.pack(">d", float(obj))
            case Composite() if value_class(obj.kernel_type) is kind:
                return self.type_(obj.kernel_type), np.asarray(obj).tobytes()
            case Function(is_library=False):
                return self.function(obj)
            case Scalar() | Dense() | StructType() | ArrayOf() | TypeClass():
                return self.type_(obj)
            case _:
                pass
        if kind in (tuple, list, range):
            return kind.__name__, [self.value(m) for m in obj]
        type_ = getattr(kind, "kernel_type", None)
        if isinstance(type_, StructType):
            return self.type_(type_), [self.value(getattr(obj, name)) for name, _ in type_.fields]
        own = vars(obj).get("kernel_type") if isinstance(obj, type) else None
        if isinstance(own, StructType) or (isinstance(own, Dense) and value_class(own) is obj):
            return "class", self.type_(own)
        return _name_of(obj)

    def function(self, function: Function) -> object:
        """The key of a function that kernels call, all overloads of it."""
        if function in self.functions:
            return self.functions[function]
        self.functions[function] = len(self.functions)
        return "function", function.name, [self.overload(o) for o in function.overloads]

    def overload(self, overload: Overload) -> object:
        """The key of one definition of a function."""
        if overload.home is not None:
            raise _Unkeyed
        definition = define(overload)
        defaults = [
            (p.name, self.value(p.default))
            for p in definition.signature.parameters.values()
            if p.default is not p.empty
        ]
        rules = [(kind, self.rule(rule)) for kind, rule in sorted(overload.rules.items())]
        return (
            *(definition.captures, defaults, overload.updates, rules),
            self.signature(definition.source, definition.wanted),
        )

    def rule(self, pyfunc: Callable[..., Any]) -> object:
        """The key of the code of a derivative."""
        source = read_source(pyfunc)
        nodes = parameter_nodes(source)
        return self.signature(source, [parameter_type(source, node) for node in nodes])

    def signature(self, source: Source, wanted: Sequence[Wanted]) -> object:
        """The key of a function, its annotations included."""
        results = result_types(source)
        promised = results and [self.type_(t) for t in results]
        return [self.wanted(w) for w in wanted], promised, self.source(source)

    def wanted(self, wanted: Wanted) -> object:
        """The key of what an annotation asks for."""
        if isinstance(wanted, Open):
            return wanted.name
        if isinstance(wanted, typing.TypeVar):
            place = self.variables.setdefault(wanted, len(self.variables))
            return "variable", place, [self.wanted(limit) for limit in bound_of(wanted)]
        return self.type_(wanted)

    def type_(self, type_: SourceType) -> object:
        """The key of a type: as it prints, but to the last field."""
        match type_:
            case Scalar() if type_ in SCALARS:
                return type_.name
            case TypeClass(name, members):
                return name, [self.type_(m) for m in members]
            case Dense(kind, dtype, shape):
                return kind, self.type_(dtype), shape
            case StructType(name, fields):
                return "struct", name, [(field, self.type_(member)) for field, member in fields]
            case ArrayOf(element, ndim, is_indexed):
                return "array", element and self.type_(element), ndim, is_indexed
            case _:
                raise _Unkeyed


def free_paths(source: Source) -> Iterator[Path]:
    """The dotted names in the body of a function that are none of its variables."""
    code = source.pyfunc.__code__
    for stmt in source.tree.body:
        yield from _paths(stmt, {*code.co_varnames, *code.co_cellvars})


def _paths(node: ast.AST, own: set[str]) -> Iterator[Path]:
    match node:
        case ast.Name(id=name):
            yield from () if name in own else ((name,),)
            return
        case ast.Attribute() if (path := _dotted(node)) is not None:
            yield from () if path[0] in own else (path,)
            return
        case ast.FunctionDef() | ast.Lambda():
            args = node.args
            for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                if any(isinstance(n, ast.Constant) for n in ast.walk(arg)):
                    # Text is an expression once more.
                    raise _Unkeyed
            inner = own | {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        case _:
            inner = own
    for child in ast.iter_child_nodes(node):
        yield from _paths(child, own if isinstance(child, ast.arguments) else inner)


def _dotted(node: ast.expr) -> Path | None:
    """The parts of a dotted name; None of anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


def _is_of_language(owner: object, name: str) -> bool:
    """Whether ``owner.name`` is a function of kernelcore for kernels, imported or not."""
    if owner is not sys.modules["kernelcore"]:
        return False
    home = vars(owner)["__homes__"].get(name)
    if name not in vars(owner):
        return home is None or home.startswith(_FRONTEND)
    if home is None or not home.startswith(_FRONTEND):
        return False
    return vars(sys.modules[home])[name] is vars(owner)[name]


def _name_of(obj: Any) -> object:
    """The key of a function of Python, or of kernelcore, that kernels may use."""
    if any(obj is function for function in _PYTHON):
        return "python", obj.__name__
    try:
        name = getattr(obj, "__name__", None) or getattr(obj, "name", None)
        is_own = str(obj.__module__).startswith("kernelcore.")
    except EXPRESSION_ERRORS:
        raise _Unkeyed from None
    package: Any = sys.modules["kernelcore"]
    if is_own and isinstance(name, str):
        home = package.__homes__.get(name, _FRONTEND)
        if home.startswith(_FRONTEND) and getattr(package, name, None) is obj:
            return "kernelcore", (name,)
    raise _Unkeyed
