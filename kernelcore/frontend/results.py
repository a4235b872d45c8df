"""Results: what the ``return`` statements of a function give, in one type each."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kernelcore.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.branch import RESULT, RETURN
from kernelcore.frontend.scope import TRUE, Scope, Unset, describe_type
from kernelcore.frontend.weak import Choice, Promotion, Site, Weak
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom
from kernelcore.types import Scalar


class Results:
    """The results of one function while it is lowered.

    Args:
        tree: The function.
        annotated: The types that it promises, or None.
    """

    def __init__(self, tree: ast.FunctionDef, annotated: Sequence[Scalar] | None) -> None:
        self.tree = tree
        self.choices: list[Choice] | None = None
        self.prepared: list[Choice] = []
        self.has_promise = annotated is not None
        if annotated is not None:
            self.choices = [Choice(t, firm=True) for t in annotated]

    def prepare(self, scope: Scope) -> None:
        """Give results whose types are known a value, so that loops can carry them."""
        self.prepared = list(self.choices or [])
        known = scope.weak.chosen
        while (found := known.get(self._site(len(self.prepared)))) and not self.has_promise:
            self.prepared.append(found)
        for k, choice in enumerate(self.prepared):
            scope.env[f"{RESULT}{k}"] = zero(choice.type)

    def give(self, scope: Scope, node: ast.Return, values: Sequence[Atom | Weak]) -> None:
        """Lower one ``return`` of ``values``.

        Raises:
            KernelTypeError: Another number of values, or other types, than elsewhere.
        """
        loc = scope.loc(node)
        if self.choices is None:
            self.choices = [self._choose(scope, k, v) for k, v in enumerate(values)]
        if len(values) != len(self.choices):
            raise KernelTypeError(
                f"returns of {len(self.choices)} and of {len(values)} values", loc, self._remedy()
            )
        for k, value in enumerate(values):
            self._give_one(scope, k, value, loc)
        scope.env[RETURN] = TRUE

    def collect(self, scope: Scope, loc: SrcLoc | None) -> tuple[Atom, ...]:
        """The results at the end of the function.

        Raises:
            KernelTypeError: Control may reach the end without a ``return``.
        """
        if not self.choices:
            return ()
        values = [scope.env.get(f"{RESULT}{k}", Unset(None)) for k in range(len(self.choices))]
        given = [v for v in values if not isinstance(v, Unset)]
        if scope.flag(RETURN) != TRUE or len(given) < len(values):
            raise KernelTypeError(
                f"'{self.tree.name}' returns a value on some paths only",
                loc,
                "return a value at the end of the function",
            )
        return tuple(scope.settle(v, loc) for v in given)

    def _choose(self, scope: Scope, k: int, value: Atom | Weak) -> Choice:
        dtype = scope.weak.type_now(value)
        known = scope.weak.chosen.get(self._site(k))
        if known is not None and known.firm:
            return known
        if not scope.weak.is_weak(value):
            return Choice(dtype, firm=True)
        return scope.weak.choose(self._site(k), dtype)

    def _give_one(self, scope: Scope, k: int, value: Atom | Weak, loc: SrcLoc | None) -> None:
        assert self.choices is not None
        weak, choice = scope.weak, self.choices[k]
        is_prepared = k < len(self.prepared)
        if self.prepared[k].type != choice.type if is_prepared else scope.loop_depth:
            weak.request({self._site(k)}, Choice(choice.type, firm=not weak.is_weak(value)))
        if weak.outgrows(value, choice, self._site(k)):
            return
        try:
            adapted = weak.adapt(value, choice.type, loc, join=True, firm=choice.firm)
        except KernelTypeError:
            what = "the annotation says" if self.has_promise else "another return gives"
            raise KernelTypeError(
                f"return of {describe_type(value)}, where {what} {choice.type}",
                loc,
                self._remedy(),
            ) from None
        scope.env[f"{RESULT}{k}"] = adapted

    def _site(self, k: int) -> Site:
        return Site(self.tree, f"{RESULT}{k}", Promotion.JOIN)

    def _remedy(self) -> str:
        return f"make every return of '{self.tree.name}' give the same types"
