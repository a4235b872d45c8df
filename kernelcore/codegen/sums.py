"""What the code of one kernel keeps in order to add to arrays that threads share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelcore.ir.core import Eqn, Func, Var


@dataclass(frozen=True, slots=True)
class PartialSums:
    """The partial sums of one Eqn: their address, and that of a byte that tells of additions."""

    sums: str
    is_used: str


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The accumulated arrays of a kernel while its code is emitted.

    Attributes:
        shared: Per array, an i1: whether other threads may add to it during the call.
        log: The address of the log of additions.
        partial: Of Eqns in PARTIAL form.
        meeting: Eqns in SHARED form at which the threads of a warp may meet at one element.
    """

    func: Func
    shared: Mapping[Var, str] = field(default_factory=dict[Var, str])
    log: str = ""
    partial: Mapping[Eqn, PartialSums] = field(default_factory=dict[Eqn, PartialSums])
    meeting: frozenset[Eqn] = frozenset()
