"""Calls: what a callee is decides how a call is lowered."""

from __future__ import annotations

import ast
import builtins
import difflib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from typing import cast as as_type

from kernelcore.builtins import BUILTINS, Builtin
from kernelcore.errors import KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.frontend import intrinsics
from kernelcore.frontend.apply import apply_op, cast, index, signature
from kernelcore.frontend.function import Function
from kernelcore.frontend.intrinsics import Intrinsic
from kernelcore.frontend.scope import Scope, describe, describe_type, scalar, single
from kernelcore.frontend.weak import Choice, Promotion, Site, Value
from kernelcore.ir.core import Var
from kernelcore.ir.op import ATOMIC_ADD, CALL, DIM, TID, Op
from kernelcore.types import MAX_TID_DIMS, ArrayType, Scalar, boolean, scalar_of

# Python's own functions that kernels have, and whether they fold more than two arguments.
_PYTHON: Mapping[object, tuple[str, bool]] = MappingProxyType(
    {
        builtins.abs: ("abs", False),
        builtins.min: ("min", True),
        builtins.max: ("max", True),
        builtins.pow: ("pow", False),
        builtins.round: ("round", False),
    }
)


def lower_call(
    scope: Scope,
    callee: object,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    node: ast.Call,
) -> Value:
    """The value of calling ``callee``; its arguments are lowered already.

    Raises:
        KernelTypeError: The callee does not take these arguments.
        KernelSyntaxError: The kernel language cannot call it.
    """
    loc = scope.at(node)
    dtype = scalar_of(callee)
    if dtype is not None:
        if len(args) != 1 or keywords:
            raise KernelTypeError(
                f"{dtype}() takes 1 argument, found {len(args) + len(keywords)}", loc
            )
        return cast(scope, dtype, args[0], loc)
    if isinstance(callee, Builtin):
        return _call_builtin(scope, as_type(Builtin[..., object], callee).op, args, keywords, node)
    if isinstance(callee, Function):
        return _call_function(scope, callee, args, keywords, node)
    if isinstance(callee, Intrinsic):
        if keywords:
            raise KernelTypeError(f"{callee.name}() takes no keywords", loc, _usage(callee))
        return _INTRINSICS[callee](scope, args, node)
    if callee is builtins.len:
        return _length(scope, [*args, *keywords.values()], node)
    if isinstance(callee, type(builtins.abs)) and callee in _PYTHON:
        name, folds = _PYTHON[callee]
        if folds and len(args) > 2 and not keywords:
            return _fold_left(scope, BUILTINS[name].op, args, node)
        return _call_builtin(scope, BUILTINS[name].op, args, keywords, node)
    raise _not_callable(callee, node, loc)


def _call_builtin(
    scope: Scope,
    op: Op,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    node: ast.Call,
) -> Value:
    nodes = dict(zip(op.params, node.args, strict=False))
    values = dict(zip(op.params, args, strict=False))
    for keyword in node.keywords:
        name = keyword.arg or ""
        if name not in op.params or name in values:
            problem = "an argument given twice" if name in values else "no such argument"
            raise KernelTypeError(
                f"{op.name}(): '{name}': {problem}",
                scope.loc(keyword),
                f"the signature is {signature(op)}",
            )
        values[name], nodes[name] = keywords[name], keyword.value
    if len(args) > len(op.params) or len(values) < len(op.params):
        raise KernelTypeError(
            f"{op.name}() takes {len(op.params)} arguments, found {len(args) + len(keywords)}",
            scope.loc(node),
            f"the signature is {signature(op)}",
        )
    ordered = list(op.params)
    return apply_op(scope, op, [values[n] for n in ordered], node, [nodes[n] for n in ordered])


def _fold_left(scope: Scope, op: Op, args: Sequence[Value], node: ast.Call) -> Value:
    total, total_node = args[0], node.args[0]
    for value, operand in zip(args[1:], node.args[1:], strict=True):
        total = apply_op(scope, op, [total, value], node, [total_node, operand])
    return total


def _call_function(
    scope: Scope,
    callee: Function,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    node: ast.Call,
) -> Value:
    func, atoms = scope.specialize(callee, args, keywords, node, scope)
    scope.at(node)
    outs = scope.builder.emit_all(CALL, atoms, callee=func)
    given = [*args, *keywords.values()]
    if given and all(scope.weak.is_weak(v) for v in given):
        _mark_weak(scope, outs, call_site(node))
    return outs[0] if len(outs) == 1 else outs


def call_site(node: ast.Call) -> Site:
    """What types the results of a call with weak arguments only; they keep their kind."""
    return Site(node, "$call", Promotion.NEVER)


