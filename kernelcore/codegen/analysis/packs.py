"""Packs: operations that a thread applies to several values alike, as lanes of one vector.

Loops over the components of a private vector are unrolled, so that a thread computes

    a0 = exp(x0 * w0)                    a0, a1, a2, a3 = exp((x0, x1, x2, x3) * (w0, w1, w2, w3))
    a1 = exp(x1 * w1)
    ...

Superword-level parallelism: equations whose operands have the same form are one pack. Every lane
computes what its equation did, so no bit changes. Loads of adjacent elements, and additions to
adjacent elements, are packs, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass, field
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import REPEATABLE, AddForm, OpKind
from kernelcore.language.types import Scalar, boolean
from kernelcore.passes.access.accumulation_plan import adds_apart, form_of

# The equations of a pack by lane, and a vector of values by lane.
Lanes = tuple[Eqn, ...]
Atoms = tuple[Atom, ...]
# Kinds without an effect on arrays.
_MOVABLE = REPEATABLE | {OpKind.LOAD, OpKind.PUSH, OpKind.POP, OpKind.STACK}


@dataclass(frozen=True, eq=False, slots=True)
class Pack:
    """Equations of one operation, one a lane, none of which needs another.

    Attributes:
        eqns: The equations by lane; elements that they access are adjacent.
        alone: The results that are needed outside of vectors, too.
    """

    eqns: tuple[Eqn, ...]
    alone: frozenset[Var] = frozenset()

    @property
    def kind(self) -> OpKind:
        """PURE, LOAD, or ATOMIC_ADD, of equations that may be made behind all others."""
        return self.eqns[0].op.kind

    def operands(self) -> Iterator[tuple[Atom, ...]]:
        """Every operand that is a vector, by lane."""
        return operands(self.eqns)

    @property
    def results(self) -> tuple[Var, ...]:
        """The results by lane."""
        return tuple(eqn.out for eqn in self.eqns)


@dataclass(frozen=True, slots=True)
class Packing:
    """Where a single thread computes with vectors.

    Attributes:
        regions: What is emitted in place of the equations of a region, in order.
        carried: Of loops the places of carried values that are a vector each.
    """

    regions: Mapping[Region, Sequence[Eqn | Pack]] = field(default_factory=dict[Region, Any])
    carried: Mapping[Eqn, Sequence[tuple[int, ...]]] = field(default_factory=dict[Eqn, Any])


def element_bytes(eqn: Eqn) -> int:
    """How large the elements are of the vector that ``eqn`` can be a lane of; 0 if it can be none.

    Quotients of integers have no vector instructions.
    """
    match eqn.op.kind:
        case OpKind.PURE:
            is_plain = bool(eqn.inputs) and not eqn.attrs
            is_plain &= eqn.op.division is None or not _scalar(eqn.out).is_integer
            atoms = (*eqn.inputs, eqn.out)
        case OpKind.LOAD:
            is_plain, atoms = isinstance(eqn.inputs[-1], Const), (eqn.out,)
        case _:
            is_plain = adds_apart(eqn) and form_of(eqn) is AddForm.SHARED
            is_plain &= len(eqn.inputs) > 2 and isinstance(eqn.inputs[-2], Const)
            atoms = eqn.inputs[-1:]
    if not is_plain or atoms[-1 if eqn.op.kind is not OpKind.PURE else -2].type == boolean:
        return 0
    sizes = {_scalar(a).size_bytes for a in atoms if a.type != boolean}
    return sizes.pop() if len(sizes) == 1 and sizes <= {4, 8} else 0


def values(eqn: Eqn) -> tuple[Atom, ...]:
    """The inputs of ``eqn`` that are values, not places."""
    match eqn.op.kind:
        case OpKind.PURE:
            return eqn.inputs
        case OpKind.LOAD:
            return ()
        case _:
            return eqn.inputs[-1:]


def operands(eqns: Sequence[Eqn]) -> Iterator[Atoms]:
    return zip(*map(values, eqns), strict=True)


def results(eqns: Sequence[Eqn]) -> Atoms:
    return tuple(eqn.out for eqn in eqns)


def row(eqn: Eqn) -> tuple[Atom, ...]:
    """The array that ``eqn`` accesses, and all indices but the last."""
    return eqn.inputs[: -1 if eqn.op.kind is OpKind.LOAD else -2]


def element(eqn: Eqn) -> int:
    """The number, in its row, of the element that ``eqn`` accesses."""
    last = eqn.inputs[-1 if eqn.op.kind is OpKind.LOAD else -2]
    assert isinstance(last, Const)
    return int(last.value)


def parts(region: Region) -> dict[Eqn, int]:
    """Every equation's part of ``region``: loads, and late additions, may stand anywhere in theirs.

    Equations with regions, which may add to the same elements, are parts of their own.
    """
    parts: dict[Eqn, int] = {}
    part = 0
    for eqn in region.eqns:
        moves = eqn.op.kind in _MOVABLE or adds_apart(eqn)
        part += not moves
        parts[eqn] = part
        part += not moves
    return parts


def _scalar(atom: Atom) -> Scalar:
    assert isinstance(atom.type, Scalar)
    return atom.type
