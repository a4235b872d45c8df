"""Operators between numbers in kernels of a dialect: calls of its functions."""

from __future__ import annotations

import ast

from kernelcore.frontend.calls.overloads import takes
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import ArrayChoice, ArrayView, Static, Value

_NO_NUMBERS = (ArrayView, ArrayChoice, Static, tuple)


def operator_of_dialect(
    scope: Scope, op: ast.operator, left: Value, right: Value, node: ast.AST
) -> Value | None:
    """``left op right`` as the dialect of the text has it; None where that is as everywhere."""
    dialect = scope.names.dialect
    function = None if dialect is None else dialect.operators.get(type(op).__name__)
    if function is None or isinstance(left, _NO_NUMBERS) or isinstance(right, _NO_NUMBERS):
        return None
    if isinstance(left, UntypedLiteral) and isinstance(right, UntypedLiteral):
        if not function.takes(left.value, right.value):
            return None
        return host_value(function(left.value, right.value), "", scope.loc(node))
    if not takes(scope, function, [left, right]):
        return None
    return scope.call_function(function, [left, right], {}, node, scope)
