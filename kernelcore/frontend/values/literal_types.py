"""Type inference: untyped literals, and values made of them only, take the type of what they meet.

A literal has no type until it meets a typed value. A value that only literals reach, a loop-carried
one for instance, is typed by an ``InferenceVariable``. When it later meets a wider type, a request
is filed for that variable, and the function is lowered once more with the requested type. Requests
only rise in rank, so this ends. An integer that meets a float is converted there and stays an
integer.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any, TypeVar

import numpy as np

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelError, KernelTypeError, SrcLoc
from kernelcore.builtins.reference import as_scalar, is_narrow, nearest
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import CAST
from kernelcore.language.types import (
    FLOATS,
    INTEGERS,
    Scalar,
    bfloat16,
    boolean,
    float32,
    int32,
    int64,
    uint64,
)


@dataclass(frozen=True, slots=True)
class UntypedLiteral:
    """A literal whose type is still open."""

    value: int | float

    @property
    def kind(self) -> str:
        """'int' or 'float'."""
        return "float" if isinstance(self.value, float) else "int"


T = TypeVar("T")
# A tuple comes from a call with several results, or from a tuple expression.
Value = Var | Const | UntypedLiteral | tuple["Value", ...]


class Promotion(Enum):
    """Where an untyped integer converts to a float."""

    FREE = auto()  # everywhere: a selection among literals, or a parameter bound to a literal
    JOIN = auto()  # carried by a loop: only where its variable is assigned a float as well
    NEVER = auto()  # nowhere: a loop index


@dataclass(frozen=True, slots=True)
class InferenceVariable:
    """An unknown type: of one name or result at one node of the source."""

    node: ast.AST
    name: str
    promotion: Promotion = Promotion.FREE


@dataclass(frozen=True, slots=True)
class InferredType:
    """The type of an inference variable; a fixed one came from a typed value and stays."""

    type: Scalar
    fixed: bool

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Position in the order in which inferred types replace each other."""
        return self.type.is_float, self.fixed, _WIDENING.index(self.type)


_WIDENING = (
    boolean,
    *sorted(INTEGERS, key=lambda s: (s.bits, s.kind)),
    *sorted(FLOATS, key=lambda s: (s.bits, s == bfloat16)),
)
_NO_VARIABLES: frozenset[InferenceVariable] = frozenset()


def default_type(literal: UntypedLiteral) -> Scalar:
    """The type of a literal that meets nothing."""
    return float32 if literal.kind == "float" else int32


def widest(types: Iterable[Scalar]) -> Scalar:
    """The widest of ``types``; floats are wider than integers."""
    return max(types, key=_WIDENING.index)


def index_type(types: Iterable[Scalar]) -> Scalar:
    """The type of indices that holds all integers of ``types``: int32, else int64."""
    low, high = int32.limits
    return int32 if all(low <= t.limits[0] and t.limits[1] <= high for t in types) else int64


def is_alike(one: Scalar, other: Scalar) -> bool:
    """Whether both are floats, both integers, or both bools."""
    return (one.is_float, one.is_integer) == (other.is_float, other.is_integer)


def may_become(found: Scalar, dtype: Scalar) -> bool:
    """Whether an untyped value, ``found`` so far, can be a ``dtype``; both are numeric."""
    if found.is_float:
        return dtype.is_float
    # An int32 may be one by default.
    return found == int32 or widest((found, dtype)) == dtype


def takes(dtype: Scalar, literal: UntypedLiteral) -> bool:
    """Whether ``literal`` may become a ``dtype``: any number a float, an integer an integer."""
    return dtype.is_float or (dtype.is_integer and literal.kind == "int")


def const(dtype: Scalar, value: int | float, loc: SrcLoc | None) -> Const:
    """``value`` as a literal of the numeric type ``dtype``.

    Raises:
        KernelTypeError: An integer that ``dtype`` does not hold, or a number beyond its largest.
    """
    if dtype.is_float:
        found = _rounded(dtype, value)
        with np.errstate(over="ignore"):
            is_finite = math.isfinite(as_scalar(found.value, dtype))
        if math.isfinite(value) and not is_finite:
            raise KernelTypeError(
                f"{value} does not fit in {dtype}", loc, "use float64, or math.inf for infinity"
            )
        return found
    if not holds(dtype, int(value)):
        wide = [t for t in (int64, uint64) if holds(t, int(value))]
        remedy = f"it holds {dtype.limits[0]} to {dtype.limits[1]}"
        if dtype == int32 and wide:
            remedy = f"write {wide[0]}({value})"
        raise KernelTypeError(f"{value} does not fit in {dtype}", loc, remedy)
    return Const(dtype, int(value))


