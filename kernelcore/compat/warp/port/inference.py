"""Types of expressions in kernels, as far as the source tells them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelError
from kernelcore.builtins.declare import Builtin
from kernelcore.compat.warp.port.names import value_of
from kernelcore.compat.warp.port.source_file import SourceFile
from kernelcore.compat.warp.port.values import (
    Elements,
    Fields,
    Operand,
    Shape,
    ValueType,
    sample_of,
    scalar_in,
    type_of_value,
)
from kernelcore.language.function import Function
from kernelcore.language.types import Dense, Scalar, boolean, float32, int32, type_of

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda x, y: x / y,
}
# Operations whose results are not negative if their operands are not.
_KEEP_SIGN = (ast.Add, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.RShift)
_POSITIVE_CALLS = {"abs", "len", "tid", "length", "length_sq", "sqrt", "exp", "uint32", "uint64"}
_KEEP_SIGN_CALLS = {"min", "int", "float", "round", "floor", "int32", "int64", "float32", "float64"}
# Functions of kernels that change memory, and where the type of their result is found.
_OF_FIRST = ("atomic_", "load", "abs", "constant")
_OF_SECOND = {"where", "select"}


@dataclass(slots=True)
class Scope:
    """The variables of a function.

    Attributes:
        file: Where the function is.
        types: The types of its variables so far.
        bound: What each variable is set to, anywhere in the function; None for unknown values.
    """

    file: SourceFile
    types: dict[str, ValueType]
    bound: Mapping[str, Sequence[ast.expr | None]]
    _pending: set[str] = field(default_factory=set[str])
    _calls: int = 0

    def operand(self, node: ast.expr) -> Operand:
        """What is known of ``node``."""
        return Operand(self.type_of(node), self.is_positive(node))

    def type_of(self, node: ast.expr) -> ValueType:
        """The type of ``node``; None if it is not known."""
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                return type_of_value(value)
            case ast.Name(id=name) if name in self.types:
                return self.types[name]
            case ast.Name():
                return self._outer(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript(value=base, slice=index):
                return _element(self.type_of(base), index)
            case ast.Tuple(elts=items):
                return tuple(map(self.type_of, items))
            case ast.UnaryOp(op=op, operand=of):
                return boolean if isinstance(op, ast.Not) else self.type_of(of)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(left, op, right)
            case ast.Compare():
                return boolean
            case ast.BoolOp(values=values):
                return _common([self.type_of(v) for v in values])
            case ast.IfExp(body=body, orelse=other):
                return _common([self.type_of(body), self.type_of(other)])
            case ast.Call():
                return self._call(node)
            case _:
                return None

    def _outer(self, node: ast.expr) -> ValueType:
        """The type of a name from outside of the function."""
        path = self.file.path_of(node)
        if path is not None:
            return type_of_value(value_of(path))
        return self.file.constant_type(node)

    def _attribute(self, node: ast.Attribute) -> ValueType:
        if self.file.path_of(node) is not None:
            return self._outer(node)
        match self.type_of(node.value):
            case Fields(fields):
                return fields.get(node.attr)
            case Elements():
                return Shape() if node.attr == "shape" else None
            case Dense() as dense if len(node.attr) == 1:
                return scalar_in(dense)
            case None:
                return self._outer(node)
            case _:
                return None

    def _operation(self, left: ast.expr, op: ast.operator, right: ast.expr) -> ValueType:
        types = self.type_of(left), self.type_of(right)
        if any(isinstance(t, Dense) for t in types):
            apply = _OPERATORS.get(type(op))
            samples = [sample_of(t) for t in types]
            if apply is None or any(s is None for s in samples):
                return None
            return _evaluated(apply, samples)
        # A number in the source takes the type of what it meets.
        for node, own, other in ((left, *types), (right, types[1], types[0])):
            if _is_number(node) and (other is None or _holds(other, own)):
                return other
        return _common(list(types))

    def _call(self, node: ast.Call) -> ValueType:
        path = self.file.path_of(node.func)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if path is None and name in self.types:
            return None
        if path is not None:
            return self._call_of_warp(path, node)
        made = self.file.type_named(node.func)
        if isinstance(made, Scalar | Dense | Fields):
            return made
        if name == "len":
            return int32
        if name in ("min", "max", "abs", "round"):
            return _common([self.type_of(a) for a in node.args])
        home, own = self.file.home_of(node.func)
        if home is not None and own in home.functions and self._calls < 8:
            given = [self.type_of(a) for a in node.args]
            return returned(home, home.functions[own], given, self._calls + 1)
        return None

    def _call_of_warp(self, path: str, node: ast.Call) -> ValueType:
        name = path.rpartition(".")[2]
        given = [self.type_of(a) for a in node.args]
        if name == "tid":
            return int32
        if name.startswith(_OF_FIRST) and given:
            first = given[0]
            return first.element if isinstance(first, Elements) else first
        if name in _OF_SECOND:
            return _common(given[1:])
        value = value_of(path)
        found = type_of(value)
        if isinstance(found, Scalar | Dense):
            return found
        samples = [sample_of(t) for t in given]
        if not isinstance(value, Builtin | Function) or any(s is None for s in samples):
            return None
        result = _evaluated(cast("Callable[..., Any]", value), samples)
        changes = isinstance(value, Function) and any(o.updates for o in value.overloads)
        return result[0] if changes and isinstance(result, tuple) else result

    def is_positive(self, node: ast.expr) -> bool:
        """Whether ``node`` is certainly not negative."""
        scalar = scalar_in(self.type_of(node))
        if scalar is not None and scalar.kind in ("uint", "bool"):
            return True
        match node:
            case ast.Constant(value=int() | float() as value):
                return value >= 0
            case ast.Name(id=name):
                return self._name_is_positive(name)
            case ast.Subscript(value=base):
                return isinstance(self.type_of(base), Shape)
            case ast.BinOp(left=left, op=op, right=right):
                both = self.is_positive(left) and self.is_positive(right)
                return both and isinstance(op, _KEEP_SIGN)
            case ast.IfExp(body=body, orelse=other):
                return self.is_positive(body) and self.is_positive(other)
            case ast.Call(func=function, args=args):
                path = self.file.path_of(function)
                own = function.id if isinstance(function, ast.Name) else ""
                name = own if path is None else path.rpartition(".")[2]
                if name in _POSITIVE_CALLS:
                    return True
                if name == "max":
                    return any(map(self.is_positive, args))
                return name in _KEEP_SIGN_CALLS and all(map(self.is_positive, args))
            case _:
                return False

    def _name_is_positive(self, name: str) -> bool:
        """Whether every value that the variable or constant ``name`` gets is not negative."""
        if name in self._pending:
            # Of what it is set to itself, the other values decide.
            return True
        if name not in self.bound:
            value = self.file.constant_value(name)
            return isinstance(value, int | float) and value >= 0
        self._pending.add(name)
        try:
            return all(v is not None and self.is_positive(v) for v in self.bound[name])
        finally:
            self._pending.discard(name)


def returned(
    file: SourceFile, function: ast.FunctionDef, given: Sequence[ValueType], calls: int
) -> ValueType:
    """The type of what ``function`` returns for arguments of the types ``given``."""
    annotated = file.type_named(function.returns)
    if annotated is not None:
        return annotated
    scope = Scope(file, {}, bindings(function), _calls=calls)
    for k, parameter in enumerate(function.args.args):
        named = file.type_named(parameter.annotation)
        scope.types[parameter.arg] = given[k] if named is None and k < len(given) else named
    found: list[ValueType] = []
    for node in statements(function.body):
        assign(node, scope)
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(scope.type_of(node.value))
    return next((t for t in found if t is not None), None)


def statements(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of ``body`` and of the blocks in it, in order."""
    found: list[ast.stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, ast.If | ast.For | ast.While):
            found += statements([*node.body, *node.orelse])
    return found


