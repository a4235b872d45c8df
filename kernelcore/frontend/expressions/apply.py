"""Application of built-ins and casts: operand types are settled, literals folded, code emitted."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.builtins.syntax import BOOLEAN, COMPARE, UNARY
from kernelcore.frontend.scope import Scope, scalar, settle
from kernelcore.frontend.values.array_view import extent
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.integer_folding import fold_integers
from kernelcore.frontend.values.literal_types import (
    InferenceVariable,
    InferredType,
    UntypedLiteral,
    cast_name,
    const,
    index_type,
    may_become,
    takes,
    truncated,
    widest,
)
from kernelcore.frontend.values.value import ArrayValue, NullArray, Static, Value, describe_type
from kernelcore.ir.core import Atom, Const
from kernelcore.ir.op import CAST, Op
from kernelcore.language.types import TYPE_CLASSES, Scalar, boolean, float32, float64, int32, int64

_LESS = COMPARE[ast.Lt].op


def apply_op(
    scope: Scope, op: Op, args: Sequence[Value], node: ast.AST, operands: Sequence[ast.expr]
) -> Value:
    """``op`` on ``args``, which ``operands`` were lowered to; literals only are computed here.

    Raises:
        KernelTypeError: The signature does not take these types.
    """
    loc = scope.at(node)
    if len(args) != len(op.params):
        raise KernelTypeError(
            f"{op.name}() takes {arguments(len(op.params))}, found {len(args)}",
            loc,
            f"the signature is {op.signature}",
        )
    values = [
        truth(scope, a, scope.loc(n)) if cls == "Bool" else scalar(a, scope.loc(n))
        for a, n, cls in zip(args, operands, op.params.values(), strict=True)
    ]
    scope.at(node)
    if all(
        isinstance(v, UntypedLiteral) or (isinstance(v, Const) and v.type == boolean)
        for v in values
    ):
        return _fold(op, values, loc, operands)
    classes = list(op.params.values())
    atoms: list[Atom | None] = [None] * len(values)
    variables = frozenset[InferenceVariable]()
    for cls in dict.fromkeys(classes):
        slots = [i for i, c in enumerate(classes) if c == cls]
        members = [values[i] for i in slots]
        dtype, is_open = _operand_type(scope, op, cls, members, [operands[i] for i in slots], node)
        if is_open and cls == op.result:
            dtype, variables = _open_type(scope, members, dtype, node)
        for i in slots:
            at = scope.loc(operands[i])
            atoms[i] = scope.inference.adapt(values[i], dtype, at, fixed=not is_open)
    out = scope.builder.emit(op, *(a for a in atoms if a is not None))
    if variables:
        scope.inference.origins[out] = variables
    return out


def _open_type(
    scope: Scope, members: Sequence[Value], dtype: Scalar, node: ast.AST
) -> tuple[Scalar, frozenset[InferenceVariable]]:
    """The type of untyped operands, and the inference variables of the result."""
    variables = scope.inference.variables_alike(members, dtype)
    if variables:
        return dtype, variables
    variable = InferenceVariable(node, "$result")
    inferred = scope.inference.infer(variable, dtype)
    return inferred.type, frozenset[InferenceVariable]() if inferred.fixed else frozenset(
        {variable}
    )


def _operand_type(
    scope: Scope,
    op: Op,
    cls: str,
    members: Sequence[Atom | UntypedLiteral],
    operands: Sequence[ast.expr],
    node: ast.AST,
) -> tuple[Scalar, bool]:
    """The common type of operands of one type class, and whether it is still open."""
    allowed = TYPE_CLASSES[cls]
    fixed = [m for m in members if not scope.inference.is_untyped(m)]
    if not fixed:
        dtype = widest(scope.inference.current_type(m) for m in members)
        if dtype in allowed:
            return dtype, True
        if allowed == TYPE_CLASSES["Float"] and all(isinstance(m, UntypedLiteral) for m in members):
            return float32, True
        raise _unsupported(op, cls, members, operands, scope.loc(node), node)
    dtype = scope.inference.current_type(fixed[0])
    if dtype not in allowed:
        raise _unsupported(op, cls, members, operands, scope.loc(node), node)
    for member, operand in zip(members, operands, strict=True):
        if not _fits(scope, member, dtype):
            raise _disagreement(scope, members, operands, member, operand, node)
    return dtype, False


def _fits(scope: Scope, member: Atom | UntypedLiteral, dtype: Scalar) -> bool:
    """Whether ``member`` is of ``dtype`` or may adapt to it."""
    if isinstance(member, UntypedLiteral):
        return takes(dtype, member)
    if member.type == dtype:
        return True
    if not scope.inference.is_untyped(member) or dtype == boolean:
        return False
    return may_become(scope.inference.current_type(member), dtype)


def _disagreement(
    scope: Scope,
    members: Sequence[Atom | UntypedLiteral],
    operands: Sequence[ast.expr],
    odd: Atom | UntypedLiteral,
    operand: ast.expr,
    node: ast.AST,
) -> KernelTypeError:
    """The error for operands of different types; the narrower one is to be cast."""
    pairs = list(zip(members, operands, strict=True))
    first, first_operand = next((m, n) for m, n in pairs if not scope.inference.is_untyped(m))
    left, right = sorted(((first, first_operand), (odd, operand)), key=lambda p: p[1].col_offset)
    message = f"operands of different types: {describe_type(left[0])} and {describe_type(right[0])}"
    types = [scope.inference.current_type(first), scope.inference.current_type(odd)]
    if boolean in types:
        target, narrow = next(t for t in types if t != boolean), types.index(boolean)
    else:
        target, narrow = widest(types), 0 if widest(types) == types[1] else 1
    text = ast.unparse((first_operand, operand)[narrow])
    return KernelTypeError(message, scope.loc(node), f"cast one: {cast_name(target)}({text})")


def _unsupported(
    op: Op,
    cls: str,
    members: Sequence[Atom | UntypedLiteral],
    operands: Sequence[ast.expr],
    loc: SrcLoc | None,
    node: ast.AST,
) -> KernelTypeError:
    """The error for operands outside the type class that ``op`` takes."""
    found = " and ".join(describe_type(m) for m in members)
    names = class_words(cls)
    texts = [ast.unparse(n) for n in operands]
    is_int = [not isinstance(m, UntypedLiteral) and m.type in TYPE_CLASSES["Int"] for m in members]
    remedy = f"the signature is {op.signature}"
    if isinstance(_operator(node), ast.Div) and any(is_int):
        casts = (f"float({t})" if i else t for t, i in zip(texts, is_int, strict=True))
        floats = " / ".join(casts)
        remedy = f"write {' // '.join(texts)} for the quotient rounded down, or {floats}"
    elif cls == "Float" and any(is_int):
        remedy = f"convert it: float({texts[is_int.index(True)]})"
    elif boolean in _types(members) and cls == "Int":
        remedy = "use 'and', 'or', 'not' on truth values"
    elif boolean in _types(members):
        remedy = f"convert it: int({texts[_types(members).index(boolean)]})"
    elif cls == "Int":
        remedy = f"convert it: int({next(t for t, i in zip(texts, is_int, strict=True) if not i)})"
    what = symbol(node) or f"{op.name}()"
    return KernelTypeError(f"{what} takes {names}, found {found}", loc, remedy)


def arguments(count: int, what: str = "argument") -> str:
    """So many arguments, in words."""
    several = {"index": "indices"}.get(what, f"{what}s")
    return f"{count} {what if count == 1 else several}"


def class_words(cls: str) -> str:
    """The types of a type class in words."""
    words = {"Int": "integers", "Float": "floats", "Number": "numbers", "Bool": "bool"}
    return words.get(cls, "scalars")


def _types(members: Sequence[Atom | UntypedLiteral]) -> list[object]:
    return [None if isinstance(m, UntypedLiteral) else m.type for m in members]


def symbol(node: ast.AST) -> str:
    """The operator of ``node`` as it is written, or nothing for a call."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            sample = ast.BinOp(ast.Name("x"), op, ast.Name("y"))
            return f"'{ast.unparse(sample)[1:-1].strip()}'"
        case ast.Compare():
            return "a comparison"
        case ast.UnaryOp(op=op):
            names: dict[type[ast.unaryop], str] = {
                ast.Not: "'not'",
                ast.Invert: "'~'",
                ast.USub: "unary '-'",
            }
            return names.get(type(op), "unary '+'")
        case ast.BoolOp(op=op):
            return "'and'" if isinstance(op, ast.And) else "'or'"
        case _:
            return ""