def _rounded(dtype: Scalar, value: int | float) -> Const:
    """``value`` as a float, infinite beyond the largest."""
    return Const(dtype, float(nearest(value, dtype)) if is_narrow(dtype) else float(value))


def holds(dtype: Scalar, value: int) -> bool:
    """Whether ``value`` is one of the integers of ``dtype``."""
    least, most = dtype.limits
    return least <= value <= most


@dataclass(slots=True)
class TypeInference:
    """The types inferred for one function while it is lowered.

    Attributes:
        builder: Where conversions are emitted.
        chosen: What earlier attempts decided.
        requests: What this attempt wants decided differently.
        origins: The inference variables that type an untyped Var.
        deferred: An error that stands unless a request makes this attempt void.
        unset: Variables that some paths do not set, and what they are from the start of the next
            attempt on.
        errors: Those of statements, with which the attempt went on.
    """

    builder: Builder
    solution: Mapping[InferenceVariable, InferredType] = field(
        default_factory=dict[InferenceVariable, InferredType]
    )
    requests: dict[InferenceVariable, InferredType] = field(
        default_factory=dict[InferenceVariable, InferredType]
    )
    origins: dict[Var, frozenset[InferenceVariable]] = field(
        default_factory=dict[Var, frozenset[InferenceVariable]]
    )
    deferred: KernelError | None = None
    unset: dict[str, Any] = field(default_factory=dict[str, Any])
    errors: list[KernelError] = field(default_factory=list[KernelError])
    is_void: bool = False

    def start_over(self, name: str, start: object) -> None:
        """Let the variable ``name`` be ``start`` from the start of the next attempt on."""
        self.unset[name] = start
        self.is_void = True

    def is_untyped(self, value: object) -> bool:
        """Whether ``value`` still adapts."""
        return isinstance(value, UntypedLiteral) or (
            isinstance(value, Var) and value in self.origins
        )

    def current_type(self, value: object) -> Scalar:
        """The type of a scalar ``value`` in this attempt unless it is widened."""
        if isinstance(value, UntypedLiteral):
            return default_type(value)
        assert isinstance(value, Var | Const)
        assert isinstance(value.type, Scalar)
        return value.type

    def infer(self, variable: InferenceVariable, least: Scalar) -> InferredType:
        """The type of ``variable``, at least as wide as ``least`` unless a typed float fixed it."""
        inferred = self.solution.get(variable)
        # A typed integer wins over untyped literals.
        if inferred and inferred.fixed and (inferred.type.is_float or least == int32):
            return inferred
        if inferred is None or _WIDENING.index(inferred.type) < _WIDENING.index(least):
            return InferredType(least, fixed=inferred is not None and inferred.fixed)
        return inferred

    def mark(
        self,
        var: Var,
        variable: InferenceVariable,
        inferred: InferredType,
        values: Iterable[object],
    ) -> None:
        """Record that ``variable`` types ``var``, which merges ``values``, unless it is fixed."""
        if not inferred.fixed:
            self.origins[var] = self.variables_alike(values, inferred.type) | {variable}

    def variables(self, value: object) -> frozenset[InferenceVariable]:
        """The inference variables that type ``value``; none unless it is an untyped Var."""
        return self.origins.get(value, _NO_VARIABLES) if isinstance(value, Var) else _NO_VARIABLES

    def variables_alike(
        self, values: Iterable[object], dtype: Scalar
    ) -> frozenset[InferenceVariable]:
        """The variables that type those of ``values`` that become ``dtype`` unconverted."""
        alike = (v for v in values if is_alike(self.current_type(v), dtype))
        return _NO_VARIABLES.union(*(self.variables(v) for v in alike))

    def outgrows(self, value: object, inferred: InferredType, variable: InferenceVariable) -> bool:
        """Whether ``value`` requests its own type for ``variable``, which is ``inferred`` now."""
        wanted = InferredType(self.current_type(value), fixed=not self.is_untyped(value))
        types = (wanted.type, inferred.type)
        if (
            inferred.fixed
            or boolean in types
            or types[0] == types[1]
            or wanted.rank < inferred.rank
        ):
            return False
        self.request({variable}, wanted)
        return True

    def request(self, variables: Iterable[InferenceVariable], inferred: InferredType) -> None:
        """Request that ``variables`` have at least this type in the next attempt."""
        for variable in variables:
            known = [c for c in (self.solution.get(variable), self.requests.get(variable)) if c]
            if all(inferred.rank > c.rank for c in known):
                self.requests[variable] = inferred

    def adapt(
        self,
        value: Atom | UntypedLiteral,
        dtype: Scalar,
        loc: SrcLoc | None,
        *,
        fixed: bool = True,
        join: bool = False,
    ) -> Atom:
        """``value`` as an atom of ``dtype``; ``join`` where both are values of one variable.

        A conversion is emitted to the open region.

        Raises:
            KernelTypeError: It is typed otherwise, or adapting would lose information.
        """
        if isinstance(value, UntypedLiteral):
            if takes(dtype, value):
                return const(dtype, value.value, loc)
            raise mismatch(dtype, f"the {value.kind} literal {value.value}", value.kind, loc)
        if value.type == dtype:
            return value
        variables = self.variables(value)
        found = value.type
        if not variables or not isinstance(found, Scalar) or boolean in (found, dtype):
            kind = found.kind if isinstance(found, Scalar) else None
            raise mismatch(dtype, str(found), kind, loc)
        if not may_become(found, dtype):
            raise mismatch(dtype, str(found), found.kind, loc)
        is_narrower = dtype.is_float and _WIDENING.index(found) > _WIDENING.index(dtype)
        promotions = {s.promotion for s in variables}
        allowed = {Promotion.FREE, Promotion.JOIN} if join else {Promotion.FREE}
        if is_narrower or (not is_alike(found, dtype) and promotions <= allowed):
            return self.builder.emit(CAST, value, dtype=dtype)
        if is_alike(found, dtype):
            self.request(variables, InferredType(dtype, fixed))
        if not self.requests:
            self.deferred = self.deferred or mismatch(dtype, str(found), found.kind, loc)
        return Var(dtype)  # never emitted: this attempt is void or in error


