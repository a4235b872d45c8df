"""Statements to IR: assignment, and leaving a block by ``break``, ``continue`` or ``return``."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernelcore.builtins.syntax import UNARY
from kernelcore.errors import KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.frontend import intrinsics
from kernelcore.frontend.annotations import scalar_annotation
from kernelcore.frontend.apply import apply_op, cast
from kernelcore.frontend.branch import BREAK, CONTINUE, RETURN, branch, guard, stopped
from kernelcore.frontend.call import lower_atomic_add, lower_tid
from kernelcore.frontend.effects import writes
from kernelcore.frontend.expr import (
    array_of,
    binary,
    lower_condition,
    lower_expr,
    lower_indices,
    static_object,
)
from kernelcore.frontend.for_while import lower_for, lower_while
from kernelcore.frontend.results import Results
from kernelcore.frontend.scope import TRUE, Scope, describe_type, scalar, single
from kernelcore.frontend.unsupported import unsupported
from kernelcore.frontend.weak import Value, Weak
from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import LOAD, STORE
from kernelcore.types import ArrayType


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
            self._statement(stmt)
            rest = stmts[position + 1 :]
            if not rest:
                return
            stop = stopped(scope)
            if stop == TRUE:
                return
            if isinstance(stop, Var):
                guard(scope, stmt, stop, lambda rest=rest: self.lower(rest))
                return

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
            case ast.Pass():
                pass
            case _:
                raise unsupported(node, scope.loc(node))

    def _assigned_value(self, node: ast.Assign) -> Value:
        """The right-hand side; ``tid()`` gives one index per target."""
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Call) and not value.args:
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
                bind(scope, name, value, loc)
            case ast.Subscript():
                array, indices = self._element(target)
                self._store(target, array, indices, value, source)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                values = value if isinstance(value, tuple) else (value,)
                for star in targets:
                    if isinstance(star, ast.Starred):
                        raise unsupported(star, scope.loc(star))
                if len(values) != len(targets):
                    raise KernelTypeError(
                        f"expected {len(targets)} values, one per target, found {len(values)}", loc
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
        if not isinstance(target, ast.Subscript):
            self._assign(target, (), node.value)
            return
        start = len(scope.builder.eqns)
        array, indices = self._element(target)
        if isinstance(node.op, ast.Add | ast.Sub):
            value = lower_expr(scope, node.value)
            if writes(scope.builder.eqns[start:], array):
                raise KernelSyntaxError(
                    f"'{ast.unparse(target.value)}' is written while a value for it is computed",
                    scope.loc(node),
                    "write the value to a variable first, and add that on a line of its own",
                )
            if isinstance(node.op, ast.Sub):
                value = apply_op(scope, UNARY[ast.USub].op, [value], node, [node.value])
            lower_atomic_add(scope, array, indices, value, node.value, node)
            return
        scope.at(target)
        old = scope.builder.emit(LOAD, array, *indices)
        value = lower_expr(scope, node.value)
        out = binary(scope, node.op, old, value, node, operands)
        self._store(node, array, indices, out, node.value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        scope, loc = self.scope, self.scope.loc(node.annotation)
        if node.value is None:
            raise KernelSyntaxError(
                f"'{ast.unparse(node.target)}' is declared without a value",
                scope.loc(node),
                "give it a value here",
            )
        dtype = scalar_annotation(static_object(scope, node.annotation), node.annotation, loc)
        value = scalar(lower_expr(scope, node.value), scope.loc(node.value))
        if isinstance(value, Weak) or not scope.weak.is_weak(value):
            value = scope.weak.adapt(value, dtype, scope.loc(node.value))
        self._assign_all([node.target], cast(scope, dtype, value, scope.at(node)), node.value)

    def _element(self, target: ast.Subscript) -> tuple[Var, list[Atom]]:
        if isinstance(target.slice, ast.Slice):
            raise unsupported(target.slice, self.scope.loc(target))
        array = array_of(self.scope, target.value)
        return array, lower_indices(self.scope, array, target)

    def _store(
        self,
        node: ast.AST,
        array: Var,
        indices: Sequence[Atom],
        value: Value,
        source: ast.expr,
    ) -> None:
        assert isinstance(array.type, ArrayType)
        loc = self.scope.loc(source)
        element = self.scope.weak.adapt(scalar(value, loc), array.type.dtype, loc)
        self.scope.at(node)
        self.scope.builder.emit_effect(STORE, array, *indices, element)

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
        members = value if isinstance(value, tuple) else (value,)
        self.results.give(scope, node, [scalar(v, loc) for v in members])

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return  # a docstring
        lower_expr(self.scope, node.value)
        if not isinstance(node.value, ast.Call):
            raise KernelSyntaxError(
                "this expression has no effect",
                self.scope.loc(node),
                "assign it to a name or to an array element",
            )


def bind(scope: Scope, name: str, value: Value, loc: SrcLoc | None) -> None:
    """Give ``name`` a value.

    Raises:
        KernelTypeError: ``name`` is an array, or ``value`` is several values.
    """
    old = scope.env.get(name)
    if isinstance(old, Var) and isinstance(old.type, ArrayType):
        raise KernelTypeError(
            f"cannot assign to '{name}': it is {describe_type(old)}",
            loc,
            f"assign to its elements, {name}[i] = ..., or use another name",
        )
    scope.env[name] = single(value, loc)


def named(scope: Scope, target: ast.expr, value: Value) -> Value:
    """``value`` under the names of the user's variables that ``target`` consists of."""
    match target, value:
        case ast.Name(id=name), Var():
            return _renamed(scope, value, name)
        case ast.Tuple(elts=targets) | ast.List(elts=targets), tuple():
            if len(targets) == len(value):
                return tuple(named(scope, t, v) for t, v in zip(targets, value, strict=True))
        case _:
            pass
    return value


def _renamed(scope: Scope, value: Var, name: str) -> Var:
    """``value`` with a name, if it was made just now, so that nothing holds it, and has none."""
    eqns = scope.builder.eqns
    if value.name or not eqns or not any(value is out for out in eqns[-1].outputs):
        return value
    last = eqns[-1]
    named = Var(value.type, name)
    outputs = tuple(named if out is value else out for out in last.outputs)
    eqns[-1] = Eqn(last.op, last.inputs, outputs, last.attrs, last.regions, last.loc)
    if value in scope.weak.origins:
        scope.weak.origins[named] = scope.weak.origins[value]
    return named
