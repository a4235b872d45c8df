"""What dotted names of the scope around a function stand for, ``address_of`` among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelcore.base.errors import (
    KernelAttributeError,
    KernelNameError,
    SrcLoc,
    reduction_remedy,
    suggestion,
)
from kernelcore.frontend.calls import intrinsics
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import Static, describe_object
from kernelcore.language.bound_names import MISSING as UNNOTED
from kernelcore.language.bound_names import note_attribute
from kernelcore.language.by_reference import place_of

# No Python object of an outer scope: a variable, or the value of an expression.
MISSING = object()


def static_object(scope: Scope, node: ast.expr) -> object:
    """The Python object that a dotted name of an outer scope stands for, else ``MISSING``."""
    match node:
        case ast.Name(id=name):
            known = scope.env.get(name)
            if isinstance(known, Static):
                return known.obj
            if known is not None or name in scope.assigned:
                return MISSING
            return scope.resolve(name, scope.loc(node))
        case ast.Attribute(value=base, attr=attr):
            owner = static_object(scope, base)
            if owner is MISSING:
                return MISSING
            found = note_attribute(owner, attr)
            if found is UNNOTED:
                found = _attribute(owner, attr, scope.loc(node))
            if found is MISSING:
                raise KernelNameError(
                    f"'{ast.unparse(base)}', {describe_object(owner)}, has no attribute '{attr}'",
                    scope.loc(node),
                    reduction_remedy(attr)
                    or suggestion(attr, dir(owner), None, f"{ast.unparse(base)}."),
                )
            return found
        case _:
            return MISSING


def _attribute(owner: object, attr: str, loc: SrcLoc | None) -> object:
    """An attribute, or ``MISSING``; an owner that says what to use instead is quoted."""
    try:
        return getattr(owner, attr)
    except KernelAttributeError as error:
        raise KernelNameError(error.message, loc, error.remedy) from None
    except AttributeError:
        return MISSING


def with_places(scope: Scope, node: ast.Call) -> ast.Call:
    """``node`` with ``x`` for each argument ``address_of(x)``."""

    def passed(arg: ast.expr) -> ast.expr:
        is_call = isinstance(arg, ast.Call)
        known = is_call and static_object(scope, arg.func) is intrinsics.address_of
        return place_of(arg) if known else arg

    keywords = [ast.copy_location(ast.keyword(k.arg, passed(k.value)), k) for k in node.keywords]
    args = [passed(a) for a in node.args]
    return ast.copy_location(ast.Call(node.func, args, keywords), node)


# Expressions with names of their own, or whose names Python looks up.
_OWN_NAMES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)


def dotted_names(node: ast.AST) -> Iterator[ast.expr]:
    """The names in ``node``, with the attributes that follow them, such as ``x`` and ``kc.sin``."""
    base: ast.AST = node
    while isinstance(base, ast.Attribute):
        base = base.value
    if isinstance(base, ast.Name) and isinstance(node, ast.expr):
        yield node
        return
    is_static = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("static")
    if not is_static and not isinstance(node, _OWN_NAMES):
        for child in ast.iter_child_nodes(node):
            yield from dotted_names(child)
