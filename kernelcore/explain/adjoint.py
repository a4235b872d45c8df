"""What reverse mode makes of a kernel: what it records, and what it computes again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelcore.base.errors import KernelError
from kernelcore.codegen.analysis.work import Counts, Work, work_of
from kernelcore.compiler.stages import Record, adjoint_of, all_derivatives, records
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import ACCESSES
from kernelcore.passes.autodiff.activity import active_values
from kernelcore.passes.pipeline import optimize, tidy


@dataclass(frozen=True)
class Adjoint:
    """What reverse mode makes of a kernel.

    Attributes:
        refusal: The error where the kernel has no derivative; else None.
        records: What the forward sweep keeps for the reverse sweep; it computes all else again.
        recomputed: What a thread does that depends on no cotangent: it loads elements of the
            kernel's arrays, and computes values and factors of derivatives from them.
        cost: Estimated instructions, as a multiple of those of the kernel.
    """

    refusal: str | None
    records: Sequence[Record] = ()
    recomputed: Counts = field(default_factory=Counts)
    cost: float = 0.0

    @property
    def recorded_bytes(self) -> int | None:
        """What a thread keeps at most; None where iterations are not known."""
        total = 0
        for record in self.records:
            if record.most is None:
                return None
            total += record.most * record.dtype.size_bytes
        return total


def adjoint_report(func: Func, work: Work, arguments: Sequence[Any] | None) -> Adjoint:
    """The adjoint of the kernel ``func``.

    Args:
        func: The kernel.
        work: What a thread of it does.
        arguments: One per parameter; they tell extents.
    """
    try:
        if not all_derivatives(func)[1]:
            return Adjoint("it writes no floats")
        derived = adjoint_of(func)
        adjoint = optimize(tidy(derived.func))
    except KernelError as error:
        return Adjoint(error.message)
    given = None
    if arguments is not None:
        sources = sorted(derived.derivative_of, key=derived.derivative_of.__getitem__)
        given = [*arguments, *(arguments[i] for i in sources)]
    cotangents = active_values(adjoint, adjoint.params[len(func.params) :])

    def is_recomputed(eqn: Eqn) -> bool:
        if eqn.op.kind in ACCESSES and eqn.inputs[0] in cotangents:
            return False
        return not any(out in cotangents for out in eqn.outputs)

    whole = work_of(adjoint, given)
    cost = sum(whole.cost.values()) / (sum(work.cost.values()) or 1.0)
    again = work_of(adjoint, given, is_recomputed).counts
    return Adjoint(None, tuple(records(adjoint, whole.trips)), again, cost)
