"""Sums that a vectorised loop carries: terms are added in the order of iterations."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import dataclass
from kernelcore.builtins.arithmetic import add, sub
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.builtins.reference import nothing_added
from kernelcore.codegen.analysis.loop_dependence import VectorLoop
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd.transpose import ROW, rows_of
from kernelcore.ir.core import Atom, Eqn
from kernelcore.ir.op import Op
from kernelcore.language.types import Scalar


@dataclass(frozen=True, slots=True)
class Terms:
    """Values that an iteration adds to, or subtracts from, each of several sums.

    Attributes:
        op: Addition or subtraction.
        atoms: One per sum; None where nothing is added.
    """

    op: Op
    atoms: tuple[Atom | None, ...]


@dataclass(frozen=True, slots=True)
class Sums:
    """Up to ROW sums of one type in one register, to which every iteration adds one row.

    Attributes:
        dtype: Their type.
        slots: Their positions among the values that the loop carries.
        terms: The additions of an iteration, in order.
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


def sums_of(loop: Eqn, body: VectorLoop) -> list[Sums]:
    """The sums that ``loop`` carries."""
    by_type: dict[Scalar, list[int]] = {}
    for slot, terms in enumerate(body.terms):
        if terms:
            by_type.setdefault(scalar_type(loop.outputs[slot]), []).append(slot)
    return [
        _sums(body, dtype, tuple(slots[at : at + ROW]))
        for dtype, slots in by_type.items()
        for at in range(0, len(slots), ROW)
    ]


def _sums(body: VectorLoop, dtype: Scalar, slots: tuple[int, ...]) -> Sums:
    found: list[Terms] = []
    for at in range(max(len(body.terms[slot]) for slot in slots)):
        terms = [body.terms[slot][at : at + 1] for slot in slots]
        atoms = tuple(term[0] if term else None for term in terms)
        # x - y in place of x + -y: y may be added to elements, and then needs no negation.
        taken = tuple(body.negatives.get(a) for a in atoms if a is not None)
        subtracts = None not in atoms and None not in taken
        found.append(Terms(sub.op, taken) if subtracts else Terms(add.op, atoms))
    return Sums(dtype, slots, tuple(found))


def joined(e: Emitter, sums: Sums, values: Sequence[str]) -> str:
    """The register of ``sums``, made of the carried ``values``."""
    if sums.lanes == 1:
        return values[sums.slots[0]]
    found = "poison"
    for at, slot in enumerate(sums.slots):
        found = e.op(f"insertelement {sums.type} {found}, {sums.element} {values[slot]}, i64 {at}")
    return found


def parted(e: Emitter, sums: Sums, total: str, into: list[str]) -> None:
    """Put the sums of register ``total`` at their slots of the carried values ``into``."""
    for at, slot in enumerate(sums.slots):
        one = f"extractelement {sums.type} {total}, i64 {at}"
        into[slot] = total if sums.lanes == 1 else e.op(one)


def add_terms(e: Emitter, sums: Sums, total: str) -> str:
    """``total`` after the iterations in the lanes have added their terms, one after the other."""
    parts = [_by_lane(e, sums, terms) for terms in sums.terms]
    for lane in range(e.gang):
        for terms, lanes in zip(sums.terms, parts, strict=True):
            assert terms.op.lower is not None
            with e.at(sums.lanes):
                total = terms.op.lower(e, sums.dtype, total, lanes[lane])
    return total


def _by_lane(e: Emitter, sums: Sums, terms: Terms) -> list[str]:
    nothing = f"splat ({sums.element} {literal(sums.dtype, nothing_added(sums.dtype))})"
    columns = [nothing if atom is None else e.value_at(atom, e.gang) for atom in terms.atoms]
    if sums.lanes > 1:
        return rows_of(e, sums.element, columns)
    ty = f"<{e.gang} x {sums.element}>"
    return [e.op(f"extractelement {ty} {columns[0]}, i64 {lane}") for lane in range(e.gang)]
