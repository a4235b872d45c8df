"""Unrolling of loops over compile-time values."""

from __future__ import annotations

import ast
import builtins

from kernelcore.base.errors import KernelNameError, KernelTypeError
from kernelcore.frontend.calls.compile_time import static
from kernelcore.frontend.expressions.expression import lower_expr
from kernelcore.frontend.expressions.static_names import static_object
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import CompositeValue, Value, describe_type, members_of

MAX_ITERATIONS = 64


def is_static_loop(scope: Scope, node: ast.For) -> bool:
    """Whether ``node`` is a loop over ``static(...)``, or over a tuple or a vector."""
    call = node.iter
    return not isinstance(call, ast.Call) or static_object(scope, call.func) is static


def range_call(scope: Scope, node: ast.expr) -> tuple[ast.Call | None, bool]:
    """The call of ``range`` that ``node`` is, and whether ``reversed`` is around it."""
    callee = static_object(scope, node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and not node.keywords:
        if callee is builtins.range:
            return node, False
        if callee is builtins.reversed and len(node.args) == 1:
            inner, is_reversed = range_call(scope, node.args[0])
            return inner, not is_reversed
    return None, False


def unrolled(scope: Scope, node: ast.For) -> list[Value] | None:
    """The values of the loop variable if the loop is unrolled, else None.

    A loop over ``static(...)``, a tuple or a vector is. One over a short known range is where it
    indexes a component of a composite variable by its target, or uses that in ``static(...)``,
    since such an index is best known.
    """
    given = node.iter
    if is_static_loop(scope, node):
        found = lower_expr(scope, given)
        members = found if isinstance(given, ast.Call) else members_of(found)
        if isinstance(members, tuple):
            return list(members)
        if isinstance(given, ast.Call):
            raise KernelTypeError(
                "a loop over static() takes a tuple, a list or a range, found "
                f"{describe_type(found)}",
                scope.loc(given),
                "write for i in static((1, 2, 3))",
            )
        return None
    call, is_reversed = range_call(scope, given)
    if call is None or not 1 <= len(call.args) <= 3:
        return None
    assert isinstance(node.target, ast.Name)
    if not _needs_target(scope, node, node.target.id):
        return None
    with scope.builder.region() as eqns:
        bounds = [lower_expr(scope, a) for a in call.args]
    known = [b.value for b in bounds if isinstance(b, UntypedLiteral) and isinstance(b.value, int)]
    if len(known) < len(bounds) or eqns or (len(known) == 3 and known[2] == 0):
        return None
    iterations = range(*known)[::-1] if is_reversed else range(*known)
    # len() fails for ranges beyond ssize_t.
    is_short = not iterations[MAX_ITERATIONS:]
    return [UntypedLiteral(k) for k in iterations] if is_short else None


def _needs_target(scope: Scope, loop: ast.For, target: str) -> bool:
    """Whether the body indexes a composite variable by ``target``, or has it in ``static``."""
    assigned = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id not in scope.env}
    for node in ast.walk(loop):
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            names = {n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)}
            if target in names and _is_static(scope, node):
                return True
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


def _is_static(scope: Scope, node: ast.Call) -> bool:
    try:
        return static_object(scope, node.func) is static
    except KernelNameError:
        return False  # reported where the call is lowered
