"""Nested functions: captured variables become parameters."""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Callable
from typing import Any

from kernelcore.base.errors import KernelSyntaxError
from kernelcore.frontend.calls.overloads import recursion
from kernelcore.frontend.derivatives.rules import DECORATORS
from kernelcore.frontend.expressions.expression import static_object
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import Static
from kernelcore.language.by_reference import updated_parameters
from kernelcore.language.definition import remember
from kernelcore.language.function import Function, Overload
from kernelcore.language.source import EXPRESSION_ERRORS, HOME, Source, own_nodes


def define_nested(scope: Scope, node: ast.FunctionDef) -> Static:
    """The function that ``node`` defines.

    Variables of the function around it that it reads become parameters; a call passes their values
    at the time of the call, as Python would read them then.

    Raises:
        KernelSyntaxError: It changes a variable from around it, or is decorated.
    """
    source = scope.names
    assert isinstance(source, Source)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Nonlocal | ast.Global):
            raise KernelSyntaxError(
                f"'{node.name}' changes a variable of the function around it",
                scope.loc(inner),
                "return the new value",
            )
    captured = _captured(scope, node)
    _check_header(scope, node)
    tree = copy.deepcopy(node)
    tree.decorator_list = []
    tree.args.kwonlyargs.extend(ast.arg(name) for name in captured)
    tree.args.kw_defaults.extend(None for _ in captured)
    ast.fix_missing_locations(tree)
    if updated_parameters(_python_function(source, tree)):
        raise KernelSyntaxError(
            f"'{node.name}' has a parameter ref[...], and is defined inside of a function",
            scope.loc(node),
            "define it outside, with @kc.func",
        )
    overload = Overload(_python_function(source, tree), captures=tuple(captured), home=scope)
    remember(overload, Source(overload.pyfunc, tree, source.line_offset, source.file_text))
    return Static(Function(node.name, [overload]))


def _check_header(scope: Scope, node: ast.FunctionDef) -> None:
    """Refuse decorators, but for those of kernelcore, defaults that only a launch knows, recursion.

    Raises:
        KernelSyntaxError: It has one of these.
    """
    for inner in ast.walk(node):
        callee = inner.func if isinstance(inner, ast.Call) else None
        if isinstance(callee, ast.Name) and callee.id == node.name:
            raise recursion(node.name, scope.loc(inner))
    for decorator in node.decorator_list:
        callee = decorator.func if isinstance(decorator, ast.Call) else decorator
        found = static_object(scope, callee)
        if any(found is rule for rule in DECORATORS):
            raise KernelSyntaxError(
                f"'{node.name}' is a rule for a derivative, and is defined inside of a function",
                scope.loc(decorator),
                "define it beside the function that it is for, outside of kernels",
            )
        if not getattr(found, "__module__", "").startswith("kernelcore."):
            raise KernelSyntaxError(
                f"'{node.name}' is decorated with '{ast.unparse(decorator)}', "
                "which cannot be compiled",
                scope.loc(decorator),
                "leave the decorator out: functions inside kernels need none",
            )
    for default in (*node.args.defaults, *node.args.kw_defaults):
        names = [n for n in ast.walk(default or node.args) if isinstance(n, ast.Name)]
        for name in names if default is not None else []:
            if name.id in scope.assigned or name.id in scope.env:
                raise KernelSyntaxError(
                    f"a default of '{node.name}' uses '{name.id}', a variable of the function "
                    "around it",
                    scope.loc(default or node),
                    f"read '{name.id}' in the body, or pass it in the call",
                )


def _captured(scope: Scope, node: ast.FunctionDef) -> list[str]:
    """The variables of ``scope`` that the function reads, in order of appearance."""
    args = node.args
    own = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
    names = [n for stmt in node.body for n in ast.walk(stmt) if isinstance(n, ast.Name)]
    own |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
    own |= {n.name for n in own_nodes(node.body) if isinstance(n, ast.FunctionDef)}
    outer = [n.id for n in names if n.id in scope.assigned or n.id in scope.env]
    return list(dict.fromkeys(name for name in outer if name not in own and name != node.name))


def _python_function(source: Source, tree: ast.FunctionDef) -> Callable[..., Any]:
    """``tree`` as a Python function, for its signature and its annotations."""
    definition = ast.increment_lineno(copy.deepcopy(tree), source.line_offset)
    # The body is never run; its names may exist in kernels only.
    definition.body = [ast.copy_location(ast.Pass(), definition.body[0])]
    module = ast.fix_missing_locations(ast.Module([definition], []))
    # Names are looked up around the kernel, where they may change.
    namespace: dict[str, Any] = {**source.namespace(), HOME: source}
    flags = __future__.annotations.compiler_flag
    try:
        exec(compile(module, source.file, "exec", flags, dont_inherit=True), namespace)
    except EXPRESSION_ERRORS as error:
        raise KernelSyntaxError(
            f"a default of '{tree.name}': {type(error).__name__}: {error}",
            source.loc(tree),
            "defaults are constants",
        ) from None
    return namespace[tree.name]
