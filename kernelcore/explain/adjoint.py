"""What reverse mode makes of a kernel: what it records, and what it computes again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelError
from kernelcore.codegen.analysis.costly_values import with_costly_records
from kernelcore.codegen.analysis.work import Counts, Work, work_of
from kernelcore.compiler.stages import Record, adjoint_of, all_derivatives, records
from kernelcore.explain.devices import Sizes, size_of
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import ACCESSES
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.autodiff.activity import active_values
from kernelcore.passes.autodiff.derived import Derived
from kernelcore.passes.pipeline import optimize, tidy
from kernelcore.passes.simplify.dead_code import dce


@dataclass(frozen=True)
class Adjoint:
    """What reverse mode makes of a kernel.

    Attributes:
        refusal: The error where the kernel has no derivative; else None.
        records: What the forward sweep on processors keeps for the reverse sweep; that computes all
            else again.
        recomputed: What a thread does that depends on no cotangent: it loads elements of the
            kernel's arrays, and computes values and factors of derivatives from them.
        cost: Estimated instructions, as a multiple of those of the kernel.
        kept: The arrays that the adjoint reads, which frameworks keep from the call to its
            gradient, and their bytes; None where extents are not known.
    """

    refusal: str | None
    records: Sequence[Record] = ()
    recomputed: Counts = field(default_factory=Counts)
    cost: float = 0.0
    kept: Sizes = field(default_factory=dict[str, int | None])

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
        adjoint = with_costly_records(optimize(tidy(derived.func)))
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
    kept = _kept(func, derived, arguments)
    return Adjoint(None, tuple(records(adjoint, whole.trips)), again, cost, kept)


def _kept(func: Func, derived: Derived, arguments: Sequence[Any] | None) -> Sizes:
    """The arrays with elements from before the launch that the adjoint reads."""
    shown = {derived.func.params[new] for new in derived.derivative_of.values()}
    reads = effects(dce(tidy(derived.func), shown))
    found: dict[str, int | None] = {}
    for k, (param, effect) in enumerate(zip(func.params, effects(func), strict=True)):
        is_given = effect.loads or not effect.writes
        if reads[k].loads and is_given and isinstance(param.type, ArrayType):
            found[param.name] = None if arguments is None else size_of(arguments[k], param.type)
    return found
