"""``for`` and ``while`` statements; a ``for`` that can be left early becomes a ``while``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from kernelcore.base.errors import KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import BINARY, COMPARE
from kernelcore.frontend.expressions.apply import logical
from kernelcore.frontend.expressions.expression import (
    lower_condition,
    lower_expr,
    short_circuit,
)
from kernelcore.frontend.scope import FALSE, TRUE, Scope, scalar
from kernelcore.frontend.statements.assigned_names import changed_names
from kernelcore.frontend.statements.branch import (
    BREAK,
    CONTINUE,
    LEFT,
    RESULT,
    RETURN,
    branch,
    guard,
    stopped,
)
from kernelcore.frontend.statements.loop import Loop
from kernelcore.frontend.statements.unroll import is_static_loop, range_call, unrolled
from kernelcore.frontend.values.literal_types import (
    InferenceVariable,
    InferredType,
    Promotion,
    UntypedLiteral,
    const,
    index_type,
)
from kernelcore.frontend.values.value import ArrayValue, Value, describe_type
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import CAST, Op
from kernelcore.language.types import Scalar, int32

_TRIP = "$trip"
_HIDDEN = (BREAK, CONTINUE, _TRIP)
_ADD, _SUB, _MUL = (BINARY[sign].op for sign in (ast.Add, ast.Sub, ast.Mult))
_LESS = COMPARE[ast.Lt].op

RangeBounds = tuple[Atom, Atom, Atom]


def lower_for(scope: Scope, node: ast.For, body: Callable[[], None]) -> None:
    """Lower ``for i in range(...)``, or over the members of a tuple; ``body`` lowers statements.

    Raises:
        KernelSyntaxError: It does not run over a range, or has an ``else``.
    """
    _no_else(scope, node)
    if not isinstance(node.target, ast.Name):
        raise KernelSyntaxError(
            "the target of a for loop must be a name",
            scope.loc(node.target),
            "write for i in range(n), and read x[i] in the loop",
        )
    target = node.target.id
    old = scope.env.get(target)
    if isinstance(old, ArrayValue):
        raise KernelTypeError(
            f"cannot assign to '{target}': it is {describe_type(old)}",
            scope.loc(node.target),
            "use another name for the index",
        )
    iterations = unrolled(scope, node)
    is_left = _leaves(node.body) or _continues(node.body)
    if iterations is not None and (is_static_loop(scope, node) or not is_left):
        _unroll(scope, node, iterations, body)
        return
    bounds, inferred = _bounds(scope, node)

    def bind_index(index: Var) -> None:
        scope.inference.mark(index, _index_variable(node), inferred, ())
        scope.set(target, index)

    if _leaves(node.body):
        _counted_while(scope, node, bounds, bind_index, body)
        return
    index = Var(bounds[0].type, target)

    def lower_body() -> None:
        bind_index(index)
        body()

    loop = _start(scope, node, node.body, {target: scope.loc(node.target)})
    loop.lower_for(bounds, index, _in_loop(scope, lower_body))
    _end(scope, loop)


def _unroll(
    scope: Scope, node: ast.For, iterations: Sequence[Value], body: Callable[[], None]
) -> None:
    """Lower the body once per iteration; code after a possible exit is guarded."""
    assert isinstance(node.target, ast.Name)
    target = node.target.id
    outer = {n: scope.env[n] for n in (BREAK, CONTINUE) if n in scope.env}
    scope.env[BREAK] = scope.env[CONTINUE] = FALSE

    def run(rest: Sequence[Value]) -> None:
        for position, iteration in enumerate(rest):
            scope.set(target, iteration)
            body()
            scope.env.pop(LEFT, None)
            scope.env[CONTINUE] = FALSE
            stop = stopped(scope)
            if stop == TRUE:
                return
            if isinstance(stop, Var):
                later = rest[position + 1 :]
                guard(scope, node, stop, lambda later=later: run(later))
                scope.env.pop(LEFT, None)
                return

    run(iterations)
    for name in (BREAK, CONTINUE):
        scope.env.pop(name, None)
    scope.env.update(outer)


def lower_while(scope: Scope, node: ast.While, body: Callable[[], None]) -> None:
    """Lower ``while``; ``body`` lowers its statements.

    Raises:
        KernelSyntaxError: It has an ``else``.
    """
    _no_else(scope, node)
    if changed_names(scope, [ast.copy_location(ast.Expr(node.test), node.test)]):
        _updating_while(scope, node, body)
        return
    tests: list[Atom] = []

    def test() -> Atom:
        tests.append(lower_condition(scope, node.test))
        return tests[-1]

    loop = _start(scope, node, node.body, {})
    loop.lower_while(lambda: _unless_left(scope, test, node.test), _in_loop(scope, body))
    _end(scope, loop)
    # The only way out of this loop is ``return``.
    if tests == [TRUE] and not _breaks(node.body) and scope.flag(RETURN) != FALSE:
        scope.env[RETURN] = TRUE


def _updating_while(scope: Scope, node: ast.While, body: Callable[[], None]) -> None:
    """A ``while`` whose condition changes variables: the body evaluates it first."""

    def lower_body() -> None:
        cond = lower_condition(scope, node.test)

        def leave() -> None:
            scope.env[BREAK] = TRUE

        branch(scope, node, cond, body, leave, purpose="$test")

    test = ast.copy_location(ast.Expr(node.test), node.test)
    loop = _start(scope, node, [test, *node.body, ast.Break()], {})
    loop.lower_while(
        lambda: _unless_left(scope, lambda: TRUE, node.test), _in_loop(scope, lower_body)
    )
    _end(scope, loop)


def _counted_while(
    scope: Scope,
    node: ast.For,
    bounds: RangeBounds,
    bind_index: Callable[[Var], None],
    body: Callable[[], None],
) -> None:
    """A ``for`` that can be left early: a ``while`` over the number of the iteration."""
    assert isinstance(node.target, ast.Name)
    assert isinstance(bounds[0].type, Scalar)
    narrow = bounds[0].type
    # A loop over a narrow integer can have more iterations than that integer can count.
    dtype = int32 if narrow.bits < int32.bits else narrow
    start, stop, step = (scope.integer(b, dtype) for b in bounds)
    is_plain = (start, step) == (const(dtype, 0, None), const(dtype, 1, None))
    trips = stop if is_plain else scope.builder.emit(BUILTINS["range_len"].op, start, stop, step)

    def test() -> Atom:
        scope.at(node.iter)
        return scope.builder.emit(_LESS, scope.flag(_TRIP), trips)

    def lower_body() -> None:
        trip = scope.flag(_TRIP)
        scope.at(node.iter)
        index = trip
        if not is_plain:
            index = scope.builder.emit(_MUL, trip, step)
            index = scope.builder.emit(_ADD, start, index)
        if narrow != dtype:
            index = scope.builder.emit(CAST, index, dtype=narrow)
        assert isinstance(index, Var)
        bind_index(index)
        scope.env[_TRIP] = scope.builder.emit(_ADD, trip, const(dtype, 1, None))
        body()

    outer = _start(scope, node, node.body, {node.target.id: scope.loc(node.target)}, zero(dtype))
    outer.lower_while(lambda: _unless_left(scope, test, node.iter), _in_loop(scope, lower_body))
    _end(scope, outer)


def _unless_left(scope: Scope, test: Callable[[], Atom], node: ast.AST) -> Atom:
    """Whether another iteration runs: no flag is set, and ``test`` holds."""
    stop = stopped(scope)
    if stop == FALSE:
        return test()
    proceed = logical(scope, ast.Not, stop)
    return short_circuit(scope, ast.And, proceed, test, node)


def _start(
    scope: Scope,
    node: ast.stmt,
    body: Sequence[ast.stmt],
    also: dict[str, SrcLoc | None],
    first_trip: Const | None = None,
) -> Loop:
    """The loop ``node``, whose body assigns its names, the flags it sets, and ``also``."""
    outer = {n: scope.env[n] for n in _HIDDEN if n in scope.env}
    assigned = {**also, **changed_names(scope, body)}
    scope.env[BREAK] = scope.env[CONTINUE] = FALSE
    hidden: list[str] = []
    if first_trip is not None:
        scope.env[_TRIP] = first_trip
        hidden.append(_TRIP)
    if _breaks(body):
        hidden.append(BREAK)
    if _returns(body):
        hidden.extend([RETURN, *(n for n in scope.env if n.startswith(RESULT))])
    loop = Loop(scope, node, {**dict.fromkeys(hidden), **assigned})
    loop.hidden = outer
    return loop


def _end(scope: Scope, loop: Loop) -> None:
    """Restore the flags of the enclosing loop."""
    for name in _HIDDEN:
        scope.env.pop(name, None)
    scope.env.update(loop.hidden)


def _in_loop(scope: Scope, body: Callable[[], None]) -> Callable[[], None]:
    def lower() -> None:
        # An iteration runs only where the loop has not been left.
        scope.env[BREAK] = scope.env[RETURN] = FALSE
        scope.loop_depth += 1
        body()
        scope.loop_depth -= 1

    return lower


def _bounds(scope: Scope, node: ast.For) -> tuple[RangeBounds, InferredType]:
    """Start, stop and step in one type; the index is untyped if all of them are literals.

    Raises:
        KernelSyntaxError: Not a call of range().
        KernelTypeError: No integers.
    """
    call, is_reversed = range_call(scope, node.iter)
    if call is None:
        text = "n" if isinstance(node.iter, ast.Call) else f"len({ast.unparse(node.iter)})"
        raise KernelSyntaxError(
            "a for loop runs over range(), a tuple or a vector",
            scope.loc(node.iter),
            f"write for i in range({text})",
        )
    if not 1 <= len(call.args) <= 3:
        raise KernelTypeError(
            f"range() takes 1 to 3 arguments, found {len(call.args)}",
            scope.loc(call),
            "write range(n), range(start, stop) or range(start, stop, step)",
        )
    values: list[Atom | UntypedLiteral] = []
    for arg in call.args:
        value = scalar(lower_expr(scope, arg), scope.loc(arg))
        is_int = (
            value.kind == "int"
            if isinstance(value, UntypedLiteral)
            else scope.inference.current_type(value).is_integer
        )
        if not is_int:
            raise KernelTypeError(
                f"range() takes integers, found {describe_type(value)}",
                scope.loc(arg),
                f"convert it: int({ast.unparse(arg)})",
            )
        values.append(value)
    if len(values) == 3 and isinstance(values[2], UntypedLiteral | Const) and values[2].value == 0:
        raise KernelTypeError(
            "the step of range() is zero", scope.loc(call.args[2]), "write a step such as 2 or -1"
        )
    if len(values) == 1:
        values.insert(0, UntypedLiteral(0))
    if len(values) == 2:
        values.append(UntypedLiteral(1))
    typed = [v for v in values if not isinstance(v, UntypedLiteral)]
    if typed:
        types = {scope.inference.current_type(v) for v in typed}
        inferred = InferredType(_index_type(types), fixed=True)
    else:
        inferred = scope.inference.infer(_index_variable(node), int32)
    scope.at(call)
    start, stop, step = (scope.integer(v, inferred.type) for v in values)
    return (_reversed(scope, start, stop, step) if is_reversed else (start, stop, step)), inferred


def _reversed(scope: Scope, start: Atom, stop: Atom, step: Atom) -> RangeBounds:
    """The bounds of ``reversed(range(start, stop, step))``.

    Raises:
        KernelTypeError: The indices are unsigned, so that none is below zero.
    """
    dtype = start.type
    assert isinstance(dtype, Scalar)
    if dtype.kind == "uint":
        raise KernelTypeError(
            f"reversed() of a range of {dtype}", scope.builder.loc, "convert its bounds: int(n)"
        )

    def emit(op: Op, left: Atom, right: Atom) -> Atom:
        if isinstance(left, Const) and isinstance(right, Const) and op.ref is not None:
            return const(dtype, int(op.ref(int(left.value), int(right.value))), None)
        return scope.builder.emit(op, left, right)

    count = scope.builder.emit(BUILTINS["range_len"].op, start, stop, step)
    before = emit(_SUB, start, step)
    last = scope.builder.emit(_ADD, before, emit(_MUL, count, step))
    return last, before, emit(_SUB, const(dtype, 0, None), step)


def _index_type(types: set[Scalar]) -> Scalar:
    """The type of the index of a range whose typed bounds have ``types``."""
    return next(iter(types)) if len(types) == 1 else index_type(types)


def _index_variable(node: ast.For) -> InferenceVariable:
    return InferenceVariable(node, "$index", Promotion.NEVER)


def _no_else(scope: Scope, node: ast.For | ast.While) -> None:
    if node.orelse:
        raise KernelSyntaxError(
            "loops have no 'else' in the kernel language",
            scope.loc(node),
            "set a flag before 'break' and test it after the loop",
        )


def _own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of ``body`` without those of loops in it."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, ast.If):
            yield from _own_nodes([*stmt.body, *stmt.orelse])


def _breaks(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Break) for n in _own_nodes(body))


def _continues(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Continue) for n in _own_nodes(body))


def _returns(body: Sequence[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for stmt in body for n in ast.walk(stmt))


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return _breaks(body) or _returns(body)
