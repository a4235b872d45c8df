"""Composite values: how they are made, and what operators and built-ins mean on them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.builtins import BUILTINS
from kernelcore.builtins.library import LIBRARY
from kernelcore.builtins.syntax import BINARY, COMPARE, UNARY
from kernelcore.frontend.calls.overloads import takes
from kernelcore.frontend.expressions.apply import apply_op, cast, logical, symbol
from kernelcore.frontend.scope import TRUE, Scope, scalar
from kernelcore.frontend.values.array_choice import joined
from kernelcore.frontend.values.conversion import converted, converted_atoms
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.literal_types import UntypedLiteral, cast_name
from kernelcore.frontend.values.value import (
    ArrayValue,
    CompositeValue,
    Leaf,
    Static,
    Value,
    build,
    describe_type,
    flatten,
    null_array,
    unflatten,
)
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import Op
from kernelcore.language.flatten import scalars_of
from kernelcore.language.function import Function
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Element,
    Member,
    Scalar,
    StructType,
    boolean,
)

_WHERE = BUILTINS["where"].op
_EQUAL, _NOT_EQUAL = COMPARE[ast.Eq].op, COMPARE[ast.NotEq].op
_ORDER = {COMPARE[c].op for c in (ast.Lt, ast.LtE, ast.Gt, ast.GtE)}
_LINEAR = {BINARY[ast.Add].op, BINARY[ast.Sub].op, UNARY[ast.USub].op, UNARY[ast.UAdd].op}
_SCALING = {BINARY[ast.Mult].op, BINARY[ast.Div].op}


def operate(
    scope: Scope, op: Op, args: Sequence[Value], node: ast.AST, operands: Sequence[ast.expr]
) -> Value:
    """``op`` on ``args``, which ``operands`` were lowered to.

    Raises:
        KernelTypeError: ``op`` does not take these types.
    """
    if not any(isinstance(a, CompositeValue | ArrayValue | Static | tuple) for a in args):
        return apply_op(scope, op, args, node, operands)
    if op is _WHERE and len(args) == 3:
        return _select(scope, args, node, operands)
    if any(isinstance(a, CompositeValue) and isinstance(a.type, StructType) for a in args):
        own = scope.names.find(op.name)
        if isinstance(own, Function) and takes(scope, own, args):
            return scope.call_function(own, args, {}, node, scope)
    overloads = LIBRARY.get(op.name)
    if overloads is not None and takes(scope, overloads, args):
        try:
            return scope.call_function(overloads, args, {}, node, scope)
        except KernelTypeError:
            if op not in _SCALING:
                raise
            raise _refused(op, args, node, scope.loc(node)) from None
    return _componentwise(scope, op, args, node, operands)


def _select(
    scope: Scope, args: Sequence[Value], node: ast.AST, operands: Sequence[ast.expr]
) -> Value:
    """Leaf by leaf, whatever the two alternatives are, if they are alike."""
    cond, left, right = args
    left, right = joined(scope, left, right, scope.builder.eqns)
    (skeleton, lefts), (other, rights) = flatten(left), flatten(right)
    if skeleton != other:
        raise KernelTypeError(
            f"the alternatives have different types: {describe_type(left)} and "
            f"{describe_type(right)}",
            scope.loc(node),
            "convert one of them",
        )
    pairs = zip(lefts, rights, strict=True)
    found: list[Leaf] = []
    for one, other in pairs:
        if one is not other:
            chosen = apply_op(scope, _WHERE, [cond, one, other], node, operands)
            found.append(scalar(chosen, scope.loc(node)))
        else:
            found.append(one)
    return unflatten(skeleton, found)


def _componentwise(
    scope: Scope, op: Op, args: Sequence[Value], node: ast.AST, operands: Sequence[ast.expr]
) -> Value:
    """``op`` on each component, with scalars as they are."""
    loc = scope.at(node)
    compounds = [a for a in args if isinstance(a, CompositeValue)]
    if any(isinstance(a, ArrayValue | Static | tuple) for a in args):
        return apply_op(scope, op, args, node, operands)  # refuses them
    kinds = list(dict.fromkeys(c.type for c in compounds))
    first = kinds[0]
    if len(args) == len(op.params) and op in (_EQUAL, _NOT_EQUAL):
        return _equal(scope, op, args, node, operands)
    if not isinstance(first, Dense) or op in _ORDER:
        raise _refused(op, args, node, loc)
    if any(not isinstance(k, Dense) or _common_type(k) != _common_type(first) for k in kinds):
        raise _refused(op, args, node, loc)
    is_plain = first.kind in ("vector", "matrix")
    is_scaled = op in _SCALING and len(compounds) == 1
    if not (op in _LINEAR and len(compounds) == len(args)) and not is_scaled:
        mixed = op in _LINEAR or op in _SCALING
        if mixed or not is_plain:
            raise _refused(op, args, node, loc)
    _check_scalars(scope, args, operands, loc)
    components: list[Leaf] = []
    for k in range(first.size):
        parts = [a.members[k] if isinstance(a, CompositeValue) else a for a in args]
        components.append(scalar(apply_op(scope, op, parts, node, operands), loc))
    dtype = scope.inference.current_type(components[0]) if components else first.dtype
    return CompositeValue(replace(first, dtype=dtype), tuple(components))


def _check_scalars(
    scope: Scope, args: Sequence[Value], operands: Sequence[ast.expr], loc: SrcLoc | None
) -> None:
    """Refuse components of different types here, where the operands as a whole are known."""
    known = [
        (value, operand, scalar_type)
        for value, operand in zip(args, operands, strict=True)
        if (scalar_type := _firm_scalar(scope, value)) is not None
    ]
    wanted = next(
        scalar_type for value, _, scalar_type in known if isinstance(value, CompositeValue)
    )
    for value, operand, scalar_type in known:
        if scalar_type not in (wanted, boolean):
            first = next(v for v, _, s in known if s == wanted and isinstance(v, CompositeValue))
            target = first.type if isinstance(value, CompositeValue) else cast_name(wanted)
            found = [describe_type(v) for v, _, _ in known if v is first or v is value]
            raise KernelTypeError(
                f"operands of different types: {' and '.join(found)}",
                loc,
                f"convert one: {target}({ast.unparse(operand)})",
            )


def _firm_scalar(scope: Scope, value: Value) -> Scalar | None:
    """The type of a scalar, or of the components; None for literals."""
    if isinstance(value, CompositeValue):
        return value.type.scalar if isinstance(value.type, Dense) else None
    if scope.inference.is_untyped(value) or not isinstance(value, Var | Const):
        return None
    return scope.inference.current_type(value)


def _common_type(type_: StructType | Dense) -> object:
    """The part of a type in which operands must agree; components are checked one by one."""
    return (type_.kind, type_.shape) if isinstance(type_, Dense) else type_


def _equal(
    scope: Scope, op: Op, args: Sequence[Value], node: ast.AST, operands: Sequence[ast.expr]
) -> Value:
    """Whether all components are equal, or any is not."""
    left, right = (flatten(a) for a in args)
    if left[0] != right[0]:
        raise _refused(op, args, node, scope.loc(node))
    out: Atom = TRUE
    for a, b in zip(left[1], right[1], strict=True):
        same = apply_op(scope, _EQUAL, [a, b], node, operands)
        one = scalar(same, scope.loc(node))
        assert not isinstance(one, UntypedLiteral)
        out = one if out == TRUE else logical(scope, ast.And, out, one)
    return out if op is _EQUAL else logical(scope, ast.Not, out)


def _refused(op: Op, args: Sequence[Value], node: ast.AST, loc: SrcLoc | None) -> KernelTypeError:
    found = " and ".join(describe_type(a) for a in args)
    what = symbol(node) or f"{op.name}()"
    return KernelTypeError(f"{what} is not defined for {found}", loc, _remedy(op, args))


def _remedy(op: Op, args: Sequence[Value]) -> str | None:
    types = [a.type for a in args if isinstance(a, CompositeValue)]
    kinds = [t.kind for t in types if isinstance(t, Dense)]
    if len(kinds) < len(types):
        return f"apply it to the fields, or define a function {op.name}() of the struct"
    if op in _SCALING and len(kinds) == len(args):
        return _product_remedy(kinds)
    if op in _ORDER:
        return "compare components, for example a.x < b.x"
    if len(types) == len(args) or op in (_EQUAL, _NOT_EQUAL):
        return "both sides must have the same type"
    if op in _LINEAR and kinds[0] in ("vector", "matrix"):
        return f"make a {kinds[0]} of the scalar first: {types[0]}(...)"
    return "apply it to the components"


def _product_remedy(kinds: Sequence[str]) -> str:
    """The remedy for a product that does not exist."""
    match kinds:
        case "quaternion", "vector":
            return "write quat_rotate(q, v)"
        case "transform", "vector":
            return "write transform_point(t, v) or transform_vector(t, v)"
        case _ if "matrix" in kinds:
            return "the columns of the left must be as many as the rows of the right"
        case _:
            return "use dot(), cross(), cw_mul() or cw_div(); '*' takes a scalar and a vector"


def zeros(type_: Element, loc: SrcLoc | None) -> Value:
    """The value of ``type_`` whose scalars are all zero, and whose arrays are empty."""
    del loc
    return build(type_, iter([zero(s) for s in scalars_of(type_)]))


def construct(
    scope: Scope,
    type_: Dense | StructType,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    node: ast.AST,
) -> Value:
    """``type_(*args, **keywords)``.

    Raises:
        KernelTypeError: The type is not made of these.
    """
    loc = scope.at(node)
    if isinstance(type_, StructType):
        return _struct(scope, type_, args, keywords, loc)
    if type_.kind == "transform" and keywords and set(keywords) <= {"p", "q"}:
        args = _position_and_rotation(type_, args, keywords, loc)
        keywords = {}
    if keywords:
        name = next(iter(keywords))
        raise KernelTypeError(f"{type_}(): '{name}': no such argument", loc, _usage(type_))
    if not args:
        return zeros(type_, loc)
    only = args[0] if len(args) == 1 else None
    if isinstance(only, CompositeValue) and isinstance(only.type, Dense):
        if only.type.shape == type_.shape:
            return CompositeValue(
                type_, tuple(cast(scope, type_.scalar, m, loc) for m in only.members)
            )
    elif only is not None and type_.kind in ("vector", "matrix"):
        value = _component(scope, type_, only, loc)
        return CompositeValue(type_, (value,) * type_.size)
    sources = node.args if isinstance(node, ast.Call) and len(node.args) == len(args) else ()
    locs = [scope.loc(s) for s in sources] or [loc] * len(args)
    components: list[tuple[Value, SrcLoc | None]] = []
    for arg, place_loc in zip(args, locs, strict=True):
        is_part = isinstance(arg, CompositeValue) and _may_hold(type_, arg)
        members = arg.members if is_part and isinstance(arg, CompositeValue) else (arg,)
        components.extend((member, place_loc) for member in members)
    if len(components) != type_.size:
        has_parts = any(isinstance(a, CompositeValue) for a in args)
        found = ", ".join(describe_type(a) for a in args) if has_parts else str(len(components))
        raise KernelTypeError(
            f"{type_}() takes {type_.size} components, found {found}", loc, _usage(type_)
        )
    return CompositeValue(
        type_, tuple(_component(scope, type_, v, place_loc) for v, place_loc in components)
    )


def _position_and_rotation(
    type_: Dense, args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None
) -> Sequence[Value]:
    """The arguments of ``transform(p=..., q=...)``; what is left out is zero, or no rotation."""
    names = ("p", "q")[: len(args)]
    twice = [name for name in names if name in keywords]
    if twice:
        raise KernelTypeError(f"{type_}(): '{twice[0]}': given twice", loc, _usage(type_))
    given = {**dict(zip(names, args, strict=False)), **keywords}
    nothing = {n: zeros(Dense("vector", type_.scalar, (k,)), loc) for n, k in (("p", 3), ("q", 4))}
    turn = nothing["q"]
    assert isinstance(turn, CompositeValue)
    one = Const(type_.scalar, 1.0)
    nothing["q"] = CompositeValue(turn.type, (*turn.members[:3], one))
    return [given.get(name, nothing[name]) for name in ("p", "q")]


def _may_hold(type_: Dense, arg: CompositeValue) -> bool:
    """Whether the components of ``arg`` may stand for components of ``type_``."""
    if not isinstance(arg.type, Dense):
        return False
    allowed = {
        "vector": {"vector"},
        "quaternion": {"vector"},
        "transform": {"vector", "quaternion"},
    }
    return arg.type.kind in allowed.get(type_.kind, set())


def _component(scope: Scope, type_: Dense, value: Value, loc: SrcLoc | None) -> Atom:
    if isinstance(value, CompositeValue):
        raise KernelTypeError(
            f"{type_}() takes {type_.scalar} components, found {describe_type(value)}",
            loc,
            _usage(type_),
        )
    return converted_atoms(scope, value, type_.scalar, loc)[0]


def _usage(type_: Dense) -> str:
    match type_.kind:
        case "matrix":
            return "give the components row by row, or use matrix_from_rows(), matrix_from_cols()"
        case "quaternion":
            return f"write {type_}(x, y, z, w) or {type_}(axis, w)"
        case "transform":
            return f"write {type_}(position, rotation)"
        case _:
            return f"write {type_}(), {type_}(s), or all {type_.size} components"


def _struct(
    scope: Scope,
    type_: StructType,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    loc: SrcLoc | None,
) -> Value:
    names = [name for name, _ in type_.fields]
    given = dict(zip(names, args, strict=False))
    unknown = [k for k in keywords if k not in names or k in given]
    if len(args) > len(names) or unknown:
        problem = f"expected at most {len(names)} values, found {len(args)}"
        if unknown:
            what = "given twice" if unknown[0] in names else "no such field"
            problem = f"'{unknown[0]}': {what}"
        raise KernelTypeError(f"{type_}(): {problem}", loc, f"its fields are {', '.join(names)}")
    given.update(keywords)
    defaults = dict(type_.defaults)
    members: list[Value] = []
    for name, member in type_.fields:
        if name in given:
            try:
                members.append(converted(scope, given[name], member, loc))
            except KernelTypeError as error:
                raise KernelTypeError(
                    f"{type_}(): field '{name}': {error.message}", loc, error.remedy
                ) from None
        elif name in defaults:
            members.append(_default(scope, member, defaults[name], loc))
        elif isinstance(member, ArrayOf):
            members.append(null_array(member))
        elif isinstance(member, StructType):
            members.append(_struct(scope, member, (), {}, loc))
        else:
            members.append(zeros(member, loc))
    return CompositeValue(type_, tuple(members))


def _default(scope: Scope, member: Member, value: object, loc: SrcLoc | None) -> Value:
    """The default ``value`` of a field of type ``member``."""
    found = host_value(value, "default", loc)
    if isinstance(member, Dense):
        flat = found if isinstance(found, tuple) else (found,)
        return CompositeValue(member, tuple(_component(scope, member, v, loc) for v in flat))
    return cast(scope, member, found, loc) if isinstance(member, Scalar) else found