def _operator(node: ast.AST) -> ast.operator | None:
    return node.op if isinstance(node, ast.BinOp | ast.AugAssign) else None


def _fold(
    op: Op,
    values: Sequence[Atom | UntypedLiteral],
    loc: SrcLoc | None,
    operands: Sequence[ast.expr],
) -> Value:
    """``op`` on literals: integers exactly, else in int64 and float64; the result is open again."""
    integers = [
        v.value for v in values if isinstance(v, UntypedLiteral) and isinstance(v.value, int)
    ]
    if len(integers) == len(values):
        try:
            found = fold_integers(op, integers)
        except ZeroDivisionError:
            raise KernelTypeError(
                "a division of literals by zero",
                loc,
                "divide by another number; math.inf is infinity",
            ) from None
        except ValueError:
            raise KernelTypeError(
                "a shift of literals by a negative count", loc, "shift in the other direction"
            ) from None
        if found is not None:
            return host_value(found, ast.unparse(operands[0]), loc)
    wants_float = {
        cls
        for cls, value in zip(op.params.values(), values, strict=True)
        if isinstance(value, UntypedLiteral)
        and (value.kind == "float" or int64 not in TYPE_CLASSES[cls])
    }
    inputs: list[Const] = []
    for cls, value in zip(op.params.values(), values, strict=True):
        if isinstance(value, UntypedLiteral):
            inputs.append(const(float64 if cls in wants_float else int64, value.value, loc))
        else:
            assert isinstance(value, Const)
            inputs.append(value)
    try:
        op.result_type([c.type for c in inputs])
    except KernelTypeError as error:
        names = ", ".join(ast.unparse(n) for n in operands)
        message = f"{error.message} (operands: {names})"
        raise KernelTypeError(message, loc, f"the signature is {op.signature}") from None
    assert op.ref is not None
    with np.errstate(all="ignore"):
        result: Any = op.ref(*(c.type.numpy.type(c.value) for c in inputs))
    return host_value(np.asarray(result).item(), ast.unparse(operands[0]), loc)


