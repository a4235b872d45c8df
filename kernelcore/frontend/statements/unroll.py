"""Unrolling of loops over compile-time values."""

from __future__ import annotations

import ast
import builtins

from kernelcore.base.errors import KernelTypeError
from kernelcore.frontend.calls.compile_time import static
from kernelcore.frontend.expressions.expression import lower_expr, static_object
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import CompositeValue, Value, describe_type

MAX_ITERATIONS = 64


def is_static_loop(scope: Scope, node: ast.For) -> bool:
    """Whether ``node`` is a loop over ``static(...)``."""
    call = node.iter
    return isinstance(call, ast.Call) and static_object(scope, call.func) is static


def unrolled(scope: Scope, node: ast.For) -> list[Value] | None:
    """The values of the loop variable if the loop is unrolled, else None.

    A loop over ``static(...)`` is. One over a short known range is where it indexes a component of
    a composite variable by its target, since such an index is best known.
    """
    call = node.iter
    if not isinstance(call, ast.Call) or call.keywords:
        return None
    callee = static_object(scope, call.func)
    if callee is static:
        found = lower_expr(scope, call)
        if not isinstance(found, tuple):
            raise KernelTypeError(
                "a loop over static() takes a tuple, a list or a range, found "
                f"{describe_type(found)}",
                scope.loc(call),
                "write for i in static((1, 2, 3))",
            )
        return list(found)
    if callee is not builtins.range or not 1 <= len(call.args) <= 3:
        return None
    assert isinstance(node.target, ast.Name)
    if not _indexes_components(scope, node, node.target.id):
        return None
    with scope.builder.region() as eqns:
        bounds = [lower_expr(scope, a) for a in call.args]
    known = [b.value for b in bounds if isinstance(b, UntypedLiteral) and isinstance(b.value, int)]
    if len(known) < len(bounds) or eqns or (len(known) == 3 and known[2] == 0):
        return None
    iterations = range(*known)
    # len() fails for ranges beyond ssize_t.
    is_short = not iterations[MAX_ITERATIONS:]
    return [UntypedLiteral(k) for k in iterations] if is_short else None


def _indexes_components(scope: Scope, loop: ast.For, target: str) -> bool:
    """Whether the body indexes a composite variable by ``target``."""
    assigned = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id not in scope.env}
    for node in ast.walk(loop):
        if not isinstance(node, ast.Subscript):
            continue
        root = node.value
        while isinstance(root, ast.Attribute | ast.Subscript):
            root = root.value
        names = {n.id for n in ast.walk(node.slice) if isinstance(n, ast.Name)}
        is_composite = isinstance(root, ast.Name) and (
            isinstance(scope.env.get(root.id), CompositeValue) or root.id in assigned
        )
        if is_composite and target in names:
            return True
    return False