def solve(lower: Callable[[TypeInference], T], builder: Callable[[], Builder] = Builder) -> T:
    """The result of ``lower``, repeated until the inferred types satisfy every request.

    Raises:
        KernelError: From an attempt without requests: where types are final, errors count.
    """
    solution: dict[InferenceVariable, InferredType] = {}
    unset: dict[str, Any] = {}
    while True:
        inference = TypeInference(builder(), dict(solution), unset=unset)
        try:
            found = lower(inference)
        except KernelError as error:
            if not inference.requests and not inference.is_void:
                raise (inference.deferred or error) from None
        else:
            if not inference.requests and not inference.is_void:
                if inference.deferred is not None:
                    raise inference.deferred
                return found
        solution.update(inference.requests)


def mismatch(want: Scalar, found: str, kind: str | None, loc: SrcLoc | None) -> KernelTypeError:
    """The error for a value that is not of the type ``want``."""
    remedy = f"cast it: {cast_name(want)}(...)" if kind is not None else None
    return KernelTypeError(f"expected {want}, found {found}", loc, remedy)


def cast_name(dtype: Scalar) -> str:
    """How the kernel language spells a cast to ``dtype``."""
    return {float32: "float", int32: "int"}.get(dtype, dtype.name)


def truncated(value: int | float, dtype: Scalar, loc: SrcLoc | None) -> Const:
    """A literal cast to a numeric ``dtype``: towards zero, saturating, NaN to 0."""
    if dtype.is_float:
        return _rounded(dtype, value)
    if isinstance(value, int):
        return const(dtype, value, loc)
    return Const(dtype, int(dtype(value)))
