"""Results: what the ``return`` statements of a function give, in one type each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.scope import FALSE, TRUE, Scope, Unset
from kernelcore.frontend.statements.branch import RESULT, RETURN
from kernelcore.frontend.values.composite import scalars_of, zeros
from kernelcore.frontend.values.literal_types import Choice, Promotion, Site, Weak
from kernelcore.frontend.values.value import (
    ArrayView,
    Compound,
    Static,
    Value,
    describe_type,
    flatten,
)
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.language.types import ArrayOf, Scalar, SourceType, TypeClass


class Results:
    """The results of one function while it is lowered.

    Args:
        tree: The function.
        annotated: The types that it promises, or None.
        implied: What every bare return gives; None for nothing.

    Attributes:
        skeleton: The form of the results; None until it is known.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        annotated: Sequence[SourceType] | None,
        implied: Callable[[Scope], Value] | None = None,
    ) -> None:
        self.tree = tree
        self.implied = implied
        self.choices: list[Choice] | None = None
        self.prepared: list[Choice] = []
        self.has_promise = annotated is not None
        self.skeleton: Value | None = None
        if annotated is not None:
            elements = [t for t in annotated if not isinstance(t, ArrayOf | TypeClass)]
            scalars = [s for t in elements for s in scalars_of(t)]
            self.choices = [Choice(s, firm=True) for s in scalars]
            forms = tuple(flatten(zeros(t, None))[0] for t in elements)
            self.skeleton = forms[0] if len(forms) == 1 else forms

    def prepare(self, scope: Scope) -> None:
        """Give results whose types are known a value, so that loops can carry them."""
        self.prepared = list(self.choices or [])
        known = scope.weak.chosen
        while (found := known.get(self._site(len(self.prepared)))) and not self.has_promise:
            self.prepared.append(found)
        for k, choice in enumerate(self.prepared):
            scope.env[f"{RESULT}{k}"] = zero(choice.type)

    def give(self, scope: Scope, node: ast.Return, value: Value) -> None:
        """Lower one ``return`` of ``value``.

        Raises:
            KernelTypeError: Another number of values, or other types, than elsewhere.
        """
        loc = scope.loc(node)
        if self.implied is not None:
            value = self.implied(scope)
        form, leaves = flatten(value)
        values = [_returned(leaf, loc) for leaf in leaves]
        members = value if isinstance(value, tuple) else (value,)
        if any(isinstance(m, ArrayView | Static) for m in members):
            raise KernelTypeError(
                f"return of {describe_type(members[0])}",
                loc,
                "return values; pass arrays to the function that uses them",
            )
        if self.choices is None or self.skeleton is None:
            self.choices = [self._choose(scope, k, v) for k, v in enumerate(values)]
            self.skeleton = form
        if form != self.skeleton:
            raise self._mismatch(value, loc)
        for k, leaf in enumerate(values):
            self._give_one(scope, k, leaf, loc)
        scope.env[RETURN] = TRUE

    def _mismatch(self, value: Value, loc: SrcLoc | None) -> KernelTypeError:
        """The error for results of another form than elsewhere."""
        wanted = self.skeleton
        counts = [len(v) if isinstance(v, tuple) else 1 for v in (wanted, value)]
        if wanted == () and self.has_promise:
            text = f"return of {describe_type(value)}, where the annotation says None"
        elif counts[0] != counts[1] and self.has_promise:
            text = f"return of {describe_type(value)}, where the annotation says {counts[0]} values"
        elif counts[0] != counts[1]:
            text = f"returns of {counts[0]} and of {counts[1]} values"
        else:
            what = "the annotation says" if self.has_promise else "another return gives"
            forms = wanted if isinstance(wanted, tuple) else (wanted,)
            values = value if isinstance(value, tuple) else (value,)
            pairs = zip(values, forms, strict=True)
            found, form = next((v, f) for v, f in pairs if f is None or flatten(v)[0] != f)
            want = form.type if isinstance(form, Compound) else "a scalar"
            text = f"return of {describe_type(found)}, where {what} {want}"
        return KernelTypeError(text, loc, self._remedy())

    def collect(self, scope: Scope, loc: SrcLoc | None) -> tuple[Value, tuple[Atom, ...]]:
        """The form of the results and their leaves, at the end of the function.

        Raises:
            KernelTypeError: Control may reach the end without a ``return``.
        """
        if self.choices is None or self.skeleton is None:
            return (), ()
        values = [scope.env.get(f"{RESULT}{k}", Unset(None)) for k in range(len(self.choices))]
        given = [v for v in values if not isinstance(v, Unset)]
        is_empty = self.skeleton == ()
        if not is_empty and (scope.flag(RETURN) != TRUE or len(given) < len(values)):
            never = scope.flag(RETURN) == FALSE
            what = (
                "promises a value, and returns none"
                if never
                else "returns a value on some paths only"
            )
            raise KernelTypeError(
                f"'{self.tree.name}' {what}",
                loc,
                "return a value at the end of the function",
            )
        return self.skeleton, tuple(scope.settle(v, loc) for v in given)

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


def _returned(leaf: Var | Const | Weak, loc: SrcLoc | None) -> Atom | Weak:
    if isinstance(leaf, Weak) or isinstance(leaf.type, Scalar):
        return leaf
    raise KernelTypeError(
        "return of an array", loc, "return values; pass arrays to the function that uses them"
    )
