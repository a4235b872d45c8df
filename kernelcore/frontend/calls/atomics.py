"""Lowering of launch indices and atomics."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kernelcore.base.errors import KernelSyntaxError, KernelTypeError
from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import BINARY, UNARY
from kernelcore.frontend.calls import intrinsics
from kernelcore.frontend.calls.bitcast import lower_bitcast
from kernelcore.frontend.calls.intrinsics import Intrinsic
from kernelcore.frontend.expressions.apply import arguments, index
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.array_view import ElementSlot, Slot, at_slots, require_layout, slots
from kernelcore.frontend.values.composite import operate
from kernelcore.frontend.values.conversion import converted, converted_atoms
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import ArrayValue, Value, build
from kernelcore.ir.core import Atom, Var
from kernelcore.ir.op import ATOMIC, ATOMIC_ADD, ATOMIC_CAS, TID, Op
from kernelcore.language.types import MAX_TID_DIMS, Element, Scalar

_NEG = UNARY[ast.USub].op


def lower_tid(scope: Scope, count: int, node: ast.AST) -> tuple[Var, ...]:
    """The first ``count`` launch indices.

    Raises:
        KernelSyntaxError: Outside of a kernel, or another count than before.
    """
    loc = scope.at(node)
    if not scope.is_kernel:
        raise KernelSyntaxError(
            "tid() is called in a function", loc, "call it in the kernel and pass the index on"
        )
    if not 1 <= count <= MAX_TID_DIMS:
        raise KernelSyntaxError(
            f"tid() gives 1 to {MAX_TID_DIMS} indices, found {count} targets",
            loc,
            "launch over fewer dimensions, and compute the other indices with // and %",
        )
    if scope.grid_rank not in (0, count):
        raise KernelSyntaxError(
            f"tid() gave {scope.grid_rank} indices before, and {count} here",
            loc,
            "unpack the same number of indices everywhere in a kernel",
        )
    scope.grid_rank = count
    return tuple(scope.builder.emit(TID, axis=axis) for axis in range(count))


def _tid(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    if args:
        raise KernelTypeError(
            "tid() takes no arguments", scope.loc(node), f"write {intrinsics.tid.usage}"
        )
    return lower_tid(scope, 1, node)[0]


def _address_of(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    raise KernelTypeError(
        "address_of() outside of an argument for a parameter ref[T]",
        scope.loc(node),
        "annotate the parameter of the function that it is passed to with kc.ref[...]",
    )


def accumulate(
    scope: Scope,
    scalars: Sequence[Slot],
    type_: Element,
    value: Value,
    source: ast.expr,
    node: ast.AST,
) -> Value:
    """Add ``value`` to scalars of an element and return the old ones."""
    return _update(scope, scalars, type_, value, source, node, _ADD)


def negated(scope: Scope, value: Value, type_: Element, source: ast.expr, node: ast.AST) -> Value:
    """``-value``, where ``value`` was lowered from ``source``, so that adding it subtracts."""
    if isinstance(value, UntypedLiteral) and isinstance(type_, Scalar) and type_.kind == "uint":
        # An unsigned type has no negative literals, but its negation wraps.
        value = converted(scope, value, type_, scope.loc(source))
    return operate(scope, _NEG, [value], node, [source])


_Emit = Callable[[Scope, ElementSlot, Atom], Var]


def _emitter(op: Op, **attrs: Any) -> _Emit:
    """Emits ``op`` on an element and a value."""

    def emit(scope: Scope, slot: ElementSlot, value: Atom) -> Var:
        return scope.builder.emit(op, *slot.operands, value, **attrs)

    return emit


_ADD, _EXCHANGE = _emitter(ATOMIC_ADD), _emitter(ATOMIC, update=None)
_MIN, _MAX = (_emitter(ATOMIC, update=BUILTINS[name].op) for name in ("min", "max"))


def _update(
    scope: Scope,
    scalars: Sequence[Slot],
    type_: Element,
    value: Value,
    source: ast.expr,
    node: ast.AST,
    emit: _Emit,
) -> Value:
    """``emit`` for each scalar of an element with that of ``value``; the old element."""
    if emit is not _EXCHANGE and any(s.dtype.kind == "bool" for s in scalars):
        raise KernelTypeError(
            "an atomic on an element of type bool",
            scope.loc(node),
            "use an array of int32, or atomic_exch()",
        )
    atoms = converted_atoms(scope, value, type_, scope.loc(source))
    scope.at(node)
    olds = at_slots(
        scope,
        scalars,
        lambda row: [emit(scope, slot, atom) for slot, atom in zip(row, atoms, strict=True)],
    )
    return build(type_, iter(olds))


def _target(
    scope: Scope, callee: Intrinsic, args: Sequence[Value], node: ast.Call, values: int
) -> tuple[Sequence[Slot], Element]:
    """Where the element that an atomic names lies; ``values`` arguments follow its indices."""
    loc = scope.loc(node)
    view = args[0] if args else None
    if not isinstance(view, ArrayValue):
        raise KernelTypeError(f"{callee.name}() takes an array first", loc, f"write {callee.usage}")
    ndim = len(view.free)
    if len(args) != ndim + 1 + values:
        what = "a value" if values == 1 else "two values"
        raise KernelTypeError(
            f"{callee.name}() on an {view.type} takes {arguments(ndim, 'index')} and {what}, "
            f"found {arguments(len(args) - 1)}",
            loc,
            f"write {callee.usage}",
        )
    pairs = zip(args[1 : 1 + ndim], node.args[1 : 1 + ndim], strict=True)
    indices = [index(scope, v, scope.loc(n)) for v, n in pairs]
    scope.at(node)
    require_layout(view.element, loc)
    return slots(scope, view, indices), view.element


_Lower = Callable[[Scope, Sequence[Value], ast.Call], Value]


def _atomic(callee: Intrinsic, emit: _Emit, *, only: str = "") -> _Lower:
    """The lowering of an atomic with one value; ``only`` names kinds of scalars that it takes."""

    def lower(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
        scalars, type_ = _target(scope, callee, args, node, 1)
        wrong = [s.dtype for s in scalars if only and s.dtype.kind not in only.split()]
        if wrong:
            raise KernelTypeError(
                f"{callee.name}() takes arrays of integers, found {wrong[0]}",
                scope.loc(node),
                "use an array of an integer type",
            )
        return _update(scope, scalars, type_, args[-1], node.args[-1], node, emit)

    return lower


def _atomic_sub(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    scalars, type_ = _target(scope, intrinsics.atomic_sub, args, node, 1)
    value = negated(scope, args[-1], type_, node.args[-1], node)
    return accumulate(scope, scalars, type_, value, node.args[-1], node)


def _atomic_cas(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    scalars, type_ = _target(scope, intrinsics.atomic_cas, args, node, 2)
    if not isinstance(type_, Scalar):
        raise KernelTypeError(
            f"atomic_cas() takes arrays of scalars, found elements of {type_}",
            scope.loc(node),
            "several components cannot be compared at once",
        )
    pairs = zip(args[-2:], node.args[-2:], strict=True)
    atoms = [a for v, n in pairs for a in converted_atoms(scope, v, type_, scope.loc(n))]
    scope.at(node)
    emit = scope.builder.emit
    return at_slots(
        scope, scalars, lambda row: [emit(ATOMIC_CAS, *s.operands, *atoms) for s in row]
    )[0]


_BITS = {
    intrinsics.atomic_and: BINARY[ast.BitAnd].op,
    intrinsics.atomic_or: BINARY[ast.BitOr].op,
    intrinsics.atomic_xor: BINARY[ast.BitXor].op,
}
INTRINSICS: Mapping[Intrinsic, _Lower] = MappingProxyType(
    {
        intrinsics.tid: _tid,
        intrinsics.address_of: _address_of,
        intrinsics.bitcast: lower_bitcast,
        intrinsics.atomic_add: _atomic(intrinsics.atomic_add, _ADD),
        intrinsics.atomic_sub: _atomic_sub,
        intrinsics.atomic_min: _atomic(intrinsics.atomic_min, _MIN),
        intrinsics.atomic_max: _atomic(intrinsics.atomic_max, _MAX),
        intrinsics.atomic_exch: _atomic(intrinsics.atomic_exch, _EXCHANGE),
        intrinsics.atomic_cas: _atomic_cas,
        **{i: _atomic(i, _emitter(ATOMIC, update=op), only="int uint") for i, op in _BITS.items()},
    }
)
