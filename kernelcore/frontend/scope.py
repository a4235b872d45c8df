"""Scope: the state of lowering one function: names, types, and the open region."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import (
    KernelError,
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    SrcLoc,
)
from kernelcore.builtins import BUILTINS
from kernelcore.frontend.definite_assignment import is_set
from kernelcore.frontend.doubts import doubt
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.literal_types import (
    TypeInference,
    UntypedLiteral,
    const,
    default_type,
)
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayView,
    Leaf,
    Static,
    Value,
    describe_type,
    flatten,
    has_function,
    hole_count,
    unflatten,
)
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import CAST
from kernelcore.language.dialect import Dialect
from kernelcore.language.function import Function
from kernelcore.language.types import Scalar, boolean

TRUE = Const(boolean, True)
FALSE = Const(boolean, False)


@dataclass(frozen=True, slots=True)
class Unset:
    """A name without a value on some path.

    Attributes:
        loc: An assignment on another path.
        like: A value, or part of one, that it has on another path.
        has_failed: Whether the assignment is an error, which is reported.
    """

    loc: SrcLoc | None
    like: Value | None = None
    has_failed: bool = False


def is_value(found: Value | Unset | None) -> TypeGuard[Value]:
    """Whether ``Scope.get`` found a value."""
    return found is not None and not isinstance(found, Unset)


class Names(Protocol):
    """Where the names of a text come from, and where its nodes are."""

    @property
    def dialect(self) -> Dialect | None:
        """The dialect that the text is written in; None for the kernel language."""
        ...

    def loc(self, node: ast.AST) -> SrcLoc | None:
        """The source span of ``node``."""
        ...

    def resolve(self, name: str, loc: SrcLoc | None) -> object:
        """The Python object that ``name`` stands for.

        Raises:
            KernelNameError: It stands for none.
        """
        ...

    def find(self, name: str) -> object:
        """The Python object that ``name`` stands for, or ``MISSING``."""
        ...

    def namespace(self) -> dict[str, Any]:
        """All names around the text, without Python's own."""
        ...


# (function, positional and keyword arguments, call node, scope) -> the result of the call
CallFunction = Callable[
    [Function, Sequence[Value], Mapping[str, Value], ast.AST, "Scope"],
    Value,
]


