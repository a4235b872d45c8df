"""Weak types: literals, and variables made of them only, take the type of what they meet.

A literal has no type until it meets a typed value. A variable that only literals reach, a carried
one for instance, gets a provisional type at a ``Site``; when it later meets a wider type, a request
is filed for the site and the function is lowered once more with the type chosen. Requests only
rise in rank, so this ends. An integer that meets a float is converted there and stays an integer.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np

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
class Weak:
    """A literal whose type is still open."""

    value: int | float

    @property
    def kind(self) -> str:
        """'int' or 'float'."""
        return "float" if isinstance(self.value, float) else "int"


# A tuple comes from a call with several results, or from a tuple expression.
Value = Var | Const | Weak | tuple["Value", ...]


class Promotion(Enum):
    """Where a weak integer converts to a float."""

    FREE = auto()  # everywhere: a choice among literals, or a parameter that was given one
    JOIN = auto()  # it is carried: only where its variable is assigned a float as well
    NEVER = auto()  # nowhere: it counts


@dataclass(frozen=True, slots=True)
class Site:
    """Where a weak variable gets its type."""

    node: ast.AST
    name: str
    promotion: Promotion = Promotion.FREE


@dataclass(frozen=True, slots=True)
class Choice:
    """The type of a site; a firm one came from a typed value and is weak no longer."""

    type: Scalar
    firm: bool

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Position in the order in which choices replace each other."""
        return self.type.is_float, self.firm, _WIDENING.index(self.type)


_WIDENING = (
    boolean,
    *sorted(INTEGERS, key=lambda s: (s.bits, s.kind)),
    *sorted(FLOATS, key=lambda s: (s.bits, s == bfloat16)),
)
_NO_SITES: frozenset[Site] = frozenset()


def default_type(literal: Weak) -> Scalar:
    """The type of a literal that meets nothing."""
    return float32 if literal.kind == "float" else int32


def widest(types: Iterable[Scalar]) -> Scalar:
    """The widest of ``types``; floats are wider than integers."""
    return max(types, key=_WIDENING.index)


def is_alike(one: Scalar, other: Scalar) -> bool:
    """Whether both are floats, both integers, or both bools."""
    return (one.is_float, one.is_integer) == (other.is_float, other.is_integer)


def may_become(found: Scalar, dtype: Scalar) -> bool:
    """Whether a weak variable, ``found`` so far, can be a ``dtype``; both are numeric."""
    if found.is_float:
        return dtype.is_float
    # An int32 may be one by default.
    return found == int32 or widest((found, dtype)) == dtype


def takes(dtype: Scalar, literal: Weak) -> bool:
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
class WeakTypes:
    """The open types of one function while it is lowered.

    Attributes:
        builder: Where conversions are emitted.
        chosen: What earlier attempts decided.
        requests: What this attempt wants decided differently.
        origins: The sites that give a weak Var its type.
        deferred: An error that stands unless a request makes this attempt void.
    """

    builder: Builder
    chosen: Mapping[Site, Choice] = field(default_factory=lambda: dict[Site, Choice]())
    requests: dict[Site, Choice] = field(default_factory=lambda: dict[Site, Choice]())
    origins: dict[Var, frozenset[Site]] = field(
        default_factory=lambda: dict[Var, frozenset[Site]]()
    )
    deferred: KernelError | None = None

    def is_weak(self, value: object) -> bool:
        """Whether ``value`` still adapts."""
        return isinstance(value, Weak) or (isinstance(value, Var) and value in self.origins)

    def type_now(self, value: object) -> Scalar:
        """The type that a scalar ``value`` has in this attempt if nothing widens it."""
        if isinstance(value, Weak):
            return default_type(value)
        assert isinstance(value, Var | Const)
        assert isinstance(value.type, Scalar)
        return value.type

    def choose(self, site: Site, least: Scalar) -> Choice:
        """The type at ``site``, at least as wide as ``least`` unless a typed float decided it."""
        choice = self.chosen.get(site)
        # A typed integer decides over literals that have no type of their own yet.
        if choice and choice.firm and (choice.type.is_float or least == int32):
            return choice
        if choice is None or _WIDENING.index(choice.type) < _WIDENING.index(least):
            return Choice(least, firm=choice is not None and choice.firm)
        return choice

    def mark(self, var: Var, site: Site, choice: Choice, values: Iterable[object]) -> None:
        """Note that ``site`` types ``var``, which stands for ``values``; a firm choice stays."""
        if not choice.firm:
            self.origins[var] = self.sites_alike(values, choice.type) | {site}

    def sites(self, value: object) -> frozenset[Site]:
        """The sites that type ``value``; none unless it is a weak Var."""
        return self.origins.get(value, _NO_SITES) if isinstance(value, Var) else _NO_SITES

    def sites_alike(self, values: Iterable[object], dtype: Scalar) -> frozenset[Site]:
        """The sites that type those of ``values`` that become ``dtype`` without a conversion."""
        alike = (v for v in values if is_alike(self.type_now(v), dtype))
        return _NO_SITES.union(*(self.sites(v) for v in alike))

    def outgrows(self, value: object, choice: Choice, site: Site) -> bool:
        """Whether ``value`` asks that ``site``, where ``choice`` was made, has its own type."""
        wanted = Choice(self.type_now(value), firm=not self.is_weak(value))
        types = (wanted.type, choice.type)
        if choice.firm or boolean in types or types[0] == types[1] or wanted.rank < choice.rank:
            return False
        self.request({site}, wanted)
        return True

    def request(self, sites: Iterable[Site], choice: Choice) -> None:
        """Ask that ``sites`` have (at least) this type in the next attempt."""
        for site in sites:
            known = [c for c in (self.chosen.get(site), self.requests.get(site)) if c]
            if all(choice.rank > c.rank for c in known):
                self.requests[site] = choice

    def adapt(
        self,
        value: Atom | Weak,
        dtype: Scalar,
        loc: SrcLoc | None,
        *,
        firm: bool = True,
        join: bool = False,
    ) -> Atom:
        """``value`` as an atom of ``dtype``; ``join`` where both are values of one variable.

        A conversion is emitted to the open region.

        Raises:
            KernelTypeError: It is typed otherwise, or adapting would lose information.
        """
        if isinstance(value, Weak):
            if takes(dtype, value):
                return const(dtype, value.value, loc)
            raise mismatch(dtype, f"the {value.kind} literal {value.value}", value.kind, loc)
        if value.type == dtype:
            return value
        sites = self.sites(value)
        found = value.type
        if not sites or not isinstance(found, Scalar) or boolean in (found, dtype):
            kind = found.kind if isinstance(found, Scalar) else None
            raise mismatch(dtype, str(found), kind, loc)
        if not may_become(found, dtype):
            raise mismatch(dtype, str(found), found.kind, loc)
        is_narrower = dtype.is_float and _WIDENING.index(found) > _WIDENING.index(dtype)
        promotions = {s.promotion for s in sites}
        allowed = {Promotion.FREE, Promotion.JOIN} if join else {Promotion.FREE}
        if is_narrower or (not is_alike(found, dtype) and promotions <= allowed):
            return self.builder.emit(CAST, value, dtype=dtype)
        if is_alike(found, dtype):
            self.request(sites, Choice(dtype, firm))
        if not self.requests:
            self.deferred = self.deferred or mismatch(dtype, str(found), found.kind, loc)
        return Var(dtype)  # never emitted: this attempt is void or in error


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
    if math.isnan(value):
        return Const(dtype, 0)
    least, most = dtype.limits
    clamped = min(max(value, float(least)), float(most))
    return Const(dtype, min(int(clamped), most))
