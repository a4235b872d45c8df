"""The key of a kernel: all that decides its IR, read without the compiler.

A function is its code object, its text, its annotations and defaults, and the values that names
around it have. A value is its type and its bits. A kernel that uses any other object has no key.
"""

from __future__ import annotations

import ast
import marshal
import struct
import sys
import typing
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np

from kernelcore.base.digest import sha256
from kernelcore.base.errors import KernelError
from kernelcore.language.annotations import (
    Open,
    Wanted,
    bound_of,
    parameter_nodes,
    parameter_type,
    result_types,
)
from kernelcore.language.bound_names import MISSING, note_attribute
from kernelcore.language.composite import CompositeClass, value_class
from kernelcore.language.definition import define
from kernelcore.language.function import Function, Overload
from kernelcore.language.source import Source, read_source
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
_NUMPY_SCALARS = frozenset(np.sctypeDict.values())
_CLASSES = type, CompositeClass
_TYPES = (Scalar, Dense, StructType, ArrayOf, TypeClass)
# What the class of a struct has besides methods, properties and constants.
_OF_STRUCTS = {
    *("__module__", "__qualname__", "__doc__", "__slots__", "__firstlineno__"),
    *("__static_attributes__", "kernel_type", "_classes"),
}
# The longest tuples that take less time than the compiler.
_MOST_MEMBERS = 1000
# Their names and annotations mean other things than those of the function itself.
_WITHOUT_KEY = (
    *(ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr),
)
# What ``static`` may evaluate in a kernel that has a key: arithmetic over numbers.
_PLAIN = (
    *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant),
    *(ast.Name, ast.Attribute, ast.expr_context),
)
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
    return sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


class _Keys:
    """The keys of what one kernel uses, as nested tuples of texts and numbers."""

    def __init__(self) -> None:
        # How many members of tuples there are.
        self.members = 0
        # Functions and type variables are told apart by the order in which they are met. A function
        # has its number before it is read, so that reading ends where functions call each other.
        self.functions: dict[Function, int] = {}
        self.variables: dict[typing.TypeVar, int] = {}

    def source(self, source: Source) -> object:
        """The key of a function, apart from its signature."""
        if not source.text:
            raise _Unkeyed
        values = [(path, self.path(source, path)) for path in sorted(self.free_paths(source))]
        # The version of kernelcore decides what a dialect is.
        dialect = source.dialect.name if source.dialect else ""
        return marshal.dumps(source.pyfunc.__code__, 2), source.text, dialect, values

    def free_paths(self, source: Source) -> set[Path]:
        """The dotted names in the body of a function that are none of its variables."""
        code = source.pyfunc.__code__
        own = {*code.co_varnames, *code.co_cellvars}
        found: set[Path] = set()
        pending: list[tuple[ast.AST, bool]] = [(stmt, False) for stmt in source.tree.body]
        while pending:
            node, is_static = pending.pop()
            if isinstance(node, _WITHOUT_KEY) or (is_static and not isinstance(node, _PLAIN)):
                raise _Unkeyed
            path = _dotted(node)
            if path is not None:
                if path[0] not in own:
                    found.add(path)
                    is_wrong = is_static and not self.is_number(source, path)
                    # Elsewhere, ``static`` might be called by another name.
                    if is_wrong or _is_static(source, path):
                        raise _Unkeyed
                elif is_static:
                    # It reads the scope around the function before the function assigns the name.
                    raise _Unkeyed
                continue
            inner: list[ast.AST] = list(ast.iter_child_nodes(node))
            if isinstance(node, ast.Call):
                called = _dotted(node.func)
                if called and called[0] not in own and _is_static(source, called):
                    found.add(called)
                    is_static = True
                    inner = [*node.args, *node.keywords]
            pending += [(child, is_static) for child in inner]
        return found

    def is_number(self, source: Source, path: Path) -> bool:
        """Whether a dotted name is a number of Python or of NumPy itself."""
        found, _ = _follow(source, path)
        return type(found) in (bool, int, float) or type(found) in _NUMPY_SCALARS

    def path(self, source: Source, path: Path) -> object:
        """The key of what a dotted name stands for."""
        found, rest = _follow(source, path)
        if rest:
            return "kernelcore", rest
        return "missing" if found is MISSING else self.value(found)

    def value(self, obj: Any) -> object:
        """The key of a number, a string, a composite, a struct, a function, a type or a tuple.

        It asks the type alone, so that it runs no code of a user.
        """
        kind = cast("type[Any]", type(obj))
        if kind in (type(None), bool, str):
            return repr(obj)
        if kind is int:
            # Decimal digits of large numbers take long, and Python refuses them.
            return "int", f"{obj:x}"
        if kind is float:
            return "float", struct.pack(">d", obj)
        if kind in _NUMPY_SCALARS and (scalar := scalar_of_numpy(obj.dtype)) is not None:
            return scalar.name, obj.tobytes()
        if kind in (tuple, list, range):
            self.members += len(obj)
            if self.members > _MOST_MEMBERS:
                raise _Unkeyed
            return kind.__name__, [self.value(m) for m in obj]
        if kind is Function and not obj.is_library:
            return self.function(obj)
        if kind in _TYPES:
            return self.type_(obj)
        own = _own_type(kind)
        if isinstance(own, StructType):
            return self.type_(own), [self.value(getattr(obj, name)) for name, _ in own.fields]
        if own is not None:
            return self.type_(own), np.asarray(obj).tobytes()
        if kind in _CLASSES and (own := _own_type(obj)) is not None:
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
        rules = [(kind, self.rule(rule)) for kind, rule in sorted(overload.read_rules().items())]
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
            case StructType(name, fields, defaults):
                members = [(field, self.type_(member)) for field, member in fields]
                return "struct", name, members, *defaults
            case ArrayOf(element, ndim, is_indexed):
                return "array", element and self.type_(element), ndim, is_indexed
            case _:
                raise _Unkeyed


