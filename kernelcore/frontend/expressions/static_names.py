"""What dotted names of the scope around a function stand for."""

from __future__ import annotations

import ast

from kernelcore.base.errors import KernelNameError, reduction_remedy, suggestion
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import Static, describe_object
from kernelcore.language.bound_names import MISSING as UNNOTED
from kernelcore.language.bound_names import note_attribute

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
                found = getattr(owner, attr, MISSING)
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
