"""Expressions to IR; shared by functions and by the derivative formulas of the built-in table."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Hashable

from kernelcore.base.errors import (
    KernelSyntaxError,
    KernelTypeError,
    reduction_remedy,
)
from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import BINARY, COMPARE, UNARY
from kernelcore.frontend.calls import intrinsics
from kernelcore.frontend.calls.call import lower_call
from kernelcore.frontend.calls.compile_time import FACTORIES, called_type, evaluate_static, static
from kernelcore.frontend.calls.dialect import operator_of_dialect
from kernelcore.frontend.expressions.apply import logical, truth
from kernelcore.frontend.expressions.output import lower_print, lower_printf
from kernelcore.frontend.expressions.static_names import MISSING, static_object, with_places
from kernelcore.frontend.scope import Scope, Unset
from kernelcore.frontend.statements.branch import branch
from kernelcore.frontend.unsupported import unsupported
from kernelcore.frontend.values.array_view import extent, select
from kernelcore.frontend.values.composite import operate
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.integer_folding import power
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.selection import (
    Entry,
    Slice,
    array_index,
    part,
    select_components,
    select_field,
)
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayValue,
    ArrayView,
    CompositeValue,
    NullArray,
    Static,
    Value,
    describe_type,
    members_of,
)
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import OpKind
from kernelcore.language.composite import value_class
from kernelcore.language.function import Function
from kernelcore.language.types import Dense, StructType, boolean

_VALUE = "$value"
_CHEAP = (OpKind.PURE, OpKind.CAST, OpKind.DIM, OpKind.TID)


def lower_expr(scope: Scope, node: ast.expr) -> Value:
    """The value of an expression; its code is appended to the open region.

    Raises:
        KernelSyntaxError: The kernel language does not have it.
        KernelTypeError: Operand types that an operation does not take.
        KernelNameError: An unknown name, or one that may be unset.
    """
    match node:
        case ast.Constant():
            return _literal(scope, node)
        case ast.Name():
            return scope.lookup(node)
        case ast.BinOp():
            return _binary(scope, node)
        case ast.UnaryOp(op=op, operand=operand):
            value = lower_expr(scope, operand)
            if isinstance(op, ast.Not):
                return logical(scope, ast.Not, truth(scope, value, scope.at(node)))
            return operate(scope, UNARY[type(op)].op, [value], node, [operand])
        case ast.Compare():
            return _compare(scope, node)
        case ast.BoolOp(op=op, values=values):
            out = lower_condition(scope, values[0])
            for rest in values[1:]:
                out = short_circuit(
                    scope,
                    type(op),
                    out,
                    lambda rest=rest: lower_condition(scope, rest),
                    rest,
                )
            return out
        case ast.IfExp():
            return _ternary(scope, node)
        case ast.Call():
            return _call(scope, node)
        case ast.Attribute():
            return _attribute(scope, node)
        case ast.Subscript():
            return _subscript(scope, node)
        case ast.Tuple(elts=elts):
            return tuple(lower_expr(scope, e) for e in elts)
        case _:
            raise unsupported(node, scope.loc(node))


def lower_condition(scope: Scope, node: ast.expr) -> Atom:
    """The truth of an expression: a number that is not zero, an array that is not empty."""
    value = lower_expr(scope, node)
    return truth(scope, value, scope.at(node))


def lower_entries(scope: Scope, node: ast.expr) -> list[Entry]:
    """The indices and slices between brackets."""
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    return [_entry(scope, n) for n in nodes]


def _entry(scope: Scope, node: ast.expr) -> Entry:
    if not isinstance(node, ast.Slice):
        return Entry(lower_expr(scope, node), scope.loc(node))
    parts = (node.lower, node.upper, node.step)
    found = Slice(*(None if p is None else lower_expr(scope, p) for p in parts))
    return Entry(found, scope.loc(node))


def short_circuit(
    scope: Scope,
    operator: type[ast.boolop],
    left: Atom,
    right: Callable[[], Atom],
    node: ast.AST,
) -> Atom:
    """``left and right`` (or ``or``); ``right`` runs only where ``left`` does not decide."""
    is_and = issubclass(operator, ast.And)
    if isinstance(left, Const):
        return right() if left.value == is_and else left
    before = scope.env
    scope.env = dict(before)
    with scope.builder.region() as eqns:
        value = right()
    after, scope.env = scope.env, before
    if after == before and all(e.op.kind in _CHEAP for e in eqns):
        for eqn in eqns:
            scope.builder.append(eqn)
        if isinstance(value, Const):
            return left if value.value == is_and else value
        scope.at(node)
        return logical(scope, operator, left, value)

    def evaluate() -> None:
        for eqn in eqns:
            scope.builder.append(eqn)
        scope.env = {**after, _VALUE: value}

    def decide() -> None:
        scope.env[_VALUE] = Const(boolean, not is_and)

    branch(scope, node, left, *((evaluate, decide) if is_and else (decide, evaluate)))
    out = scope.take(_VALUE)
    assert isinstance(out, Var | Const)
    return out


def _literal(scope: Scope, node: ast.Constant) -> Value:
    if isinstance(node.value, bool | int | float):
        return host_value(node.value, ast.unparse(node), scope.loc(node))
    raise unsupported(node, scope.loc(node))


def _binary(scope: Scope, node: ast.BinOp) -> Value:
    left = lower_expr(scope, node.left)
    right = lower_expr(scope, node.right)
    return binary(scope, node.op, left, right, node, [node.left, node.right])


def binary(
    scope: Scope,
    op: ast.operator,
    left: Value,
    right: Value,
    node: ast.AST,
    operands: list[ast.expr],
) -> Value:
    """``left op right``."""
    entry = BINARY.get(type(op))
    is_product = isinstance(op, ast.MatMult) and not isinstance(left, CompositeValue)
    if entry is None or is_product:
        raise unsupported(op, scope.loc(node))
    match op, left, right:
        case ast.Pow(), UntypedLiteral(value=int() as base), UntypedLiteral(
            value=int() as exponent
        ) if exponent >= 0:
            return host_value(power(base, exponent), "", scope.loc(node))
        case _:
            found = operator_of_dialect(scope, op, left, right, node)
    return found or operate(scope, entry.op, [left, right], node, operands)


def _compare(scope: Scope, node: ast.Compare) -> Atom:
    left_node = node.left
    first = lower_expr(scope, left_node)

    def link(position: int, left: Value, left_node: ast.expr) -> Atom:
        op, right_node = node.ops[position], node.comparators[position]
        entry = COMPARE.get(type(op))
        if entry is None:
            raise unsupported(op, scope.loc(node))
        right = lower_expr(scope, right_node)
        value = operate(scope, entry.op, [left, right], node, [left_node, right_node])
        out = truth(scope, value, scope.loc(node))
        if position + 1 == len(node.ops):
            return out
        return short_circuit(
            scope, ast.And, out, lambda: link(position + 1, right, right_node), right_node
        )

    return link(0, first, left_node)


def _ternary(scope: Scope, node: ast.IfExp) -> Value:
    cond = lower_condition(scope, node.test)

    def choose(operand: ast.expr) -> Callable[[], None]:
        def lower() -> None:
            scope.set(_VALUE, lower_expr(scope, operand))

        return lower

    if isinstance(cond, Const):
        return lower_expr(scope, node.body if cond.value else node.orelse)
    atoms = (ast.Name, ast.Constant)
    if isinstance(node.body, atoms) and isinstance(node.orelse, atoms):
        values = [cond, lower_expr(scope, node.body), lower_expr(scope, node.orelse)]
        operands = [node.test, node.body, node.orelse]
        return operate(scope, BUILTINS["where"].op, values, node, operands)
    branch(scope, node, cond, choose(node.body), choose(node.orelse))
    return scope.take(_VALUE)


def _call(scope: Scope, node: ast.Call) -> Value:
    for keyword in node.keywords:
        if keyword.arg is None:
            raise unsupported(keyword, scope.loc(keyword))
    callee = static_object(scope, node.func)
    if callee is builtins.print:
        return lower_print(scope, node, lower_expr)
    if callee is intrinsics.printf:
        return lower_printf(scope, node, lower_expr)
    if callee is static:
        local = {n: v for n in scope.env if (v := scope.get(n)) is not None}
        known = {n: v for n, v in local.items() if not isinstance(v, Unset)}
        return evaluate_static(scope.names, node, known)
    if callee is MISSING:
        callee = _local_callee(scope, node.func)
    if isinstance(callee, Function) and any(o.updates for o in callee.overloads):
        node = with_places(scope, node)
    args: list[Value] = []
    nodes: list[ast.expr] = []
    for arg in node.args:
        found = _spread(scope, arg) if isinstance(arg, ast.Starred) else [(arg, None)]
        nodes.extend(n for n, _ in found)
        args.extend(lower_expr(scope, n) if v is None else v for n, v in found)
    if len(nodes) != len(node.args):
        node = ast.copy_location(ast.Call(node.func, nodes, node.keywords), node)
    keywords = {k.arg: lower_expr(scope, k.value) for k in node.keywords if k.arg is not None}
    return lower_call(scope, callee, args, keywords, node)


def _spread(scope: Scope, star: ast.Starred) -> list[tuple[ast.expr, Value]]:
    """The arguments that ``*value`` stands for, as expressions and as values."""
    members = members_of(lower_expr(scope, star.value))
    if members is None:
        raise KernelTypeError(
            f"'{ast.unparse(star)}': only tuples and vectors can be spread",
            scope.loc(star),
            "write the arguments out",
        )
    places = [ast.Subscript(star.value, ast.Constant(k), ast.Load()) for k in range(len(members))]
    nodes = [ast.fix_missing_locations(ast.copy_location(place, star)) for place in places]
    return list(zip(nodes, members, strict=True))


def _local_callee(scope: Scope, node: ast.expr) -> object:
    """The callee that a kernel computes: ``type(v)``, ``v.dtype``, ``pair[0]``."""
    factory = static_object(scope, node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(factory, Hashable) and factory in FACTORIES:
        args = [lower_expr(scope, a) for a in node.args]
        keywords = {k.arg: lower_expr(scope, k.value) for k in node.keywords if k.arg is not None}
        return called_type(factory, args, keywords, scope.loc(node))
    if isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        value = lower_expr(scope, node)
        if isinstance(value, Static):
            return value.obj
    what = ""
    if isinstance(node, ast.Name):
        what = f", {describe_type(scope.lookup(node))}"
    raise KernelSyntaxError(
        f"a kernel cannot call '{ast.unparse(node)}'{what}",
        scope.loc(node),
        "kernels call built-ins, and functions decorated with @func",
    )


def _attribute(scope: Scope, node: ast.Attribute) -> Value:
    loc = scope.loc(node)
    found = static_object(scope, node)
    if found is not MISSING:
        return host_value(found, ast.unparse(node), loc)
    owner = lower_expr(scope, node.value)
    scope.at(node)
    match node.attr, owner:
        case "shape", ArrayView() | ArrayChoice():
            return tuple(extent(scope, owner, k, loc) for k in range(len(owner.free)))
        case "ndim", ArrayView() | ArrayChoice():
            return UntypedLiteral(len(owner.free))
        case "dtype", ArrayView() | ArrayChoice():
            return Static(owner.element)
        case "dtype", CompositeValue(Dense() as type_, _):
            return Static(type_.dtype)
        case "length", CompositeValue(Dense() as type_, _):
            return UntypedLiteral(type_.extents[0])
        case "shape", Static(NullArray(type_)):
            return (UntypedLiteral(0),) * type_.ndim
        case "dtype" | "length" | "shape", Static(Dense() as type_):
            return host_value(getattr(value_class(type_), node.attr), ast.unparse(node), loc)
        case "shape", CompositeValue(Dense() as type_, _):
            return tuple(UntypedLiteral(n) for n in type_.extents)
        case _, CompositeValue(Dense() | StructType() as type_, _):
            return part(scope, owner, select_field(type_, node, loc))
        case _:
            remedy = (
                "arrays have .shape, .ndim and .dtype, vectors .x .y .z .w, structs their fields"
            )
            if isinstance(owner, ArrayValue) and isinstance(owner.element, Dense | StructType):
                sample = ", ".join("ijkl"[: len(owner.free)])
                remedy = f"index it first: {ast.unparse(node.value)}[{sample}].{node.attr}"
            elif isinstance(owner, ArrayValue):
                remedy = reduction_remedy(node.attr) or remedy
            raise KernelTypeError(
                f"{describe_type(owner)} has no attribute '{node.attr}'", loc, remedy
            )


def _subscript(scope: Scope, node: ast.Subscript) -> Value:
    loc = scope.loc(node)
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        owner = lower_expr(scope, node.value.value)
        if isinstance(owner, ArrayValue):
            return _extent(scope, node, owner)
    owner = lower_expr(scope, node.value)
    entries = lower_entries(scope, node.slice)
    scope.at(node)
    match owner:
        case ArrayView() | ArrayChoice():
            return select(scope, owner, [array_index(scope, e) for e in entries], loc)
        case CompositeValue(type_, _):
            return part(scope, owner, select_components(scope, type_, entries, loc))
        case tuple():
            return _member(scope, owner, entries, node)
        case _:
            raise KernelTypeError(
                f"'{ast.unparse(node.value)}' cannot be indexed: it is {describe_type(owner)}",
                scope.loc(node.value),
                "arrays, vectors, matrices and tuples have elements",
            )


def _member(
    scope: Scope, owner: tuple[Value, ...], entries: list[Entry], node: ast.Subscript
) -> Value:
    """A member of a tuple."""
    at = entries[0].value if len(entries) == 1 else None
    if not isinstance(at, UntypedLiteral) or not isinstance(at.value, int):
        raise KernelTypeError(
            "the index of a tuple must be an integer literal", scope.loc(node), "write t[0]"
        )
    if not -len(owner) <= at.value < len(owner):
        raise KernelTypeError(
            f"index {at.value} is outside of a tuple of {len(owner)}",
            scope.loc(node),
            f"write an index from 0 to {len(owner) - 1}",
        )
    return owner[at.value]


def _extent(scope: Scope, node: ast.Subscript, view: ArrayValue) -> Value:
    loc = scope.loc(node)
    axis = lower_expr(scope, node.slice)
    if not isinstance(axis, UntypedLiteral) or axis.kind != "int":
        raise KernelTypeError(
            "the axis of .shape must be an integer literal", loc, "write x.shape[0]"
        )
    scope.at(node)
    ndim = len(view.free)
    return extent(scope, view, int(axis.value) + (ndim if -ndim <= axis.value < 0 else 0), loc)
