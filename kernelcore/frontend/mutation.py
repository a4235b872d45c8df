"""Which variables a piece of code changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from typing import cast

from kernelcore.errors import KernelNameError, SrcLoc
from kernelcore.frontend.expr import static_object
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.value import Compound
from kernelcore.function import Function

# Fields of syntax trees with names, numbers, contexts and operators.
_WITHOUT_NODES = frozenset({"arg", "attr", "ctx", "id", "name", "op", "ops"})


def assigned_names(scope: Scope, body: Sequence[ast.stmt]) -> dict[str, SrcLoc | None]:
    """The names that ``body`` assigns, to the first place that does."""
    out: dict[str, SrcLoc | None] = {}
    for stmt in body:
        for node in own_nodes(stmt):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                out.setdefault(node.id, scope.loc(node))
            elif isinstance(node, ast.FunctionDef):
                out.setdefault(node.name, scope.loc(node))
    return out


def changed_names(scope: Scope, body: Sequence[ast.stmt]) -> dict[str, SrcLoc | None]:
    """The names that ``body`` assigns, and those of composites of which it assigns a part.

    A call of a function that updates its arguments assigns them too.
    """
    out = assigned_names(scope, body)
    for stmt in body:
        for node in own_nodes(stmt):
            for name in _changed(scope, node):
                out.setdefault(name.id, scope.loc(name))
    return out


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and the nodes inside it, without the bodies of functions defined there.

    What names are used for, and operators, are left out: half of all nodes.
    """
    pending = [node]
    while pending:
        found = pending.pop()
        yield found
        inner: list[ast.AST] = []
        for name in _parts(found.__class__):
            value = getattr(found, name, None)
            if isinstance(value, ast.AST):
                inner.append(value)
            elif isinstance(value, list):
                inner += (v for v in cast("list[object]", value) if isinstance(v, ast.AST))
        pending.extend(reversed(inner))


@cache
def _parts(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node in which ``own_nodes`` looks for others."""
    if issubclass(kind, ast.FunctionDef | ast.Lambda):
        return ()
    return tuple(name for name in kind._fields if name not in _WITHOUT_NODES)


def _changed(scope: Scope, node: ast.AST) -> list[ast.Name]:
    if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
        return _variable_of(scope, node)
    if isinstance(node, ast.Call):
        try:
            callee = static_object(scope, node.func)
        except KernelNameError:
            return []  # reported where the call is lowered
        if isinstance(callee, Function) and any(o.updates for o in callee.overloads):
            given = [*node.args, *(k.value for k in node.keywords)]
            return [name for argument in given for name in _variable_of(scope, argument)]
    return []


def _variable_of(scope: Scope, node: ast.expr) -> list[ast.Name]:
    """The variable that ``node`` is, or is a part of; an array is none."""
    root = node
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name):
        return []
    is_variable = root is node or isinstance(scope.env.get(root.id), Compound)
    return [root] if is_variable else []
