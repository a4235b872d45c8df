"""Scope: what is known while one function is lowered: names, types, and where code goes."""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kernelcore.errors import KernelNameError, KernelTypeError, SrcLoc
from kernelcore.frontend.function import Function
from kernelcore.frontend.weak import Value, Weak, WeakTypes, const, default_type
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Func, Var
from kernelcore.types import SCALARS, ArrayType, Scalar, boolean

TRUE = Const(boolean, True)
FALSE = Const(boolean, False)


@dataclass(frozen=True, slots=True)
class Unset:
    """A name without a value on some path; ``loc`` is an assignment on another path."""

    loc: SrcLoc | None


class Names(Protocol):
    """Where the names of a text come from, and where its nodes are."""

    def loc(self, node: ast.AST) -> SrcLoc | None:
        """The source span of ``node``."""
        ...

    def resolve(self, name: str, loc: SrcLoc | None) -> object:
        """The Python object that ``name`` stands for.

        Raises:
            KernelNameError: It stands for none.
        """
        ...


# (function, positional and keyword arguments, call node) -> (specialised function, its arguments)
Specialize = Callable[
    [Function, Sequence[Value], Mapping[str, Value], ast.Call, "Scope"],
    tuple[Func, list[Atom]],
]


@dataclass(slots=True)
class Scope:
    """The state of lowering one function once.

    Attributes:
        env: Values of the names assigned so far; flags and results have names that start with $.
        assigned: Every name that the function assigns, and so no name of an outer scope.
        grid_rank: Launch dimensions that tid() reads so far.
        loop_depth: How many loops the code is in.
    """

    names: Names
    builder: Builder
    weak: WeakTypes
    specialize: Specialize
    is_kernel: bool
    env: dict[str, Value | Unset] = field(default_factory=lambda: dict[str, Value | Unset]())
    assigned: Mapping[str, SrcLoc | None] = field(
        default_factory=lambda: dict[str, SrcLoc | None]()
    )
    grid_rank: int = 0
    loop_depth: int = 0

    def loc(self, node: ast.AST) -> SrcLoc | None:
        """The source span of ``node``."""
        return self.names.loc(node)

    def at(self, node: ast.AST) -> SrcLoc | None:
        """Give the span of ``node`` to what is emitted next, and return it."""
        self.builder.loc = self.names.loc(node)
        return self.builder.loc

    def lookup(self, node: ast.Name) -> Value:
        """The value of a name: a variable, or a number of an outer scope.

        Raises:
            KernelNameError: Unknown, or not set on every path that leads here.
        """
        loc = self.loc(node)
        found = self.env.get(node.id)
        if found is None and node.id not in self.assigned:
            return host_value(self.names.resolve(node.id, loc), node.id, loc)
        if found is None or isinstance(found, Unset):
            raise _unset(node.id, found, loc)
        return found

    def flag(self, name: str) -> Atom:
        """The value of a control-flow flag."""
        value = self.env.get(name, FALSE)
        assert isinstance(value, Var | Const)
        return value

    def take(self, name: str, loc: SrcLoc | None) -> Atom | Weak:
        """Remove the hidden ``name`` from the environment and return its value."""
        value = self.env.pop(name)
        assert not isinstance(value, Unset)
        return single(value, loc)

    def settle(self, value: Value, loc: SrcLoc | None) -> Atom:
        """``value`` as a single typed atom; an open literal takes its default type.

        Raises:
            KernelTypeError: ``value`` is a tuple.
        """
        return settle(single(value, loc), loc)


def single(value: Value, loc: SrcLoc | None) -> Atom | Weak:
    """``value``, which must not be a tuple.

    Raises:
        KernelTypeError: It is one.
    """
    if not isinstance(value, tuple):
        return value
    if not value:
        raise KernelTypeError("expected a value, found a call that returns nothing", loc)
    raise KernelTypeError(
        f"expected one value, found {len(value)}",
        loc,
        "unpack them: a, b = ...",
    )


def settle(value: Atom | Weak, loc: SrcLoc | None) -> Atom:
    """``value`` typed; an open literal takes its default type."""
    if not isinstance(value, Weak):
        return value
    return const(default_type(value), value.value, loc)


def scalar(value: Value, loc: SrcLoc | None) -> Atom | Weak:
    """``value``, which must be one scalar.

    Raises:
        KernelTypeError: It is an array or a tuple.
    """
    one = single(value, loc)
    if not isinstance(one, Weak) and not isinstance(one.type, Scalar):
        raise KernelTypeError(f"expected a scalar, found {one.type}", loc, "index the array: a[i]")
    return one


def host_value(obj: object, text: str, loc: SrcLoc | None) -> Value:
    """A Python number of an outer scope as a value.

    Raises:
        KernelTypeError: ``obj`` is no number.
    """
    match obj:
        case bool():
            return Const(boolean, obj)
        case int():
            if obj.bit_length() >= sys.float_info.max_exp:
                raise KernelTypeError("an integer too large for any type", loc)
            return Weak(int(obj))
        case float() if not isinstance(obj, np.generic):
            return Weak(obj)
        case _:
            for dtype in SCALARS:
                if type(obj) is dtype.numpy.type:
                    return Const(dtype, np.asarray(obj).item())
    raise KernelTypeError(
        f"expected a value, found '{text}', {describe(obj)}",
        loc,
        "kernels read numbers of outer scopes; pass anything else as a parameter",
    )


def describe(obj: object) -> str:
    """What ``obj`` is, in words."""
    if isinstance(obj, types.ModuleType):
        return "a module"
    if isinstance(obj, type):
        return f"the type {obj.__name__}"
    if isinstance(obj, types.FunctionType | types.BuiltinFunctionType | Function):
        return "a function"
    return f"a Python object of type {type(obj).__name__}"


def _unset(name: str, found: Unset | None, loc: SrcLoc | None) -> KernelNameError:
    if found is None:
        return KernelNameError(
            f"'{name}' is used before it is assigned", loc, f"assign '{name}' above this line"
        )
    where = f", on line {found.loc.line}" if found.loc else ""
    return KernelNameError(
        f"'{name}' may be unset here: it is assigned only on some paths{where}",
        loc,
        f"give '{name}' a value before the branch or loop",
    )


def describe_type(value: Value) -> str:
    """The type of ``value`` in words."""
    match value:
        case Weak():
            return f"{value.kind} literal {value.value}"
        case tuple():
            return f"{len(value)} values"
        case Var() | Const():
            is_array = isinstance(value.type, ArrayType)
            return f"an {value.type}" if is_array else str(value.type)