def _mark_weak(scope: Scope, outs: Sequence[Var], site: Site) -> None:
    known = scope.weak.chosen.get(site)
    for out in outs:
        if isinstance(out.type, Scalar) and out.type != boolean:
            is_firm = known is not None and known.firm
            scope.weak.mark(out, site, Choice(out.type, is_firm), ())


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
            f"tid() gives 1 to {MAX_TID_DIMS} indices, found {count} targets", loc
        )
    if scope.grid_rank not in (0, count):
        raise KernelSyntaxError(
            f"tid() gave {scope.grid_rank} indices before, and {count} here",
            loc,
            "unpack the same number of indices everywhere in a kernel",
        )
    scope.grid_rank = count
    return tuple(scope.builder.emit(TID, axis=axis) for axis in range(count))


def lower_dim(scope: Scope, array: Var, axis: int, loc: SrcLoc | None) -> Var:
    """The extent of ``array`` along ``axis``.

    Raises:
        KernelTypeError: It has no such axis.
    """
    assert isinstance(array.type, ArrayType)
    if not 0 <= axis < array.type.ndim:
        raise KernelTypeError(
            f"'{array.name}' has {array.type.ndim} dimensions, found axis {axis}", loc
        )
    return scope.builder.emit(DIM, array, axis=axis)


def _tid(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    if args:
        raise KernelTypeError("tid() takes no arguments", scope.loc(node), _usage(intrinsics.tid))
    return lower_tid(scope, 1, node)[0]


def _atomic_add(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    loc = scope.loc(node)
    array = single(args[0], loc) if args else None
    if not isinstance(array, Var) or not isinstance(array.type, ArrayType):
        raise KernelTypeError(
            "atomic_add() takes an array first", loc, _usage(intrinsics.atomic_add)
        )
    ndim = array.type.ndim
    if len(args) != ndim + 2:
        raise KernelTypeError(
            f"atomic_add() on an {array.type} takes {ndim} indices and a value, "
            f"found {len(args) - 1} arguments",
            loc,
            _usage(intrinsics.atomic_add),
        )
    locs = [scope.loc(a) for a in node.args]
    indices = [index(scope, v, at) for v, at in zip(args[1:-1], locs[1:-1], strict=True)]
    return lower_atomic_add(scope, array, indices, args[-1], node.args[-1], node)


def lower_atomic_add(
    scope: Scope,
    array: Var,
    indices: Sequence[Any],
    value: Value,
    value_node: ast.AST,
    node: ast.AST,
) -> Var:
    """Add ``value`` to an element; what it was before."""
    assert isinstance(array.type, ArrayType)
    loc = scope.loc(value_node)
    dtype = array.type.dtype
    if dtype.kind == "bool":
        raise KernelTypeError(f"cannot add to an element of an {array.type}", scope.loc(node))
    addend = scope.weak.adapt(scalar(value, loc), dtype, loc)
    scope.at(node)
    return scope.builder.emit(ATOMIC_ADD, array, *indices, addend)


_Lower = Callable[[Scope, Sequence[Value], ast.Call], Value]
_INTRINSICS: Mapping[Intrinsic, _Lower] = MappingProxyType(
    {intrinsics.tid: _tid, intrinsics.atomic_add: _atomic_add}
)


def _length(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    loc = scope.loc(node)
    array = single(args[0], loc) if len(args) == 1 and node.args else None
    if not isinstance(array, Var) or not isinstance(array.type, ArrayType):
        found = ", ".join(describe_type(a) for a in args) or "nothing"
        raise KernelTypeError(f"len() takes one array, found {found}", loc)
    return lower_dim(scope, array, 0, loc)


def _usage(callee: Intrinsic) -> str:
    return f"write {callee.usage}"


def _not_callable(callee: object, node: ast.Call, loc: SrcLoc | None) -> KernelSyntaxError:
    text = ast.unparse(node.func)
    last = text.rsplit(".", 1)[-1]
    close = difflib.get_close_matches(last, BUILTINS, 1, 0.8)
    if callee is builtins.range:
        remedy = "range() is for loops: for i in range(n)"
    elif callee is builtins.print:
        remedy = "write values to an array and print them on the host"
    elif callable(callee) and close and not hasattr(callee, "__wrapped__"):
        remedy = f"use the kernelcore built-in {close[0]}()"
    elif callable(callee):
        remedy = "kernels call built-ins, and functions decorated with @func"
    else:
        remedy = None
    return KernelSyntaxError(f"a kernel cannot call '{text}', {describe(callee)}", loc, remedy)