def cast(scope: Scope, dtype: Scalar, value: Value, loc: SrcLoc | None) -> Atom:
    """``value`` converted to ``dtype``; always typed."""
    one = scalar(value, loc)
    if isinstance(one, UntypedLiteral):
        return truth(scope, one, loc) if dtype == boolean else truncated(one.value, dtype, loc)
    if one.type == dtype and not scope.inference.is_untyped(one):
        return one
    found = scope.inference.current_type(one)
    if found.is_float and dtype.is_float and widest((found, dtype)) == dtype:
        scope.inference.request(scope.inference.variables(one), InferredType(dtype, fixed=False))
    return scope.builder.emit(CAST, one, dtype=dtype)


def truth(scope: Scope, value: Value, loc: SrcLoc | None) -> Atom:
    """``value`` as a condition: numbers are true unless zero, arrays unless they are empty."""
    if isinstance(value, ArrayValue):
        ends = [extent(scope, value, k, loc) for k in range(len(value.free))]
        least = [const(scope.inference.current_type(n), 0, loc) for n in ends]
        found = [scope.builder.emit(_LESS, a, n) for a, n in zip(least, ends, strict=True)]
        return reduce(lambda one, other: logical(scope, ast.And, one, other), found)
    if isinstance(value, Static) and isinstance(value.obj, NullArray):
        return Const(boolean, False)
    one = scalar(value, loc)
    if isinstance(one, UntypedLiteral):
        return Const(boolean, bool(one.value))
    return one if one.type == boolean else scope.builder.emit(CAST, one, dtype=boolean)


def logical(scope: Scope, operator: type[ast.boolop | ast.Not], *atoms: Atom) -> Atom:
    """``and``, ``or`` or ``not`` on conditions; known ones are computed here."""
    op = (UNARY if issubclass(operator, ast.Not) else BOOLEAN)[operator].op
    if all(isinstance(a, Const) for a in atoms):
        assert op.ref is not None
        return Const(boolean, bool(op.ref(*(a.value for a in atoms if isinstance(a, Const)))))
    return scope.builder.emit(op, *atoms)


def index(scope: Scope, value: Value, loc: SrcLoc | None) -> Atom:
    """``value`` as an array index.

    Raises:
        KernelTypeError: It is no integer, or a negative literal.
    """
    one = scalar(value, loc)
    if isinstance(one, UntypedLiteral) and one.kind == "int":
        if one.value < 0 and not scope.counts_back:
            raise KernelTypeError(
                f"index {one.value} is negative",
                loc,
                "indices count from 0; write x.shape[k] - 1 for the last element",
            )
        return const(int32 if abs(one.value) < 2**31 else int64, one.value, loc)
    is_integer = (
        not isinstance(one, UntypedLiteral) and scope.inference.current_type(one).is_integer
    )
    if isinstance(one, UntypedLiteral) or not is_integer:
        raise KernelTypeError(
            f"an index is an integer, found {describe_type(one)}", loc, "convert it: int(...)"
        )
    return scope.integer(settle(one, loc), index_type([scope.inference.current_type(one)]))
