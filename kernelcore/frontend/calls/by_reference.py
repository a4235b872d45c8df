"""Calls that assign their arguments: parameters ``ref[T]``, and results of the library."""

from __future__ import annotations

import ast

from kernelcore.base.errors import KernelTypeError
from kernelcore.frontend.calls.overloads import Match
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.statements.assignment_target import updated_target
from kernelcore.frontend.values.conversion import converted
from kernelcore.frontend.values.value import CompositeValue, Value


def assign_updated(scope: Scope, match: Match, result: Value, node: ast.AST) -> Value:
    """Assign the arguments that the function updates; the rest of ``result``."""
    assert isinstance(result, tuple)
    assert isinstance(node, ast.Call)
    first, *new = result
    given = {k.arg: k.value for k in node.keywords if k.arg is not None}
    # Arguments address_of(x) are x already.
    bound = match.definition.signature.bind(*node.args, **given)
    places: list[ast.expr] = []
    for name, value in zip(match.overload.updates, new, strict=True):
        target = bound.arguments.get(name)
        if target is None or any(_overlap(target, other) for other in places):
            what = "its default" if target is None else f"'{ast.unparse(target)}' twice"
            raise KernelTypeError(
                f"{match.overload.pyfunc.__name__}() assigns its parameter '{name}', found {what}",
                scope.loc(node if target is None else target),
                "pass a variable of its own for each parameter ref[...]",
            )
        places.append(target)
        match target:
            case ast.Name(id=variable) if scope.get(variable) is not None:
                scope.check_own(variable, scope.loc(target))
                old = scope.get(variable)
                if isinstance(old, CompositeValue):
                    value = converted(scope, value, old.type, scope.loc(target))
                scope.set(variable, value)
            case ast.Attribute() | ast.Subscript():
                updated_target(scope, target).store(scope, value, target, node)
            case _:
                raise KernelTypeError(
                    f"{match.overload.pyfunc.__name__}() updates its argument '{name}': "
                    f"'{ast.unparse(target)}' is no variable",
                    scope.loc(target),
                    "assign it to a variable, and pass that",
                )
    return first


def _overlap(one: ast.expr, other: ast.expr) -> bool:
    """Whether one place is the other, or a part of it, as they are written."""
    texts = sorted((ast.unparse(one), ast.unparse(other)), key=len)
    return texts[0] == texts[1] or texts[1].startswith((f"{texts[0]}.", f"{texts[0]}["))
