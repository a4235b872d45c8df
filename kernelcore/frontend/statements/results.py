"""Results: what the ``return`` statements of a function give, in one type each."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.calls.overloads import source_type
from kernelcore.frontend.scope import FALSE, TRUE, Scope, Unset, scalar, settle
from kernelcore.frontend.statements.branch import RESULT, RETURN
from kernelcore.frontend.values.array_choice import joins
from kernelcore.frontend.values.composite import zeros
from kernelcore.frontend.values.conversion import converted
from kernelcore.frontend.values.literal_types import (
    InferenceVariable,
    InferredType,
    Promotion,
    UntypedLiteral,
)
from kernelcore.frontend.values.value import (
    CompositeValue,
    Value,
    describe_type,
    flatten,
    has_function,
    split,
)
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import (
    ArrayOf,
    Scalar,
    SourceType,
    StructType,
    TypeClass,
    has_layout,
)

# The results of returns that give different arrays, until the paths have met.
_WHOLE = f"{RESULT}s"
# Set where returns are known to give different arrays.
_JOINED = "$joined"


class Results:
    """The results of one function while it is lowered.

    Args:
        tree: The function.
        annotated: The types that it promises, or None.
        implied: What every bare return gives; None for nothing.
        updates: Parameters whose values follow those of every return.

    Attributes:
        skeleton: The skeleton of the results; None until it is known.
    """

    def __init__(
        self,
        tree: ast.FunctionDef,
        annotated: Sequence[SourceType] | None,
        implied: Callable[[Scope], Value] | None = None,
        updates: Sequence[str] = (),
    ) -> None:
        self.tree = tree
        self.implied = implied
        self.updates = updates
        self.starts: dict[str, SourceType | None] = {}
        self.inferred_types: list[InferredType] | None = None
        self.prepared: list[InferredType] = []
        held = [t for t in annotated or () if isinstance(t, StructType) and not has_layout(t)]
        held += [t for t in annotated or () if isinstance(t, ArrayOf)]
        # Which arrays are returned, and the types of updated parameters, are known at a return.
        is_late = bool(held) or (bool(updates) and annotated is not None)
        self.promised = tuple(annotated or ()) if is_late else None
        annotated = None if is_late or updates else annotated
        self.has_promise = annotated is not None
        self.skeleton: Value | None = None
        if annotated is not None:
            elements = [t for t in annotated if not isinstance(t, ArrayOf | TypeClass)]
            scalars = [s for t in elements for s in scalars_of(t)]
            self.inferred_types = [InferredType(s, fixed=True) for s in scalars]
            skeletons = tuple(flatten(zeros(t, None))[0] for t in elements)
            self.skeleton = skeletons[0] if len(skeletons) == 1 else skeletons

    def prepare(self, scope: Scope) -> None:
        """Give results whose types are known a value, so that loops can carry them."""
        self.prepared = list(self.inferred_types or [])
        for name in self.updates:
            start = scope.get(name)
            if start is None or isinstance(start, Unset) or scope.inference.is_untyped(start):
                self.starts[name] = None
            else:
                self.starts[name] = source_type(start)
        known = scope.inference.solution
        while (found := known.get(self._variable(len(self.prepared)))) and not self.has_promise:
            self.prepared.append(found)
        for k, inferred in enumerate(self.prepared):
            scope.env[f"{RESULT}{k}"] = zero(inferred.type)

    def give(self, scope: Scope, node: ast.Return, value: Value) -> None:
        """Lower one ``return`` of ``value``.

        Raises:
            KernelTypeError: Another number of values, or other types, than elsewhere.
        """
        loc = scope.loc(node)
        if self.implied is not None:
            value = self.implied(scope)
        members = value if isinstance(value, tuple) else (value,)
        if self.promised is not None:
            if len(members) != len(self.promised):
                raise KernelTypeError(
                    f"return of {len(members)} values, where the annotation says "
                    f"{len(self.promised)} values",
                    loc,
                    self._remedy(),
                )
            pairs = zip(members, self.promised, strict=True)
            members = tuple(converted(scope, member, type_, loc) for member, type_ in pairs)
            value = members if isinstance(value, tuple) else members[0]
        if self.updates:
            value = (value, *self._last(scope, loc))
        scope.env[RETURN] = TRUE
        if _JOINED in scope.inference.unset:
            scope.set(_WHOLE, value)
        else:
            self._give_all(scope, value, loc)

    def _give_all(self, scope: Scope, value: Value, loc: SrcLoc | None) -> None:
        """Give every scalar of the results its place."""
        skeleton, leaves = split(value)
        values = [_returned(leaf, loc) for leaf in leaves]
        members = value if isinstance(value, tuple) else (value,)
        functions = [m for m in members if has_function(m)]
        if functions:
            raise KernelTypeError(
                f"return of {describe_type(functions[0])}",
                loc,
                "return values; pass functions to the function that uses them",
            )
        if self.inferred_types is None or self.skeleton is None:
            self.inferred_types = [self._infer(scope, k, v) for k, v in enumerate(values)]
            self.skeleton = skeleton
        if skeleton != self.skeleton:
            if _JOINED not in scope.inference.unset and joins(self.skeleton, value):
                # Returns give different arrays: the next attempt joins them as branches do.
                scope.inference.start_over(_JOINED, TRUE)
                return
            raise self._mismatch(value, loc)
        for k, leaf in enumerate(values):
            self._give_one(scope, k, leaf, loc)

    def _last(self, scope: Scope, loc: SrcLoc | None) -> list[Value]:
        """The values of updated parameters, in the types that they had."""
        found: list[Value] = []
        for name, type_ in self.starts.items():
            value = scope.require(name, loc)
            try:
                found.append(value if type_ is None else converted(scope, value, type_, loc))
            except KernelTypeError as error:
                message = f"'{name}' is a {type_} that a call assigns: {error.message}"
                raise KernelTypeError(message, loc, error.remedy or "keep its type") from None
        return found

    def _mismatch(self, value: Value, loc: SrcLoc | None) -> KernelTypeError:
        """The error for results whose skeleton differs from that of another ``return``."""
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
            skeletons = wanted if isinstance(wanted, tuple) else (wanted,)
            values = value if isinstance(value, tuple) else (value,)
            pairs = zip(values, skeletons, strict=True)
            found, skeleton = next((v, f) for v, f in pairs if f is None or flatten(v)[0] != f)
            want = skeleton.type if isinstance(skeleton, CompositeValue) else "a scalar"
            text = f"return of {describe_type(found)}, where {what} {want}"
        return KernelTypeError(text, loc, self._remedy())

    def collect(self, scope: Scope, loc: SrcLoc | None) -> tuple[Value, tuple[Atom, ...]]:
        """The skeleton of the results and their leaves, at the end of the function.

        Raises:
            KernelTypeError: Control may reach the end without a ``return``.
        """
        whole = scope.get(_WHOLE)
        if whole is not None and not isinstance(whole, Unset):
            self._give_all(scope, whole, loc)
        if self.inferred_types is None or self.skeleton is None:
            return (), ()
        values = [
            scope.env.get(f"{RESULT}{k}", Unset(None)) for k in range(len(self.inferred_types))
        ]
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
        return self.skeleton, tuple(settle(scalar(v, loc), loc) for v in given)

    def _infer(self, scope: Scope, k: int, value: Atom | UntypedLiteral) -> InferredType:
        dtype = scope.inference.current_type(value)
        known = scope.inference.solution.get(self._variable(k))
        if known is not None and known.fixed:
            return known
        if not scope.inference.is_untyped(value):
            return InferredType(dtype, fixed=True)
        return scope.inference.infer(self._variable(k), dtype)

    def _give_one(
        self, scope: Scope, k: int, value: Atom | UntypedLiteral, loc: SrcLoc | None
    ) -> None:
        assert self.inferred_types is not None
        inference, inferred = scope.inference, self.inferred_types[k]
        is_prepared = k < len(self.prepared)
        if self.prepared[k].type != inferred.type if is_prepared else scope.loop_depth:
            inference.request(
                {self._variable(k)},
                InferredType(inferred.type, fixed=not inference.is_untyped(value)),
            )
        if inference.outgrows(value, inferred, self._variable(k)):
            return
        try:
            adapted = inference.adapt(value, inferred.type, loc, join=True, fixed=inferred.fixed)
        except KernelTypeError:
            what = "the annotation says" if self.has_promise else "another return gives"
            raise KernelTypeError(
                f"return of {describe_type(value)}, where {what} {inferred.type}",
                loc,
                self._remedy(),
            ) from None
        scope.env[f"{RESULT}{k}"] = adapted

    def _variable(self, k: int) -> InferenceVariable:
        return InferenceVariable(self.tree, f"{RESULT}{k}", Promotion.JOIN)

    def _remedy(self) -> str:
        return f"make every return of '{self.tree.name}' give the same types"


def _returned(leaf: Var | Const | UntypedLiteral, loc: SrcLoc | None) -> Atom | UntypedLiteral:
    if isinstance(leaf, UntypedLiteral) or isinstance(leaf.type, Scalar):
        return leaf
    raise KernelTypeError(
        "return of an array", loc, "return values; pass arrays to the function that uses them"
    )
