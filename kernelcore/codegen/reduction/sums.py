"""What the code of one kernel keeps in order to add to arrays that threads share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelcore.ir.core import Atom, Eqn, Func, Var


@dataclass(frozen=True, slots=True)
class PartialSums:
    """The partial sums of one Eqn: their address, and that of a byte that tells of additions."""

    sums: str
    is_used: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Additions to one array, in order, whose indices differ in the last by a constant only.

    Attributes:
        eqns: The additions, which happen where the last one stands.
        indices: What the last index is near to, and the others.
        origin: How far from there the elements are that are loaded at once.
        offsets: How far from those each addition is.
    """

    eqns: tuple[Eqn, ...]
    indices: tuple[Atom, ...]
    origin: int
    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The accumulated arrays of a kernel while its code is emitted.

    Attributes:
        shared: Per array, an i1: whether other threads may add to it during the call.
        log: The address of the log of additions.
        partial: Of Eqns in PARTIAL form.
        neighbours: Additions that a gang makes together, by each of them.
        brief: Eqns beside the loops that take the time: their code is to be short.
        in_place: Whether what is not brief logs without a call: it is the work of single threads.
        meeting: Eqns in SHARED form at which the threads of a warp may meet at one element.
    """

    func: Func
    shared: Mapping[Var, str] = field(default_factory=dict[Var, str])
    log: str = ""
    partial: Mapping[Eqn, PartialSums] = field(default_factory=dict[Eqn, PartialSums])
    neighbours: Mapping[Eqn, Neighbours] = field(default_factory=dict[Eqn, Neighbours])
    brief: frozenset[Eqn] = frozenset()
    in_place: bool = False
    meeting: frozenset[Eqn] = frozenset()
