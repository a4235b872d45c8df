"""Statements to IR: assignment, and leaving a block by ``break``, ``continue`` or ``return``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import EllipsisType

from kernelcore.base.errors import KernelError, KernelNameError, KernelSyntaxError, KernelTypeError
from kernelcore.frontend.calls import intrinsics
from kernelcore.frontend.calls.atomics import accumulate, lower_tid, negated
from kernelcore.frontend.calls.nested import define_nested
from kernelcore.frontend.doubts import doubt
from kernelcore.frontend.expressions.apply import cast
from kernelcore.frontend.expressions.expression import (
    binary,
    lower_condition,
    lower_expr,
)
from kernelcore.frontend.expressions.output import lower_assert
from kernelcore.frontend.expressions.static_names import dotted_names, static_object
from kernelcore.frontend.scope import TRUE, FollowingError, Scope, Unset, scalar
from kernelcore.frontend.statements.assigned_names import assigned_names
from kernelcore.frontend.statements.assignment_target import ElementTarget, find_target
from kernelcore.frontend.statements.branch import BREAK, CONTINUE, RETURN, branch, guard, stopped
from kernelcore.frontend.statements.for_while import lower_for, lower_while
from kernelcore.frontend.statements.results import Results
from kernelcore.frontend.statements.side_effects import writes
from kernelcore.frontend.unsupported import unsupported
from kernelcore.frontend.values.conversion import converted
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import ArrayValue, CompositeValue, Value, flatten
from kernelcore.ir.core import Eqn, Var
from kernelcore.language.annotations import scalar_annotation
from kernelcore.language.source import own_nodes
from kernelcore.language.types import Dense, StructType, type_of


class Block:
    """Lowers the statements of one function.

    Args:
        scope: The state, at the start of the function.
        results: The results of the function; None in a kernel.
    """

    def __init__(self, scope: Scope, results: Results | None) -> None:
        self.scope = scope
        self.results = results

    def lower(self, stmts: Sequence[ast.stmt]) -> None:
        """Lower ``stmts``; those after a certain exit are dead, after a possible one guarded."""
        scope = self.scope
        for position, stmt in enumerate(stmts):
            self._recovering(stmt)
            rest = stmts[position + 1 :]
            if not rest:
                return
            stop = stopped(scope)
            if stop == TRUE:
                return
            if isinstance(stop, Var):
                guard(scope, stmt, stop, lambda rest=rest: self.lower(rest))
                return

    def _recovering(self, node: ast.stmt) -> None:
        """Lower a statement; one in error is left out, so that errors below are found as well."""
        scope = self.scope
        env, depth = dict(scope.env), scope.loop_depth
        try:
            self._statement(node)
        except KernelError as error:
            if not isinstance(error, FollowingError):
                scope.inference.errors.append(error)
            scope.env, scope.loop_depth = dict(env), depth
            self._further_mistakes(node)
            scope.env, scope.loop_depth = env, depth
            for name, loc in assigned_names(scope, list(own_nodes([node]))).items():
                if name not in env:
                    env[name] = Unset(loc, has_failed=True)

    def _further_mistakes(self, node: ast.stmt) -> None:
        """Note what else is wrong in a statement in error; what is noted twice is shown once."""
        scope = self.scope
        with scope.builder.region():
            head: ast.AST | None = None
            match node:
                case ast.If() | ast.While():
                    head = node.test
                case ast.For():
                    head = node.iter
                case ast.Assign() | ast.AugAssign() | ast.Expr():
                    head = node.value
                case _:
                    pass
            for name in dotted_names(head) if head is not None else ():
                self._unknown(name)
            match node:
                case ast.If(test=test, body=body, orelse=orelse):
                    # One that is known may leave out a side that is not for these types.
                    if not isinstance(test, ast.Call):
                        for side in (body, orelse):
                            self._scratch(side)
                case ast.For(body=body) | ast.While(body=body):
                    for name, loc in assigned_names(scope, list(own_nodes([node]))).items():
                        scope.env.setdefault(name, Unset(loc, has_failed=True))
                    self._scratch(body)
                case _:
                    pass

    def _scratch(self, stmts: Sequence[ast.stmt]) -> None:
        """Lower ``stmts`` for their mistakes alone."""
        env = self.scope.env
        self.scope.env = dict(env)
        self.lower(stmts)
        self.scope.env = env

    def _unknown(self, node: ast.expr) -> None:
        """Note that the name ``node`` is not defined, if it is not."""
        try:
            lower_expr(self.scope, node)
        except FollowingError:
            pass
        except KernelNameError as error:
            self.scope.inference.errors.append(error)
        except KernelError:
            # What is wrong with the value matters where it is used.
            pass

    def _statement(self, node: ast.stmt) -> None:
        scope = self.scope
        scope.at(node)
        match node:
            case ast.Assign():
                self._assign_all(node.targets, self._assigned_value(node), node.value)
            case ast.AugAssign():
                self._augmented(node)
            case ast.AnnAssign():
                self._annotated(node)
            case ast.If(test=test, body=body, orelse=orelse):
                cond = lower_condition(scope, test)
                branch(scope, node, cond, lambda: self.lower(body), lambda: self.lower(orelse))
            case ast.For():
                lower_for(scope, node, lambda: self.lower(node.body))
            case ast.While():
                lower_while(scope, node, lambda: self.lower(node.body))
            case ast.Break():
                scope.env[BREAK] = TRUE
            case ast.Continue():
                scope.env[CONTINUE] = TRUE
            case ast.Return():
                self._return(node)
            case ast.Expr():
                self._expression(node)
            case ast.FunctionDef(name=name):
                scope.set(name, define_nested(scope, node))
            case ast.Assert(test=test):
                lower_assert(scope, node, lower_condition(scope, test))
            case ast.Pass():
                pass
            case _:
                raise unsupported(node, scope.loc(node))

    def _assigned_value(self, node: ast.Assign) -> Value:
        """The right-hand side; ``tid()`` gives one index per target."""
        target, value = node.targets[0], node.value
        is_several = isinstance(target, ast.Tuple | ast.List)
        if is_several and isinstance(value, ast.Call) and not value.args and not value.keywords:
            callee = static_object(self.scope, value.func)
            if callee is intrinsics.tid:
                return lower_tid(self.scope, len(target.elts), value)
        return lower_expr(self.scope, value)

    def _assign_all(self, targets: Sequence[ast.expr], value: Value, source: ast.expr) -> None:
        """Give every target the value; it is named before the first one uses it."""
        for target in targets:
            value = named(self.scope, target, value)
        for target in targets:
            self._assign(target, value, source)

    def _assign(self, target: ast.expr, value: Value, source: ast.expr) -> None:
        scope, loc = self.scope, self.scope.loc(target)
        match target:
            case ast.Name(id=name):
                bind(scope, name, value, target, source)
            case ast.Subscript() | ast.Attribute():
                find_target(scope, target).store(scope, value, source, target)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                values = _members(value)
                for star in targets:
                    if isinstance(star, ast.Starred):
                        raise unsupported(star, scope.loc(star))
                if len(values) != len(targets):
                    raise KernelTypeError(
                        f"expected {len(targets)} values, one per target, found {len(values)}",
                        loc,
                        "write as many targets as there are values",
                    )
                for inner, member in zip(targets, values, strict=True):
                    self._assign(inner, member, source)
            case _:
                raise KernelSyntaxError(
                    f"cannot assign to '{ast.unparse(target)}'",
                    loc,
                    "assign to a name or to an array element",
                )

    def _augmented(self, node: ast.AugAssign) -> None:
        scope, target = self.scope, node.target
        operands = [target, node.value]
        if isinstance(target, ast.Name):
            left = scope.lookup(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            value = lower_expr(scope, node.value)
            out = binary(scope, node.op, left, value, node, operands)
            self._assign_all([target], out, node.value)
            return
        start = len(scope.builder.eqns)
        part = find_target(scope, target)
        is_sum = isinstance(node.op, ast.Add | ast.Sub)
        if isinstance(part, ElementTarget) and is_sum and not isinstance(part.type, StructType):
            value = lower_expr(scope, node.value)
            arrays = {array for slot in part.slots for array in slot.arrays}
            if any(writes(scope.builder.eqns[start:], array) for array in arrays):
                raise KernelSyntaxError(
                    f"'{part.view.name}' is written while a value for '{ast.unparse(target)}' is "
                    "computed",
                    scope.loc(node),
                    "write the value to a variable first, and add that on a line of its own",
                )
            if isinstance(node.op, ast.Sub):
                value = negated(scope, value, part.type, node.value, node)
            accumulate(scope, part.slots, part.type, value, node.value, node)
            return
        scope.at(target)
        old = part.load(scope)
        value = lower_expr(scope, node.value)
        out = binary(scope, node.op, old, value, node, operands)
        part.store(scope, out, node.value, node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        scope, loc = self.scope, self.scope.loc(node.annotation)
        if node.value is None:
            raise KernelSyntaxError(
                f"'{ast.unparse(node.target)}' is declared without a value",
                scope.loc(node),
                "give it a value here",
            )
        annotation = static_object(scope, node.annotation)
        type_ = type_of(annotation)
        if isinstance(type_, Dense | StructType):
            value = lower_expr(scope, node.value)
            value = converted(scope, value, type_, scope.loc(node.value))
            self._assign_all([node.target], value, node.value)
            return
        dtype = scalar_annotation(annotation, node.annotation, loc)
        value = scalar(lower_expr(scope, node.value), scope.loc(node.value))
        if isinstance(value, UntypedLiteral) or not scope.inference.is_untyped(value):
            value = scope.inference.adapt(value, dtype, scope.loc(node.value))
        self._assign_all([node.target], cast(scope, dtype, value, scope.at(node)), node.value)

    def _return(self, node: ast.Return) -> None:
        scope, loc = self.scope, self.scope.loc(node)
        is_bare = node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        )
        if self.results is None:
            if not is_bare:
                raise KernelSyntaxError(
                    "a kernel returns nothing", loc, "write the value to an array"
                )
            scope.env[RETURN] = TRUE
            return
        value = () if is_bare or node.value is None else lower_expr(scope, node.value)
        self.results.give(scope, node, value)

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(
            node.value.value, str | EllipsisType
        ):
            return  # a docstring, or an empty body
        lower_expr(self.scope, node.value)
        if not isinstance(node.value, ast.Call):
            doubt(
                "this expression has no effect",
                self.scope.loc(node),
                "assign it to a name or to an array element",
            )


def bind(scope: Scope, name: str, value: Value, target: ast.expr, source: ast.expr) -> None:
    """Give ``name`` a value, which ``source`` was lowered to.

    Raises:
        KernelTypeError: ``name`` is an array parameter, or there is no value.
    """
    old = scope.env.get(name)
    if isinstance(old, ArrayValue) and not isinstance(value, ArrayValue):
        raise KernelTypeError(
            f"cannot assign to '{name}': it is an {old.type}",
            scope.loc(target),
            f"assign to its elements, {name}[i] = ..., or use another name",
        )
    if isinstance(value, tuple) and not value:
        scalar(value, scope.loc(source))
    scope.set(name, value)


def _members(value: Value) -> tuple[Value, ...]:
    """The members of a tuple or the components of a vector, which unpacking assigns."""
    if isinstance(value, CompositeValue) and isinstance(value.type, Dense):
        return value.members if len(value.type.shape) == 1 else (value,)
    return value if isinstance(value, tuple) else (value,)


def named(scope: Scope, target: ast.expr, value: Value) -> Value:
    """``value`` under the names of the user's variables that ``target`` consists of."""
    _, leaves = flatten(value)
    held = [*leaves, *scope.env.values()]

    def inside(target: ast.expr, value: Value) -> Value:
        match target, value:
            case ast.Name(id=name), Var() if sum(value is other for other in held) == 1:
                return _renamed(scope, value, name)
            case ast.Tuple(elts=targets) | ast.List(elts=targets), tuple():
                if len(targets) == len(value):
                    return tuple(inside(t, v) for t, v in zip(targets, value, strict=True))
            case _:
                pass
        return value

    return inside(target, value)


def _renamed(scope: Scope, value: Var, name: str) -> Var:
    """``value``, which nothing else holds, with a name if it was made just now and has none."""
    eqns = scope.builder.eqns
    if value.name or not eqns or not any(value is out for out in eqns[-1].outputs):
        return value
    last = eqns[-1]
    named = Var(value.type, name)
    outputs = tuple(named if out is value else out for out in last.outputs)
    eqns[-1] = Eqn(last.op, last.inputs, outputs, last.attrs, last.regions, last.loc)
    if value in scope.inference.origins:
        scope.inference.origins[named] = scope.inference.origins[value]
    return named
