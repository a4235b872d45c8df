"""Values that the code of a kernel needs to add to arrays that threads share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelcore.ir.core import Atom, Eqn, Func, Var


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Partial sums of one addition: their address, and that of a byte that says if any is used."""

    sums: str
    is_used: str


@dataclass(frozen=True, slots=True)
class JoinedAdditions:
    """Additions of a stencil: to one array, at indices that differ by constants in the last axis.

    Attributes:
        eqns: The additions, in order; they are made in the place of the last one.
        indices: The shared outer indices, and the base of the last one.
        origin: The offset from the base of the elements that are loaded at once.
        offsets: The offset of each addition from those elements.
    """

    eqns: tuple[Eqn, ...]
    indices: tuple[Atom, ...]
    origin: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The accumulated arrays of a kernel while its code is emitted.

    Attributes:
        shared: Per array an i1: whether other threads may add to it during the call.
        log: The address of the log of additions.
        partial: The partial sums of every addition in PARTIAL form.
        neighbours: The additions that a gang joins in registers, by each of them.
        brief: Additions outside of loops in kernels with loops: short code matters more there.
        in_place: Whether additions that are not brief append to the log without a call.
        meeting: Additions in SHARED form for which a warp may share one element.
    """

    func: Func
    shared: Mapping[Var, str] = field(default_factory=dict[Var, str])
    log: str = ""
    partial: Mapping[Eqn, PartialSums] = field(default_factory=dict[Eqn, PartialSums])
    neighbours: Mapping[Eqn, JoinedAdditions] = field(default_factory=dict[Eqn, JoinedAdditions])
    brief: frozenset[Eqn] = frozenset()
    in_place: bool = False
    meeting: frozenset[Eqn] = frozenset()
