"""Derivative formulas of the built-in table: kernel-language expressions over given atoms."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelError, KernelNameError, SrcLoc
from kernelcore.builtins import BUILTINS
from kernelcore.frontend.expressions.expression import lower_expr
from kernelcore.frontend.scope import Scope, scalar, settle
from kernelcore.frontend.values.literal_types import TypeInference, solve
from kernelcore.frontend.values.value import Value
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Eqn
from kernelcore.language import syntax_tree
from kernelcore.language.bound_names import MISSING
from kernelcore.language.function import Function
from kernelcore.language.types import Scalar


@dataclass(frozen=True, slots=True)
class BuiltinNames:
    """The names of a text without a file: built-ins; all code is at ``origin``."""

    origin: SrcLoc | None

    @property
    def dialect(self) -> None:
        return None

    def loc(self, node: ast.AST) -> SrcLoc | None:
        return self.origin

    def resolve(self, name: str, loc: SrcLoc | None) -> object:
        if name in BUILTINS:
            return BUILTINS[name]
        raise KernelNameError(f"a formula uses the unknown name '{name}'", loc)

    def find(self, name: str) -> object:
        return BUILTINS.get(name, MISSING)

    def namespace(self) -> dict[str, Any]:
        return dict(BUILTINS)


_parse = cache(syntax_tree.parse_expression)


@cache
def formula_names(text: str) -> frozenset[str]:
    """The names in ``text`` that are not called."""
    tree = _parse(text)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    names = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)
    return frozenset(n.id for n in names)


def lower_formula(text: str, env: Mapping[str, Atom], builder: Builder) -> Atom:
    """Append the code of ``text`` and return its value.

    Args:
        text: A kernel-language expression over the names in ``env`` and built-ins.
        env: The variables; a literal result takes the type of ``ct``, if there is one.
        builder: Where the code goes; it gets the location that the builder has.
    """
    tree = _parse(text)

    def lower(inference: TypeInference) -> tuple[list[Eqn], Atom]:
        scope = Scope(BuiltinNames(builder.loc), builder, inference, _no_functions, is_kernel=False)
        scope.env.update(env)
        with builder.region() as eqns:
            value = scalar(lower_expr(scope, tree), builder.loc)
            if "ct" in env and isinstance(env["ct"].type, Scalar):
                return eqns, inference.adapt(value, env["ct"].type, builder.loc)
            return eqns, settle(value, builder.loc)

    eqns, out = solve(lower, lambda: builder)
    for eqn in eqns:
        builder.append(eqn)
    return out


def _no_functions(function: Function, *_: object) -> Value:
    raise KernelError(f"a formula calls the function '{function.name}'")