def assign(node: ast.stmt, scope: Scope) -> None:
    """Note the types of the variables that a statement sets."""
    match node:
        case ast.Assign(targets=[target], value=value):
            _bind(target, value, scope)
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            scope.types[name] = scope.file.type_named(annotation)
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
            scope.types[name] = int32
        case _:
            pass


def _bind(target: ast.expr, value: ast.expr, scope: Scope) -> None:
    found = scope.type_of(value)
    if isinstance(target, ast.Name):
        scope.types[target.id] = found
    elif isinstance(target, ast.Tuple):
        is_tid = isinstance(value, ast.Call) and scope.file.path_of(value.func) == "tid"
        for k, item in enumerate(target.elts):
            if isinstance(item, ast.Name):
                parts = found if isinstance(found, tuple) else ()
                scope.types[item.id] = int32 if is_tid else parts[k] if k < len(parts) else None


def bindings(function: ast.FunctionDef) -> dict[str, list[ast.expr | None]]:
    """What each variable of ``function`` is set to; None for a value that is not written there."""
    found: dict[str, list[ast.expr | None]] = {p.arg: [None] for p in function.args.args}

    def enter(target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            found.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple):
            parts = value.elts if isinstance(value, ast.Tuple) else None
            for k, item in enumerate(target.elts):
                is_call = isinstance(value, ast.Call)
                enter(item, parts[k] if parts and k < len(parts) else value if is_call else None)

    for node in statements(function.body):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    enter(target, value)
            case ast.AnnAssign(target=target, value=value):
                enter(target, value)
            case ast.AugAssign(target=target, op=op, value=value):
                enter(target, value if isinstance(op, _KEEP_SIGN) else None)
            case ast.For(target=target, iter=ast.Call(func=ast.Name(id="range"), args=args)):
                # A range that starts at 0 or above, and does not count down, stays there.
                start = args[0] if len(args) > 1 else ast.Constant(0)
                counts_up = len(args) < 3 or isinstance(args[2], ast.Constant)
                enter(target, start if counts_up else None)
            case ast.For(target=target):
                enter(target, None)
            case _:
                pass
    return found


def _evaluated(function: Callable[..., Any], samples: list[Any]) -> ValueType:
    try:
        with np.errstate(all="ignore"):
            return type_of_value(function(*samples))
    except (KernelError, ArithmeticError, TypeError, ValueError, IndexError):
        return None


def _element(base: ValueType, index: ast.expr) -> ValueType:
    """The type of what an index takes from a value of type ``base``."""
    count = len(index.elts) if isinstance(index, ast.Tuple) else 1
    match base:
        case Elements(element, ndim):
            return element if count == ndim else Elements(element, ndim - count)
        case Dense() as dense if not isinstance(index, ast.Slice):
            sample = sample_of(dense)
            is_row = dense.kind == "matrix" and count == 1
            return type_of_value(sample[0]) if is_row else scalar_in(dense)
        case Shape():
            return int32
        case tuple() if isinstance(index, ast.Constant) and isinstance(index.value, int):
            return base[index.value] if index.value < len(base) else None
        case _:
            return None


def _common(types: Sequence[ValueType]) -> ValueType:
    """The type of all of ``types`` that are known; None if they differ."""
    known = [t for t in types if t is not None]
    return known[0] if known and all(t == known[0] for t in known) else None


def _is_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant)


def _holds(other: ValueType, number: ValueType) -> bool:
    """Whether a number of the source can take the type ``other``."""
    return isinstance(other, Scalar) and (other.is_float or number != float32)
