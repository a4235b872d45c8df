"""Calls, dispatched on the kind of their callee."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING
from typing import cast as as_type

from kernelcore.base.errors import (
    KernelSyntaxError,
    KernelTypeError,
    SrcLoc,
    reduction_remedy,
)
from kernelcore.base.lazy import Deferred
from kernelcore.builtins import BUILTINS, LIBRARY, Builtin
from kernelcore.frontend.calls import compile_time
from kernelcore.frontend.calls.array_at import array_at
from kernelcore.frontend.calls.atomics import INTRINSICS
from kernelcore.frontend.calls.intrinsics import Intrinsic
from kernelcore.frontend.calls.snippet import NativeFunction, lower_snippet_call
from kernelcore.frontend.derivatives.gradient import Gradient, grad, gradient_of, lower_gradient
from kernelcore.frontend.expressions.apply import arguments, cast
from kernelcore.frontend.scope import Scope, scalar
from kernelcore.frontend.values.array_view import extent
from kernelcore.frontend.values.composite import construct, operate
from kernelcore.frontend.values.literal_types import UntypedLiteral, cast_name
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayValue,
    ArrayView,
    CompositeValue,
    NullArray,
    Static,
    Value,
    describe_object,
    describe_type,
)
from kernelcore.ir.builder import zero
from kernelcore.ir.op import Op
from kernelcore.language.function import Function
from kernelcore.language.types import Dense, Scalar, StructType, type_of

# Few calls are mistakes.
if TYPE_CHECKING:
    import difflib
else:
    difflib = Deferred("difflib")

# Python's functions that kernels may call, and whether they accept more than two arguments.
_PYTHON: Mapping[object, tuple[str, bool]] = MappingProxyType(
    {
        builtins.abs: ("abs", False),
        builtins.min: ("min", True),
        builtins.max: ("max", True),
        builtins.pow: ("pow", False),
        builtins.round: ("round", False),
    }
)
# Built-ins that accept two or more arguments.
_FOLDED = (BUILTINS["min"].op, BUILTINS["max"].op)


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
    if isinstance(callee, Builtin):
        return _call_builtin(scope, as_type(Builtin[..., object], callee).op, args, keywords, node)
    if isinstance(callee, Function):
        return scope.call_function(callee, args, keywords, node, scope)
    if isinstance(callee, NativeFunction):
        return lower_snippet_call(scope, callee, args, keywords, node)
    if callee is grad:
        return gradient_of(args, keywords, loc)
    if isinstance(callee, Gradient):
        return lower_gradient(scope, callee, args, keywords, node, lower_call)
    if isinstance(callee, Intrinsic):
        return INTRINSICS[callee](scope, _in_order(callee, args, keywords, loc), node)
    type_ = type_of(callee)
    if isinstance(type_, Scalar):
        if not args and not keywords:
            return zero(type_)
        if len(args) != 1 or keywords:
            raise KernelTypeError(
                f"{type_}() takes 1 argument, found {len(args) + len(keywords)}",
                loc,
                f"write {cast_name(type_)}(x)",
            )
        return cast(scope, type_, args[0], loc)
    if isinstance(type_, Dense | StructType):
        return construct(scope, compile_time.concrete(type_, loc), args, keywords, node)
    if compile_time.makes_zeros(callee):
        return construct(scope, compile_time.zeros_type(args, keywords, loc), [], {}, node)
    if compile_time.makes_array(callee):
        return array_at(scope, args, keywords, loc)
    if callee is builtins.len:
        return _length(scope, [*args, *keywords.values()], node)
    if callee is builtins.type:
        return _type(scope, args, node)
    if isinstance(callee, Hashable) and callee in compile_time.FACTORIES:
        made, rest = compile_time.make_type(callee, args, keywords, loc)
        return construct(scope, made, rest, {}, node)
    if isinstance(callee, type(builtins.abs)) and callee in _PYTHON:
        name, folds = _PYTHON[callee]
        dialect = scope.names.dialect
        if dialect is not None and name in dialect.functions and not keywords:
            return scope.call_function(dialect.functions[name], args, {}, node, scope)
        if folds and len(args) > 2 and not keywords:
            return _fold_left(scope, BUILTINS[name].op, args, node)
        if folds and len(args) == 1 and not keywords and name in LIBRARY:
            return scope.call_function(LIBRARY[name], args, {}, node, scope)
        return _call_builtin(scope, BUILTINS[name].op, args, keywords, node)
    raise _not_callable(callee, node, loc)


def _in_order(
    callee: Intrinsic, args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None
) -> Sequence[Value]:
    """The arguments of an intrinsic by position."""
    rest = callee.keywords[len(args) :]
    if set(keywords) != set(rest[: len(keywords)]):
        problem = (
            f"does not take {next(iter(keywords))}=" if callee.keywords else "takes no keywords"
        )
        raise KernelTypeError(f"{callee.name}() {problem}", loc, f"write {callee.usage}")
    return [*args, *(keywords[name] for name in rest if name in keywords)]


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
                f"the signature is {op.signature}",
            )
        values[name], nodes[name] = keywords[name], keyword.value
    if op in _FOLDED and len(args) > 2 and not keywords:
        return _fold_left(scope, op, args, node)
    library = LIBRARY.get(op.name)
    if library is not None and len(args) != len(op.params) and not keywords:
        return scope.call_function(library, args, keywords, node, scope)
    if len(args) > len(op.params) or len(values) < len(op.params):
        raise KernelTypeError(
            f"{op.name}() takes {arguments(len(op.params))}, found {len(args) + len(keywords)}",
            scope.loc(node),
            f"the signature is {op.signature}",
        )
    ordered = list(op.params)
    return operate(scope, op, [values[n] for n in ordered], node, [nodes[n] for n in ordered])


def _fold_left(scope: Scope, op: Op, args: Sequence[Value], node: ast.Call) -> Value:
    total, total_node = args[0], node.args[0]
    for value, operand in zip(args[1:], node.args[1:], strict=True):
        total = operate(scope, op, [total, value], node, [total_node, operand])
    return total


def _type(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    """``type(x)``: the type of ``x``, to be called for another value."""
    loc = scope.loc(node)
    if len(args) == 1 and isinstance(args[0], CompositeValue):
        return Static(args[0].type)
    if len(args) == 1 and isinstance(args[0], ArrayValue):
        raise KernelTypeError("type() of an array", loc, "write x.dtype for that of its elements")
    if len(args) != 1:
        raise KernelTypeError(f"type() takes 1 argument, found {len(args)}", loc, "write type(x)")
    return Static(scope.inference.current_type(scalar(args[0], loc)))


def _length(scope: Scope, args: Sequence[Value], node: ast.Call) -> Value:
    loc = scope.loc(node)
    match args:
        case [ArrayView() | ArrayChoice() as view] if node.args:
            return extent(scope, view, 0, loc)
        case [CompositeValue(Dense() as type_, _)] if node.args:
            return UntypedLiteral(type_.extents[0])
        case [Static(NullArray())] if node.args:
            return UntypedLiteral(0)
        case [tuple() as members] if node.args:
            return UntypedLiteral(len(members))
        case _:
            found = ", ".join(describe_type(a) for a in args) or "nothing"
            raise KernelTypeError(
                f"len() takes one array, vector, matrix or tuple, found {found}",
                loc,
                "write x.shape[k] for the extent of another axis",
            )


# Functions of NumPy whose built-in has another name.
_OTHER_NAMES = {"maximum": "max", "minimum": "min", "fmax": "max", "fmin": "min", "power": "pow"}


_LOCAL = "in a kernel, zeros(shape=(3, 4), dtype=float) makes an array of a thread's own"
_FILLED = "in a kernel, kc.types.vector(4, float)(value) makes an array of a thread's own"
# Functions that make arrays on the host.
_ARRAYS = {
    "array": "pass the array as a parameter, whose extents a launch checks; a kernel makes none of "
    "an address",
    **dict.fromkeys(("empty", "zeros_like", "empty_like"), _LOCAL),
    **dict.fromkeys(("full", "ones", "full_like", "ones_like"), _FILLED),
}


def _not_callable(callee: object, node: ast.Call, loc: SrcLoc | None) -> KernelSyntaxError:
    text = ast.unparse(node.func)
    last = text.rsplit(".", 1)[-1]
    known = _OTHER_NAMES.get(last)
    close = [known] if known else difflib.get_close_matches(last, BUILTINS, 1, 0.8)
    if last in _ARRAYS and callable(callee):
        remedy = _ARRAYS[last]
    elif callee is builtins.range:
        remedy = "range() is for loops: for i in range(n)"
    elif callable(callee) and close and not hasattr(callee, "__wrapped__"):
        remedy = f"use the kernelcore built-in {close[0]}()"
    else:
        remedy = reduction_remedy(last)
        remedy = remedy or "kernels call built-ins, and functions decorated with @func"
    return KernelSyntaxError(
        f"a kernel cannot call '{text}', {describe_object(callee)}", loc, remedy
    )