@dataclass(slots=True)
class Scope:
    """The state of lowering one function once.

    Attributes:
        env: Values of the names assigned so far; flags and results have names that start with $.
            Composite values are kept as a skeleton under their name, and leaves under ``name.k``.
        assigned: Every name that the function assigns, and so no name of an outer scope.
        captured: Variables of the function around a nested one, which it only reads.
        grid_rank: Launch dimensions that tid() reads so far.
        loop_depth: How many loops the code is in.
    """

    names: Names
    builder: Builder
    inference: TypeInference
    call_function: CallFunction
    is_kernel: bool
    env: dict[str, Value | Unset] = field(default_factory=dict[str, Value | Unset])
    assigned: Mapping[str, SrcLoc | None] = field(default_factory=dict[str, SrcLoc | None])
    captured: frozenset[str] = frozenset()
    grid_rank: int = 0
    loop_depth: int = 0

    def loc(self, node: ast.AST) -> SrcLoc | None:
        """The source span of ``node``."""
        return self.names.loc(node)

    @property
    def counts_back(self) -> bool:
        """Whether known negative indices of arrays count from the end."""
        dialect = self.names.dialect
        return dialect is not None and dialect.counts_back

    def at(self, node: ast.AST) -> SrcLoc | None:
        """Give the span of ``node`` to what is emitted next, and return it."""
        self.builder.loc = self.names.loc(node)
        return self.builder.loc

    def get(self, name: str) -> Value | Unset | None:
        """The value of a variable; None for an unknown name."""
        found = self.env.get(name)
        if found is None or isinstance(found, Unset | Var | Const | UntypedLiteral | Static):
            return found
        leaves: list[Leaf] = []
        while (leaf := self.env.get(leaf_name(name, len(leaves)))) is not None:
            assert isinstance(leaf, Var | Const | UntypedLiteral)
            leaves.append(leaf)
        return unflatten(found, leaves)

    def set(self, name: str, value: Value) -> None:
        """Give a variable a value."""
        self.unset(name)
        if isinstance(value, Var | Const | UntypedLiteral | Static):
            self.env[name] = value
            return
        skeleton, leaves = flatten(value)
        self.env[name] = skeleton
        self.env.update((leaf_name(name, k), leaf) for k, leaf in enumerate(leaves))

    def unset(self, name: str) -> None:
        """Remove a variable."""
        for part in self.parts(name):
            del self.env[part]

    def parts(self, name: str) -> list[str]:
        """The entries of ``env`` that hold a variable."""
        found = [name] if name in self.env else []
        while (part := leaf_name(name, len(found) - 1)) in self.env and found:
            found.append(part)
        return found

    def lookup(self, node: ast.Name) -> Value:
        """The value of a name: a variable, or a constant of an outer scope.

        Raises:
            KernelNameError: Unknown, or not set on every path that leads here.
        """
        loc = self.loc(node)
        if node.id not in self.env and node.id not in self.assigned:
            return host_value(self.resolve(node.id, loc), node.id, loc)
        return self.require(node.id, loc, node)

    def resolve(self, name: str, loc: SrcLoc | None) -> object:
        """The Python object that ``name`` stands for around the text.

        Raises:
            KernelNameError: It stands for none.
        """
        try:
            return self.names.resolve(name, loc)
        except KernelNameError as error:
            if name not in BUILTINS:
                raise
            remedy = f"import kernelcore as kc and write kc.{name}"
            raise KernelNameError(error.message, loc, remedy) from None

    def require(self, name: str, loc: SrcLoc | None, node: ast.AST | None = None) -> Value:
        """The value of a variable; on paths that do not set it, zero.

        Raises:
            KernelNameError: It is set nowhere above, or has no zero value.
        """
        found = self.get(name)
        if found is None and name in self.names.namespace():
            raise KernelNameError(
                f"'{name}' is used before it is assigned: since the function assigns it, it is not "
                f"the '{name}' of the scope around it",
                loc,
                "assign to another name: constants of outer scopes cannot be changed",
            )
        if isinstance(found, Unset) and found.has_failed:
            raise FollowingError("", loc)
        if isinstance(found, Unset) and name not in self.inference.unset:
            start = self._zero_like(name, found)
            if start is not None:
                self.inference.start_over(name, start)
                tree = getattr(self.names, "tree", None)
                if not isinstance(tree, ast.FunctionDef) or not is_set(tree, name, node):
                    doubt(*_unset_texts(name, found, loc))
                return start
        if found is None or isinstance(found, Unset):
            raise _unset(name, found, loc)
        return found

    def _zero_like(self, name: str, found: Unset) -> Value | None:
        """Zero of the type that ``name`` has where it is set; None if that has no zero."""
        if found.like is None:
            return None
        leaves: list[Leaf] = []
        while isinstance(part := self.env.get(leaf_name(name, len(leaves))), Unset):
            leaf = None if part.like is None else self._zero_leaf(part.like)
            if leaf is None:
                return None
            leaves.append(leaf)
        whole = self._zero_leaf(found.like)
        if whole is not None or has_function(found.like):
            return whole
        return unflatten(found.like, leaves) if len(leaves) == hole_count(found.like) else None

    def _zero_leaf(self, like: Value) -> Leaf | None:
        """Zero of the type of the scalar ``like``, open if that is."""
        if not isinstance(like, UntypedLiteral | Const | Var) or isinstance(like, Static):
            return None
        if isinstance(like, UntypedLiteral) or self.inference.is_untyped(like):
            is_float = self.inference.current_type(like).is_float
            return UntypedLiteral(0.0 if is_float else 0)
        return zero(like.type) if isinstance(like.type, Scalar) else None

    def check_own(self, name: str, loc: SrcLoc | None) -> None:
        """Check that the function may change the variable ``name``.

        Raises:
            KernelSyntaxError: It belongs to the function around it.
        """
        if name in self.captured:
            raise KernelSyntaxError(
                f"'{name}' is a variable of the function around this one, which cannot change it",
                loc,
                f"pass '{name}' as a parameter, and return the new value",
            )

    def flag(self, name: str) -> Atom:
        """The value of a control-flow flag."""
        value = self.env.get(name, FALSE)
        assert isinstance(value, Var | Const)
        return value

    def take(self, name: str) -> Value:
        """Remove the hidden ``name`` from the environment and return its value."""
        value = self.get(name)
        assert value is not None
        assert not isinstance(value, Unset)
        self.unset(name)
        return value

    def integer(self, value: Atom | UntypedLiteral, dtype: Scalar) -> Atom:
        """The integer ``value`` as ``dtype``."""
        if isinstance(value, UntypedLiteral | Const):
            return const(dtype, int(value.value), self.builder.loc)
        return value if value.type == dtype else self.builder.emit(CAST, value, dtype=dtype)


def leaf_name(name: str, position: int) -> str:
    """Where ``Scope.env`` keeps a leaf of the variable ``name``; no identifier."""
    return f"{name}.{position}"


def settle(value: Atom | UntypedLiteral, loc: SrcLoc | None) -> Atom:
    """``value`` typed; an open literal takes its default type."""
    if not isinstance(value, UntypedLiteral):
        return value
    return const(default_type(value), value.value, loc)


def scalar(value: Value, loc: SrcLoc | None) -> Atom | UntypedLiteral:
    """``value``, which must be one scalar.

    Raises:
        KernelTypeError: It is composite, an array, a tuple or no value at all.
    """
    match value:
        case UntypedLiteral() | Const() | Var(type=Scalar()):
            return value
        case tuple() if not value:
            raise KernelTypeError(
                "expected a value, found a call that returns nothing, or an empty tuple",
                loc,
                "return a value in the function, or call it on a line of its own",
            )
        case tuple():
            raise KernelTypeError(
                f"expected one value, found {describe_type(value)}",
                loc,
                "unpack them: a, b = ...",
            )
        case ArrayView() | ArrayChoice():
            text, remedy = f"a scalar, found {describe_type(value)}", "index the array: a[i]"
        case Static():
            text, remedy = f"a value, found {describe_type(value)}", "call it: name(...)"
        case _:
            text, remedy = f"a scalar, found {describe_type(value)}", "take a component or a field"
    raise KernelTypeError(f"expected {text}", loc, remedy)


class FollowingError(KernelError):
    """What follows of an error that is reported already."""


def _unset(name: str, found: Unset | None, loc: SrcLoc | None) -> KernelNameError:
    if found is None:
        return KernelNameError(
            f"'{name}' is used before it is assigned", loc, f"assign '{name}' above this line"
        )
    return KernelNameError(*_unset_texts(name, found, loc))


def _unset_texts(name: str, found: Unset, loc: SrcLoc | None) -> tuple[str, SrcLoc | None, str]:
    where = f", on line {found.loc.line}" if found.loc else ""
    return (
        f"'{name}' may be unset here: it is assigned only on some paths{where}",
        loc,
        f"give '{name}' a value before the branch or loop",
    )
