"""Expressions to IR; shared by functions and by the derivative formulas of the built-in table."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import BINARY, COMPARE, UNARY
from kernelcore.errors import KernelNameError, KernelSyntaxError, KernelTypeError
from kernelcore.frontend.apply import apply_op, index, logical, truth
from kernelcore.frontend.branch import branch
from kernelcore.frontend.call import lower_call, lower_dim
from kernelcore.frontend.exact import power
from kernelcore.frontend.scope import Scope, describe, describe_type, host_value, single
from kernelcore.frontend.unsupported import unsupported
from kernelcore.frontend.weak import Value, Weak
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import LOAD, OpKind
from kernelcore.types import ArrayType, boolean

_VALUE = "$value"
_MISSING = object()
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
            return apply_op(scope, UNARY[type(op)].op, [value], node, [operand])
        case ast.Compare():
            return _compare(scope, node)
        case ast.BoolOp(op=op, values=values):
            out = _condition(scope, values[0], node)
            for rest in values[1:]:
                out = short_circuit(
                    scope,
                    type(op),
                    out,
                    lambda rest=rest: _condition(scope, rest, node),
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
    """The truth of an expression; of a number, whether it is not zero."""
    value = lower_expr(scope, node)
    return truth(scope, value, scope.at(node))


def lower_indices(scope: Scope, array: Var, node: ast.Subscript) -> list[Atom]:
    """The indices of one element of ``array``.

    Raises:
        KernelTypeError: Not one integer per dimension.
    """
    assert isinstance(array.type, ArrayType)
    nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(nodes) != array.type.ndim:
        text = ast.unparse(node.value)
        sample = ", ".join("ijkl"[: array.type.ndim])
        raise KernelTypeError(
            f"'{text}' has {array.type.ndim} dimensions, found {len(nodes)} indices",
            scope.loc(node),
            f"index every dimension: {text}[{sample}]",
        )
    return [index(scope, lower_expr(scope, n), scope.at(n)) for n in nodes]


def array_of(scope: Scope, node: ast.expr) -> Var:
    """The array that ``node`` names.

    Raises:
        KernelTypeError: It is no array.
    """
    value = lower_expr(scope, node)
    if not isinstance(value, Var) or not isinstance(value.type, ArrayType):
        raise KernelTypeError(
            f"'{ast.unparse(node)}' cannot be indexed: it is {describe_type(value)}",
            scope.loc(node),
            "only arrays have elements",
        )
    return value


def static_object(scope: Scope, node: ast.expr) -> object:
    """The Python object that a dotted name of an outer scope stands for, else ``_MISSING``."""
    match node:
        case ast.Name(id=name):
            if name in scope.env or name in scope.assigned:
                return _MISSING
            return scope.names.resolve(name, scope.loc(node))
        case ast.Attribute(value=base, attr=attr):
            owner = static_object(scope, base)
            if owner is _MISSING:
                return _MISSING
            found = getattr(owner, attr, _MISSING)
            if found is _MISSING:
                raise KernelNameError(
                    f"'{ast.unparse(base)}', {describe(owner)}, has no attribute '{attr}'",
                    scope.loc(node),
                )
            return found
        case _:
            return _MISSING


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
    with scope.builder.region() as eqns:
        value = right()
    if all(e.op.kind in _CHEAP for e in eqns):
        for eqn in eqns:
            scope.builder.append(eqn)
        if isinstance(value, Const):
            return left if value.value == is_and else value
        scope.at(node)
        return logical(scope, operator, left, value)

    def evaluate() -> None:
        for eqn in eqns:
            scope.builder.append(eqn)
        scope.env[_VALUE] = value

    def decide() -> None:
        scope.env[_VALUE] = Const(boolean, not is_and)

    branch(scope, node, left, *((evaluate, decide) if is_and else (decide, evaluate)))
    out = scope.take(_VALUE, scope.loc(node))
    assert not isinstance(out, Weak)
    return out


def _condition(scope: Scope, node: ast.expr, parent: ast.BoolOp) -> Atom:
    """An operand of ``and`` or ``or``, which must be a truth value."""
    value = lower_expr(scope, node)
    if not isinstance(value, Var | Const) or value.type != boolean:
        word = "and" if isinstance(parent.op, ast.And) else "or"
        raise KernelTypeError(
            f"'{word}' takes bool, found {describe_type(value)}",
            scope.loc(node),
            f"compare it: {ast.unparse(node)} != 0",
        )
    return value


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
    if entry is None:
        raise unsupported(op, scope.loc(node))
    match op, left, right:
        case ast.Pow(), Weak(value=int() as base), Weak(value=int() as exponent) if exponent >= 0:
            return host_value(power(base, exponent), "", scope.loc(node))
        case _:
            return apply_op(scope, entry.op, [left, right], node, operands)


def _compare(scope: Scope, node: ast.Compare) -> Atom:
    left_node = node.left
    first = lower_expr(scope, left_node)

    def link(position: int, left: Value, left_node: ast.expr) -> Atom:
        op, right_node = node.ops[position], node.comparators[position]
        entry = COMPARE.get(type(op))
        if entry is None:
            raise unsupported(op, scope.loc(node))
        right = lower_expr(scope, right_node)
        value = apply_op(scope, entry.op, [left, right], node, [left_node, right_node])
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
            scope.env[_VALUE] = single(lower_expr(scope, operand), scope.loc(operand))

        return lower

    if isinstance(cond, Const):
        return lower_expr(scope, node.body if cond.value else node.orelse)
    atoms = (ast.Name, ast.Constant)
    if isinstance(node.body, atoms) and isinstance(node.orelse, atoms):
        values = [cond, lower_expr(scope, node.body), lower_expr(scope, node.orelse)]
        operands = [node.test, node.body, node.orelse]
        return apply_op(scope, BUILTINS["select"].op, values, node, operands)
    branch(scope, node, cond, choose(node.body), choose(node.orelse))
    return scope.take(_VALUE, scope.loc(node))


def _call(scope: Scope, node: ast.Call) -> Value:
    for part in (*node.args, *node.keywords):
        if isinstance(part, ast.Starred) or (isinstance(part, ast.keyword) and part.arg is None):
            raise unsupported(part, scope.loc(part))
    callee = static_object(scope, node.func)
    if callee is _MISSING:
        raise KernelSyntaxError(
            f"a kernel cannot call '{ast.unparse(node.func)}'",
            scope.loc(node.func),
            "kernels call built-ins, and functions decorated with @func",
        )
    args = [lower_expr(scope, a) for a in node.args]
    keywords = {k.arg: lower_expr(scope, k.value) for k in node.keywords if k.arg is not None}
    return lower_call(scope, callee, args, keywords, node)


def _attribute(scope: Scope, node: ast.Attribute) -> Value:
    loc = scope.loc(node)
    found = static_object(scope, node)
    if found is not _MISSING:
        return host_value(found, ast.unparse(node), loc)
    owner = lower_expr(scope, node.value)
    match node.attr, owner:
        case "shape", Var(type=ArrayType(ndim=ndim)):
            return tuple(lower_dim(scope, owner, axis, scope.at(node)) for axis in range(ndim))
        case "ndim", Var(type=ArrayType(ndim=ndim)):
            return Weak(ndim)
        case _:
            raise KernelTypeError(
                f"{describe_type(owner)} has no attribute '{node.attr}'",
                loc,
                "arrays have .shape and .ndim",
            )


def _subscript(scope: Scope, node: ast.Subscript) -> Value:
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return _extent(scope, node, node.value.value)
    if isinstance(node.slice, ast.Slice):
        raise unsupported(node.slice, scope.loc(node))
    array = array_of(scope, node.value)
    indices = lower_indices(scope, array, node)
    scope.at(node)
    return scope.builder.emit(LOAD, array, *indices)


def _extent(scope: Scope, node: ast.Subscript, array_node: ast.expr) -> Value:
    loc = scope.loc(node)
    array = array_of(scope, array_node)
    axis = lower_expr(scope, node.slice)
    if not isinstance(axis, Weak) or axis.kind != "int":
        raise KernelTypeError(
            "the axis of .shape must be an integer literal", loc, "write x.shape[0]"
        )
    scope.at(node)
    return lower_dim(scope, array, int(axis.value), loc)
