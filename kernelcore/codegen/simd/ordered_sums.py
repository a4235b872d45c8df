"""Sums that a loop carries, in the order of turns, where turns run in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcore.builtins.arithmetic import add, sub
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.loop_dependence import Turns
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd.transpose import ROW, rows_of
from kernelcore.ir.core import Atom, Eqn
from kernelcore.ir.op import Op
from kernelcore.language.types import Scalar


@dataclass(frozen=True, slots=True)
class Terms:
    """What a turn adds to, or subtracts from, each of several sums.

    Attributes:
        op: Addition or subtraction.
        atoms: One per sum; None for nothing, where terms are added.
    """

    op: Op
    atoms: tuple[Atom | None, ...]


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of one type that are kept in one register, as one row is added per turn.

    Attributes:
        dtype: Their type.
        slots: Which ones of the values that the loop carries they are.
        terms: What a turn changes, in order.
    """

    dtype: Scalar
    slots: tuple[int, ...]
    terms: tuple[Terms, ...]

    @property
    def element(self) -> str:
        return LLVM_TYPES[self.dtype.name]

    @property
    def lanes(self) -> int:
        return ROW if len(self.slots) > 1 else 1

    @property
    def type(self) -> str:
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"


def sums_of(loop: Eqn, turns: Turns) -> list[Sums]:
    """The sums that ``loop`` carries."""
    by_type: dict[Scalar, list[int]] = {}
    for slot, terms in enumerate(turns.terms):
        if terms:
            by_type.setdefault(scalar_type(loop.outputs[slot]), []).append(slot)
    return [
        _sums(turns, dtype, tuple(slots[at : at + ROW]))
        for dtype, slots in by_type.items()
        for at in range(0, len(slots), ROW)
    ]


def _sums(turns: Turns, dtype: Scalar, slots: tuple[int, ...]) -> Sums:
    found: list[Terms] = []
    for at in range(max(len(turns.terms[slot]) for slot in slots)):
        terms = [turns.terms[slot][at : at + 1] for slot in slots]
        atoms = tuple(term[0] if term else None for term in terms)
        # What is subtracted may be the values that are added to elements.
        taken = tuple(turns.negatives.get(a) for a in atoms if a is not None)
        subtracts = None not in atoms and None not in taken
        found.append(Terms(sub.op, taken) if subtracts else Terms(add.op, atoms))
    return Sums(dtype, slots, tuple(found))


def joined(e: Emitter, sums: Sums, values: Sequence[str]) -> str:
    """The values of ``sums`` among the carried ``values``, as they are added to."""
    if sums.lanes == 1:
        return values[sums.slots[0]]
    found = "poison"
    for at, slot in enumerate(sums.slots):
        found = e.op(f"insertelement {sums.type} {found}, {sums.element} {values[slot]}, i64 {at}")
    return found


def parted(e: Emitter, sums: Sums, total: str, into: list[str]) -> None:
    """Put the values of ``sums`` where they belong among the carried ones."""
    for at, slot in enumerate(sums.slots):
        one = f"extractelement {sums.type} {total}, i64 {at}"
        into[slot] = total if sums.lanes == 1 else e.op(one)


def columns(e: Emitter, sums: Sums) -> list[str]:
    """What the lanes add, one text per term of every sum."""
    nothing = f"splat ({sums.element} {literal(sums.dtype, nothing_added(sums.dtype))})"
    return [
        nothing if atom is None else e.value_at(atom, e.gang)
        for terms in sums.terms
        for atom in terms.atoms
    ]


def column_phis(e: Emitter, sums: Sums) -> list[str]:
    """Phis for what ``columns`` gives."""
    ty = f"<{e.gang} x {sums.element}>"
    return [e.phi(ty) for terms in sums.terms for _ in terms.atoms]


def add_columns(e: Emitter, sums: Sums, total: str, given: Sequence[str]) -> str:
    """``total`` after what the turns in ``given`` add, turn after turn."""
    count = len(sums.slots)
    parts = [
        _by_lane(e, sums, given[count * at : count * (at + 1)]) for at in range(len(sums.terms))
    ]
    for lane in range(e.gang):
        for terms, lanes in zip(sums.terms, parts, strict=True):
            assert terms.op.lower is not None
            with e.at(sums.lanes):
                total = terms.op.lower(e, sums.dtype, total, lanes[lane])
    return total


def _by_lane(e: Emitter, sums: Sums, given: Sequence[str]) -> list[str]:
    if sums.lanes > 1:
        return rows_of(e, sums.element, given)
    ty = f"<{e.gang} x {sums.element}>"
    return [e.op(f"extractelement {ty} {given[0]}, i64 {lane}") for lane in range(e.gang)]
