"""Branches: an ``if`` eqn whose yields are the names that its sides assign; leaving by flags."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.expressions.apply import logical
from kernelcore.frontend.scope import FALSE, TRUE, Scope, Unset
from kernelcore.frontend.values.array_choice import joined as joined_arrays
from kernelcore.frontend.values.literal_types import (
    InferenceVariable,
    InferredType,
    UntypedLiteral,
    widest,
)
from kernelcore.frontend.values.value import ArrayValue, Static, Value, describe_type, is_scalar
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.language.types import Scalar

BREAK = "$break"
CONTINUE = "$continue"
RETURN = "$return"
# Set on paths that have left the block by one of several flags.
LEFT = "$left"
RESULT = "$result"
_FLAGS = (BREAK, CONTINUE, RETURN, LEFT)

Env = Mapping[str, Value | Unset]


def stopped(scope: Scope) -> Atom:
    """Whether control has left the block, by ``break``, ``continue`` or ``return``."""
    flags = [f for f in (scope.flag(n) for n in _FLAGS) if f != FALSE]
    if TRUE in flags:
        return TRUE
    out: Atom = FALSE
    for flag in dict.fromkeys(flags):
        out = flag if out == FALSE else logical(scope, ast.Or, out, flag)
    return out


def guard(scope: Scope, node: ast.AST, stop: Atom, rest: Callable[[], None]) -> None:
    """Lower ``rest`` under ``not stop``, where ``stop`` is what ``stopped`` gave."""
    live = [n for n in _FLAGS if scope.flag(n) != FALSE]

    def leave() -> None:
        scope.env[live[0] if len(live) == 1 else LEFT] = TRUE

    def go_on() -> None:
        scope.env.update(dict.fromkeys(live, FALSE))
        rest()

    branch(scope, node, stop, leave, go_on, purpose="$rest")


@dataclass(frozen=True, slots=True)
class _Side:
    """One branch: the names after it, and its code."""

    env: dict[str, Value | Unset]
    eqns: list[Eqn]

    def has(self, *flags: str) -> bool:
        """Whether control is known to have left by one of ``flags``."""
        return any(self.env.get(n) == TRUE for n in flags)


def branch(
    scope: Scope,
    node: ast.AST,
    cond: Atom,
    then: Callable[[], None],
    orelse: Callable[[], None],
    purpose: str = "",
) -> None:
    """Lower both branches and join what they assign; a known condition lowers one of them.

    Args:
        scope: The state at the branch.
        node: Where it comes from.
        cond: Which side is taken.
        then: Lowers the side for true.
        orelse: Lowers the side for false.
        purpose: Tells branches that come from the same node apart.

    Raises:
        KernelTypeError: A name has different types after the two.
    """
    if isinstance(cond, Const):
        (then if cond.value else orelse)()
        return
    sides = [_side(scope, then), _side(scope, orelse)]
    loc = scope.at(node)
    _join_arrays(scope, sides)
    yields: list[tuple[str, Atom, Atom]] = []
    joined: dict[str, Value | Unset] = {}
    untyped_outs: dict[str, tuple[InferredType, InferenceVariable, Sequence[Value]]] = {}
    for name in dict.fromkeys([*sides[0].env, *sides[1].env]):
        if name == LEFT:
            continue
        left, right = (_value_after(scope, a, b, name) for a, b in (sides, sides[::-1]))
        if same(left, right):
            joined[name] = left
        elif (left, right) in ((TRUE, FALSE), (FALSE, TRUE)):
            joined[name] = cond if left == TRUE else logical(scope, ast.Not, cond)
        elif isinstance(left, Unset) or isinstance(right, Unset):
            set_one = right if isinstance(left, Unset) else left
            like = set_one.like if isinstance(set_one, Unset) else set_one
            failed = any(isinstance(v, Unset) and v.has_failed for v in (left, right))
            joined[name] = Unset(scope.assigned.get(name), like, failed)
        else:
            variable, values = InferenceVariable(node, name + purpose), (left, right)
            first, second, inference = _join(scope, variable, name, values, sides, loc)
            yields.append((name, first, second))
            if inference is not None:
                untyped_outs[name] = (inference, variable, values)
    then_region = Region((), tuple(sides[0].eqns), tuple(y[1] for y in yields))
    else_region = Region((), tuple(sides[1].eqns), tuple(y[2] for y in yields))
    if yields or then_region.eqns or else_region.eqns:
        names = [hint(y[0]) for y in yields]
        outs = scope.builder.emit_if(cond, then_region, else_region, names)
        for (name, _, _), out in zip(yields, outs, strict=True):
            joined[name] = out
            if name in untyped_outs:
                inferred, variable, values = untyped_outs[name]
                scope.inference.mark(out, variable, inferred, values)
    if all(side.has(*_FLAGS) for side in sides):
        joined[LEFT] = TRUE
    scope.env = joined


def _side(scope: Scope, lower: Callable[[], None]) -> _Side:
    outer = scope.env
    scope.env = dict(outer)
    with scope.builder.region() as eqns:
        lower()
    side = _Side(scope.env, eqns)
    scope.env = outer
    return side


def _join_arrays(scope: Scope, sides: Sequence[_Side]) -> None:
    """Let names that have other arrays after one side than after the other have a choice."""
    left, right = (side.env for side in sides)
    has_returned = any(side.has(RETURN) for side in sides)
    for name in names_of_other_arrays(left, right):
        # After a return only the results are read.
        if has_returned and not name.startswith(RESULT):
            continue
        one, other = value_in(scope, left, name), value_in(scope, right, name)
        if isinstance(one, Unset) or isinstance(other, Unset):
            continue
        one, other = joined_arrays(scope, one, other, sides[1].eqns)
        set_in(scope, left, name, one)
        set_in(scope, right, name, other)


def names_of_other_arrays(left: Env, right: Env) -> list[str]:
    """Variables with values in both, whose arrays or skeletons differ."""
    found: dict[str, None] = {}
    for part, value in left.items():
        other = right.get(part)
        if other is value or isinstance(value, Unset) or is_scalar(value) or other == value:
            continue
        name = part.split(".")[0]
        if name in right and not isinstance(right[name], Unset):
            found[name] = None
    return list(found)


def value_in(scope: Scope, env: dict[str, Value | Unset], name: str) -> Value | Unset:
    """The value of a variable in ``env``."""
    outer, scope.env = scope.env, env
    found = scope.get(name)
    scope.env = outer
    assert found is not None
    return found


def set_in(scope: Scope, env: dict[str, Value | Unset], name: str, value: Value) -> None:
    """Give a variable a value in ``env``."""
    outer, scope.env = scope.env, env
    scope.set(name, value)
    scope.env = outer


def _value_after(scope: Scope, side: _Side, other: _Side, name: str) -> Value | Unset:
    """The value of ``name`` after ``side``; if control has left there, any will do."""
    mine = side.env.get(name, Unset(None))
    theirs = other.env.get(name, Unset(None))
    if isinstance(theirs, Unset) or same(mine, theirs):
        return mine
    if isinstance(mine, Unset):
        is_dead = side.has(*_FLAGS) or name.startswith(RESULT)
    elif name.startswith("$"):
        is_dead = False
    elif side.has(RETURN) and other.has(RETURN):
        return Unset(None)
    else:
        is_dead = side.has(RETURN)
    return _filler(scope, theirs) if is_dead else mine


def _filler(scope: Scope, like: Value) -> Value:
    """A placeholder of the type of ``like``; it is never read."""
    if not isinstance(like, Var) or not isinstance(like.type, Scalar):
        return like
    if scope.inference.is_untyped(like):
        return UntypedLiteral(0.0) if like.type.is_float else UntypedLiteral(0)
    return zero(like.type)


def same(left: Value | Unset, right: Value | Unset) -> bool:
    """Whether both are the same value or equal skeletons."""
    if isinstance(left, Var) or isinstance(right, Var):
        return left is right
    if isinstance(left, Static) and isinstance(right, Static):
        return left.obj is right.obj
    return repr(left) == repr(right) and not isinstance(left, Unset)


def _join(
    scope: Scope,
    variable: InferenceVariable,
    name: str,
    values: tuple[Value, Value],
    sides: Sequence[_Side],
    loc: SrcLoc | None,
) -> tuple[Atom, Atom, InferredType | None]:
    """Both values of ``name`` in one type, and the inferred type if it is still open."""
    inference = scope.inference
    if not all(is_scalar(v) for v in values) and is_retyped(*values):
        raise retyped(name, "branch", *values, loc)
    members = [carried_scalar(name, v, loc) for v in values]
    fixed = [v for v in members if not inference.is_untyped(v)]
    inferred = None
    if fixed:
        dtype = inference.current_type(fixed[0])
    else:
        inferred = inference.infer(variable, widest(inference.current_type(v) for v in members))
        dtype = inferred.type
    if len(fixed) == 2 and inference.current_type(fixed[1]) != dtype:
        raise retyped(name, "branch", *values, loc)
    is_fixed = inferred is None or inferred.fixed
    atoms: list[Atom] = []
    for member, side in zip(members, sides, strict=True):
        try:
            with scope.builder.into(side.eqns):
                atoms.append(inference.adapt(member, dtype, loc, join=True, fixed=is_fixed))
        except KernelTypeError:
            raise retyped(name, "branch", *values, loc) from None
    return atoms[0], atoms[1], inferred


def carried_scalar(name: str, value: Value, loc: SrcLoc | None) -> Atom | UntypedLiteral:
    """``value``, which must be a scalar to differ between paths.

    Raises:
        KernelTypeError: It is an array, a function, or composite where the other path's is not.
    """
    if is_scalar(value):
        assert isinstance(value, UntypedLiteral | Const | Var)
        return value
    raise KernelTypeError(
        f"'{name.split('.')[0]}' stands for different arrays or functions on the paths that meet "
        "here",
        loc,
        "use it in each branch, where it is known",
    )


def is_retyped(old: Value, new: Value) -> bool:
    """Whether ``old`` and ``new``, of one name on two paths, have different types."""
    is_array = any(isinstance(v, Var) and not is_scalar(v) for v in (old, new))
    return not is_array and describe_type(old) != describe_type(new)


def retyped(name: str, where: str, old: Value, new: Value, loc: SrcLoc | None) -> KernelTypeError:
    """The error for a name of two types; hidden names are what the user sees them as."""
    is_array = isinstance(old, ArrayValue) or isinstance(new, ArrayValue)
    what = "the value" if name.startswith("$") else f"'{name}'"
    return KernelTypeError(
        f"{what} changes type across the {where}: {describe_type(old)} and {describe_type(new)}",
        loc,
        "use another name for one of them"
        if is_array
        else "cast one of them, so that every path gives the same type",
    )


def hint(name: str) -> str:
    """How the name of a value is printed."""
    return "" if name.startswith("$value") else name.lstrip("$")
