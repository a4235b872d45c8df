"""Which variables a piece of code changes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernelcore.base.errors import KernelNameError, SrcLoc
from kernelcore.frontend.expressions.static_names import static_object
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import CompositeValue
from kernelcore.language.by_reference import place_of
from kernelcore.language.definition import define
from kernelcore.language.function import Function, Overload
from kernelcore.language.source import own_nodes


def assigned_names(scope: Scope, nodes: Sequence[ast.AST]) -> dict[str, SrcLoc | None]:
    """The names that ``nodes``, from ``own_nodes``, assign, with the first place of each."""
    out: dict[str, SrcLoc | None] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            out.setdefault(node.id, scope.loc(node))
        elif isinstance(node, ast.FunctionDef):
            out.setdefault(node.name, scope.loc(node))
    return out


def changed_names(scope: Scope, body: Sequence[ast.stmt]) -> dict[str, SrcLoc | None]:
    """The names that ``body`` assigns in whole or in part.

    A call of a function that updates its arguments assigns them too.
    """
    nodes = list(own_nodes(body))
    out = assigned_names(scope, nodes)
    for node in nodes:
        for name in _changed(scope, node):
            out.setdefault(name.id, scope.loc(name))
    return out


def _changed(scope: Scope, node: ast.AST) -> list[ast.Name]:
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _variable_of(scope, node)
    if isinstance(node, ast.Call):
        try:
            callee = static_object(scope, node.func)
        except KernelNameError:
            return []  # reported where the call is lowered
        if isinstance(callee, Function):
            given = [target for o in callee.overloads if o.updates for target in _updated(o, node)]
            return [name for argument in given for name in _variable_of(scope, argument)]
    return []


def _updated(overload: Overload, node: ast.Call) -> list[ast.expr]:
    """The arguments that ``overload`` updates if it is what ``node`` calls."""
    keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
    try:
        bound = define(overload).signature.bind(*node.args, **keywords).arguments
    except TypeError:
        return []
    return [place_of(bound[name]) for name in overload.updates if name in bound]


def _variable_of(scope: Scope, node: ast.expr) -> list[ast.Name]:
    """The variable that ``node`` is or belongs to; arrays do not count."""
    root = node
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name):
        return []
    is_variable = root is node or isinstance(scope.env.get(root.id), CompositeValue)
    return [root] if is_variable else []