def _dotted(node: ast.AST) -> Path | None:
    """The parts of a dotted name; None of anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else None


def _follow(source: Source, path: Path) -> tuple[Any, Path]:
    """What a dotted name stands for; or kernelcore and the names of a function of its language."""
    found = source.find(path[0])
    for place, name in enumerate(path[1:], 1):
        if _is_of_language(found, name):
            return found, path[place:]
        found = _attribute(found, name)
    return found, ()


def _attribute(owner: Any, name: str) -> Any:
    """``owner.name`` where reading it runs no code of a user."""
    kind = cast("type[Any]", type(owner))
    if owner is MISSING:
        return MISSING
    if kind is type(sys.modules["kernelcore"]) or kind in _TYPES:
        return getattr(owner, name, MISSING)
    holders: list[Any] = []
    if kind in (ModuleType, SimpleNamespace):
        holders = [owner]
    elif kind in _CLASSES:
        holders = [*owner.__mro__]
    for holder in holders:
        members = cast("dict[str, Any]", vars(holder))
        if name in members:
            found = note_attribute(owner, name)
            return members[name] if found is MISSING else found
    own = _own_type(kind)
    if isinstance(own, Dense) or (isinstance(own, StructType) and own.field(name) is not None):
        return getattr(owner, name, MISSING)
    raise _Unkeyed


def _own_type(kind: type[Any]) -> Dense | StructType | None:
    """The type of the values of the class ``kind``; None if the class holds more than its type."""
    if type(kind) not in _CLASSES:
        return None
    own = vars(kind).get("kernel_type")
    if type(own) is Dense and value_class(own) is kind:
        return own
    if type(own) is StructType and vars(kind).keys() <= _OF_STRUCTS:
        return own
    return None


def _is_static(source: Source, path: Path) -> bool:
    """Whether a dotted name is ``kernelcore.static``, imported or not."""
    found, rest = _follow(source, path)
    if rest:
        return rest[0] == "static"
    members = vars(sys.modules["kernelcore"])
    return found is not MISSING and found is members.get("static", MISSING)


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
    kind = cast("type[Any]", type(obj))
    home = vars(kind).get("__module__") if type(kind) is type else None
    if kind is FunctionType or str(home).startswith("kernelcore."):
        package: Any = sys.modules["kernelcore"]
        name = getattr(obj, "__name__", None) or getattr(obj, "name", None)
        if isinstance(name, str):
            home = package.__homes__.get(name, _FRONTEND)
            if home.startswith(_FRONTEND) and getattr(package, name, None) is obj:
                return "kernelcore", (name,)
    raise _Unkeyed
