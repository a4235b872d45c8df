"""Snippet: C++ text that is called like an operation, with its effects.

The inputs of a SNIPPET Eqn are, along the slots of its Snippet: the scalars of a value; an array,
then as many leading indices as it has more dimensions than the slot. A view of an array, and one
instance of a batch, are passed in this way. Its outputs are scalars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, Flag, auto

from kernelcore.base.dataclass import dataclass, field, replace
from kernelcore.base.errors import KernelGradError, KernelTypeError, SrcLoc
from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import WRITES, OpKind
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import ArrayType, Dense, Scalar, Type, element_type, int32, int64

SnippetType = Scalar | Dense | ArrayType


class Use(Flag):
    """The accesses of a text to the elements of an array."""

    NONE = 0
    LOAD = auto()
    STORE = auto()
    ADD = auto()


_KINDS = {Use.LOAD: OpKind.LOAD, Use.STORE: OpKind.STORE, Use.ADD: OpKind.ATOMIC_ADD}


class Variant(Enum):
    """Which text of a Snippet is called."""

    FORWARD = "forward"
    REPLAY = "replay"  # in place of the forward text, where an adjoint runs the primal again
    ADJOINT = "adjoint"
    # Forward mode; it has no text, but its transpose is the adjoint.
    TANGENT = "tangent"


@dataclass(frozen=True, slots=True)
class SnippetParam:
    """A parameter of a Snippet.

    Attributes:
        use: What the forward text does to the elements of an array.
        use_of_cotangent: What the adjoint text does to those of its cotangent.
        is_in_derivative: Whether the adjoint or the replay text mentions it.
    """

    name: str
    type: SnippetType
    use: Use = Use.NONE
    use_of_cotangent: Use = Use.NONE
    is_in_derivative: bool = False

    @property
    def is_float(self) -> bool:
        return element_type(self.type).is_float

    @property
    def effect(self) -> Use:
        """``use``, with a load where a derivative needs the elements."""
        return self.use | (Use.LOAD if self.is_in_derivative else Use.NONE)


@dataclass(frozen=True, slots=True)
class SnippetSlot:
    """An argument of a variant of a Snippet: a value, or an array and the accesses to it."""

    name: str
    type: SnippetType
    use: Use = Use.NONE
    effect: Use = Use.NONE
    is_cotangent: bool = False


@dataclass(frozen=True, slots=True)
class Snippet:
    """A function of the kernel language whose body is C++ text.

    Attributes:
        params: What the function takes.
        result: What it returns, or None.
        given: Of the adjoint and the tangent variant: per parameter, whether the cotangent or
            tangent of an array is passed.
        locs: The first lines of its texts, where they are known.
    """

    name: str = field(repr=False)
    params: tuple[SnippetParam, ...]
    result: Scalar | Dense | None
    forward: str
    adjoint: str | None = None
    replay: str | None = None
    variant: Variant = Variant.FORWARD
    given: tuple[bool, ...] = ()
    locs: tuple[tuple[Variant, SrcLoc], ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return self.name if self.variant is Variant.FORWARD else f"{self.name}.{self.variant.value}"

    @property
    def text(self) -> str:
        """The text of the variant that is called."""
        texts = {Variant.FORWARD: self.forward, Variant.REPLAY: self.replay}
        return {**texts, Variant.ADJOINT: self.adjoint}.get(self.variant) or ""

    @property
    def loc(self) -> SrcLoc | None:
        """The first line of ``text``."""
        return dict(self.locs).get(self.variant)

    @property
    def slots(self) -> tuple[SnippetSlot, ...]:
        """The arguments, in order."""
        is_adjoint = self.variant is Variant.ADJOINT
        is_tangent = self.variant is Variant.TANGENT
        found: list[SnippetSlot] = []
        for p in self.params:
            read = Use.LOAD if p.is_in_derivative or is_adjoint else Use.NONE
            uses = (read, read) if is_tangent or is_adjoint else (p.use, p.effect)
            if not is_adjoint or p.is_in_derivative or not isinstance(p.type, ArrayType):
                found.append(SnippetSlot(p.name, p.type, *uses))
        for p, is_given in zip(self.params, self.given, strict=False):
            if is_adjoint and is_given:
                use = p.use_of_cotangent
                found.append(SnippetSlot(f"adj_{p.name}", p.type, use, use, is_cotangent=True))
            elif is_tangent and (is_given or is_float_value(p)):
                found.append(SnippetSlot(f"t_{p.name}", p.type, p.use, p.use, is_cotangent=True))
        if is_adjoint and self.result is not None:
            found.append(SnippetSlot("adj_ret", self.result, is_cotangent=True))
        return tuple(found)

    @property
    def output_types(self) -> tuple[Scalar, ...]:
        """The scalars that come out: of the result, or the cotangents of float values."""
        if (
            self.variant is Variant.TANGENT
            and self.result
            and not element_type(self.result).is_float
        ):
            return ()
        if self.variant is not Variant.ADJOINT:
            return () if self.result is None else scalars_of(self.result)
        return tuple(s for p in self.params if is_float_value(p) for s in scalars_of(p.type))

    def as_adjoint(self, given: Sequence[bool]) -> Snippet:
        """The call of the adjoint text, with the cotangents of arrays marked in ``given``."""
        return replace(self, variant=Variant.ADJOINT, given=tuple(given))

    def as_tangent(self, given: Sequence[bool]) -> Snippet:
        """The derivative in forward mode, with the tangents of arrays marked in ``given``."""
        return replace(self, variant=Variant.TANGENT, given=tuple(given))

    def as_replay(self) -> Snippet:
        """The call that stands for this one where an adjoint runs the primal again."""
        if self.replay is None or self.variant is not Variant.FORWARD:
            return self
        return replace(self, variant=Variant.REPLAY)

    def arguments(self, inputs: Sequence[Atom]) -> list[tuple[SnippetSlot, tuple[Atom, ...]]]:
        """``inputs`` by slot.

        Raises:
            KernelTypeError: They do not fit.
        """
        found: list[tuple[SnippetSlot, tuple[Atom, ...]]] = []
        at = 0
        for slot in self.slots:
            atoms = tuple(inputs[at : at + self._count(slot, inputs[at:])])
            self._check(slot, atoms)
            found.append((slot, atoms))
            at += len(atoms)
        if at != len(inputs):
            raise KernelTypeError(f"{self}: takes {at} inputs, {len(inputs)} given")
        return found

    def _count(self, slot: SnippetSlot, rest: Sequence[Atom]) -> int:
        if not isinstance(slot.type, ArrayType):
            return len(scalars_of(slot.type))
        array = rest[0].type if rest else None
        if not isinstance(array, ArrayType) or array.ndim < slot.type.ndim:
            raise KernelTypeError(f"{self}: '{slot.name}': expected {slot.type}, found {array}")
        return 1 + array.ndim - slot.type.ndim

    def _check(self, slot: SnippetSlot, atoms: tuple[Atom, ...]) -> None:
        types: list[Type] = [a.type for a in atoms]
        if isinstance(slot.type, ArrayType):
            array = types[0]
            fits = isinstance(array, ArrayType) and array.dtype == slot.type.dtype
            fits = fits and all(t in (int32, int64) for t in types[1:])
        else:
            fits = types == list(scalars_of(slot.type))
        if not fits:
            raise KernelTypeError(f"{self}: '{slot.name}': expected {slot.type}, found {types}")


@dataclass(frozen=True, slots=True)
class ArrayUse:
    """The accesses that a SNIPPET Eqn may make to one of its arrays."""

    array: Var
    kinds: frozenset[OpKind]

    @property
    def loads(self) -> bool:
        return OpKind.LOAD in self.kinds

    @property
    def writes(self) -> bool:
        return not self.kinds.isdisjoint(WRITES)


def snippet_of(eqn: Eqn) -> Snippet:
    """The Snippet that a SNIPPET Eqn calls."""
    snippet = eqn.attrs["snippet"]
    assert isinstance(snippet, Snippet)
    return snippet


def no_tangent(eqn: Eqn) -> KernelGradError:
    """The error for forward mode of a SNIPPET Eqn."""
    snippet = snippet_of(eqn)
    if snippet.variant is Variant.FORWARD or snippet.variant is Variant.TANGENT:
        text, remedy = "no derivative in forward mode", "differentiate it in reverse mode"
        if snippet.adjoint is None:
            text, remedy = "no derivative without an adjoint", "give adj_snippet"
    else:
        text, remedy = "no second derivative", "differentiate once"
    return KernelGradError(
        f"{snippet.name}() is a native snippet: it has {text}",
        eqn.loc,
        f"{remedy}, or write the function in the kernel language",
    )


def array_uses(eqn: Eqn) -> Iterator[ArrayUse]:
    """The accesses that a SNIPPET Eqn may make to each of its arrays."""
    for slot, atoms in snippet_of(eqn).arguments(eqn.inputs):
        if isinstance(slot.type, ArrayType):
            assert isinstance(atoms[0], Var)
            kinds = (kind for use, kind in _KINDS.items() if use in slot.effect)
            yield ArrayUse(atoms[0], frozenset(kinds))


def has_effect(eqn: Eqn) -> bool:
    """Whether running a SNIPPET Eqn matters though its results are not used."""
    return not eqn.outputs or any(u.writes for u in array_uses(eqn))


def is_float_value(param: SnippetParam) -> bool:
    """Whether the cotangent of ``param`` is an output of the adjoint variant."""
    return param.is_float and not isinstance(param.type, ArrayType)
