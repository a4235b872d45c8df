"""``adjoint[x]`` in the text of a rule becomes a variable of its own."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from typing import Any

from kernelcore.base.errors import KernelSyntaxError, KernelTypeError
from kernelcore.language.source import Source


class Adjoint:
    """``adjoint``: in a function for a gradient, ``adjoint[x]`` is the cotangent of ``x``."""

    def __getitem__(self, parameter: object) -> Any:
        raise _outside()

    def __setitem__(self, parameter: object, value: object) -> None:
        raise _outside()


def _outside() -> KernelTypeError:
    return KernelTypeError(
        "adjoint[...] was used outside of a gradient",
        remedy="use it in a function decorated with @func_grad(f)",
    )


adjoint = Adjoint()


def cotangent_name(param: str) -> str:
    """The variable that holds the cotangent of ``param``; no identifier."""
    return f"adjoint[{param}]"


def with_adjoint_variables(source: Source, params: Mapping[str, bool]) -> Source:
    """``source``, the text of a gradient, with variables in place of ``adjoint[x]``.

    Args:
        source: The text.
        params: The parameters of the function by their names in ``source``, and whether they hold
            floats.

    Raises:
        KernelTypeError: ``adjoint[...]`` of something else.
        KernelSyntaxError: It returns a value.
    """
    tree = _Rewriter(source, params).visit(copy.deepcopy(source.tree))
    assert isinstance(tree, ast.FunctionDef)
    tree.returns = None
    # The rule's results are implied: the cotangents of its parameters.
    tree.body.append(ast.copy_location(ast.Return(), tree.body[-1]))
    return Source(source.pyfunc, tree, source.line_offset, source.file_text)


def refuse_adjoint_syntax(source: Source) -> None:
    """Refuse ``adjoint[x]`` outside of a rule for reverse mode.

    Raises:
        KernelSyntaxError: It is used.
    """
    rewriter = None
    for node in source.own_nodes():
        if not isinstance(node, ast.Subscript):
            continue
        rewriter = rewriter or _Rewriter(source, {})
        if rewriter.is_adjoint(node.value):
            raise KernelSyntaxError(
                f"'{ast.unparse(node)}' in a function that is no gradient",
                source.loc(node),
                "use it in a function decorated with @func_grad(f)",
            )


def _with_root(node: ast.expr, root: ast.expr) -> Any:
    """``node``, a part of a variable, as a part of ``root``."""
    if isinstance(node, ast.Attribute):
        return ast.Attribute(_with_root(node.value, root), node.attr, ast.Load())
    if isinstance(node, ast.Subscript):
        return ast.Subscript(_with_root(node.value, root), node.slice, ast.Load())
    return root


class _Rewriter(ast.NodeTransformer):
    def __init__(self, source: Source, params: Mapping[str, bool]) -> None:
        self.source = source
        self.params = params
        self.names = source.namespace()

    def visit_Return(self, node: ast.Return) -> ast.AST:
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        if node.value is not None and not is_none:
            raise KernelSyntaxError(
                "a gradient returns nothing",
                self.source.loc(node),
                "add to the cotangents of the arguments: kc.adjoint[x] += ...",
            )
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if not self.is_adjoint(node.value):
            return self.generic_visit(node)
        part = node.slice
        while isinstance(part, ast.Attribute | ast.Subscript):
            part = part.value
        name = part.id if isinstance(part, ast.Name) else None
        if name is None or name not in self.params:
            known = ", ".join(n for n, is_float in self.params.items() if is_float) or "none"
            raise KernelTypeError(
                f"kc.adjoint[...] takes a parameter of the function, "
                f"found '{ast.unparse(node.slice)}'",
                self.source.loc(node),
                f"the parameters with cotangents are {known}; parts of one are "
                "kc.adjoint[v].x or kc.adjoint[v.x], kc.adjoint[a][i]",
            )
        if not self.params[name]:
            raise KernelTypeError(
                f"'{name}' holds no floats, and has no cotangent",
                self.source.loc(node),
                "leave it out",
            )
        if part is node.slice:
            return ast.copy_location(ast.Name(cotangent_name(name), node.ctx), node)
        # ``adjoint[x.field]`` is ``adjoint[x].field``.
        found = _with_root(node.slice, ast.Name(cotangent_name(name), ast.Load()))
        found.ctx = node.ctx
        return ast.fix_missing_locations(ast.copy_location(found, node))

    def is_adjoint(self, node: ast.expr) -> bool:
        """Whether ``node`` is a dotted name of ``adjoint``."""
        match node:
            case ast.Name(id=name):
                return self.object_of(name) is adjoint
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                return getattr(self.object_of(name), attr, None) is adjoint
            case _:
                return False

    def object_of(self, name: str) -> object:
        """The Python object ``name`` around the text; None for variables and unknown names."""
        return None if name in self.params else self.names.get(name)
