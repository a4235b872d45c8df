"""Every stage of one kernel as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from kernelcore.base.errors import KernelError
from kernelcore.codegen.gpu import ptx
from kernelcore.codegen.gpu.architectures import DEFAULT_ARCHITECTURE
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.printer import pretty, pretty_names
from kernelcore.language.source import read_source
from kernelcore.language.types import Scalar, StackType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.passes.autodiff.atomic_extrema import extremum_arrays, weighted_sums
from kernelcore.passes.autodiff.derived import Derived
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import optimize, tidy

STAGES = ("source", "ir", "jvp", "vjp", "llvm", "asm", "ptx")


def stage_text(
    pyfunc: Callable[..., Any], func: Func, stage: str, architecture: str | None = None
) -> str:
    """``stage`` of the kernel ``func``, which was made of ``pyfunc``.

    Raises:
        KernelError: There is no such stage or architecture.
    """
    match stage:
        case "source":
            return textwrap.dedent(read_source(pyfunc).text)
        case "ir":
            return pretty(func)
        case "jvp":
            active = [i for i, p in enumerate(func.params) if is_float(p)]
            return pretty(tidy(jvp(_smooth(func, active), active).func))
        case "vjp":
            adjoint = tidy(adjoint_of(func).func)
            return _records_text(adjoint) + pretty(adjoint)
        case "llvm":
            return cpu.llvm_text(optimize(func), func.name)
        case "asm":
            return cpu.assembly(cpu.llvm_text(optimize(func), func.name))
        case "ptx":
            architecture = architecture or DEFAULT_ARCHITECTURE
            return ptx.ptx_text(optimize(func), func.name, architecture)
        case _:
            raise KernelError(
                f"inspect: expected one of {', '.join(STAGES)}, found '{stage}'", func.loc
            )


def _smooth(func: Func, active: Sequence[int]) -> Func:
    """The kernel that is differentiated for ``func``: weighted sums replace atomic extrema."""
    chosen = extremum_arrays(func, active)
    return weighted_sums(func, chosen) if chosen else func


def all_derivatives(func: Func) -> tuple[list[int], list[int]]:
    """The parameters to differentiate by, and those with cotangents.

    Returns:
        All float parameters that are not only written, and all arrays of floats that are written.
    """
    marks = list(enumerate(zip(func.params, effects(func), strict=True)))
    wrt = [i for i, (p, e) in marks if is_float(p) and (e.loads or not e.writes)]
    return wrt, [i for i, (p, e) in marks if is_float(p) and e.writes]


def adjoint_of(func: Func) -> Derived:
    """The adjoint of the kernel ``func`` with respect to ``all_derivatives``.

    Raises:
        KernelGradError: It has none.
    """
    wrt, seeds = all_derivatives(func)
    return vjp(_smooth(func, wrt), wrt, seeds)


class Record(NamedTuple):
    """Values that the forward sweep of an adjoint keeps for its reverse sweep.

    Attributes:
        name: Of the stack that holds them.
        dtype: Of a value.
        loops: What is around the place that keeps one: 'for %j (line 3)', outermost first.
        most: How many a thread keeps at most; None where the iterations are not known.
    """

    name: str
    dtype: Scalar
    loops: tuple[str, ...]
    most: int | None = None

    def __str__(self) -> str:
        size = f"{self.dtype.size_bytes} byte{'' if self.dtype.size_bytes == 1 else 's'}"
        place = " > ".join(self.loops) or "no loop"
        return f"{self.name}: {self.dtype}, {size} per value, pushed in {place}"


def records(func: Func, trips: Mapping[Eqn, int | None] | None = None) -> Iterator[Record]:
    """What the adjoint ``func`` records in each thread; ``trips`` are the iterations of loops."""
    names = pretty_names(func)
    for stack, around in _pushes(func.body, ()):
        assert isinstance(stack.type, StackType)
        found = [(trips or {}).get(loop) for loop in around]
        known = [n for n in found if n is not None]
        count = prod(known) if len(known) == len(found) else None
        loops = tuple(_loop_text(loop, names) for loop in around)
        yield Record(names[stack], stack.type.dtype, loops, count)


def _records_text(func: Func) -> str:
    """What the adjoint ``func`` records, as a comment."""
    lines = [f"#   {record}\n" for record in records(func)]
    return "# records, per thread:\n" + "".join(lines) if lines else "# records nothing\n"


def _pushes(region: Region, loops: tuple[Eqn, ...]) -> Iterator[tuple[Var, tuple[Eqn, ...]]]:
    """Every stack with the loops around each place that pushes on it."""
    for eqn in region.eqns:
        if eqn.op.kind is OpKind.PUSH:
            assert isinstance(eqn.inputs[0], Var)
            yield eqn.inputs[0], loops
        inner = (*loops, eqn) if eqn.op.kind in LOOPS else loops
        for body in eqn.regions:
            yield from _pushes(body, inner)


def _loop_text(loop: Eqn, names: Mapping[Var, str]) -> str:
    is_for = loop.op.kind is OpKind.FOR
    text = f"for {names[loop.regions[0].params[0]]}" if is_for else "while"
    return f"{text} (line {loop.loc.line})" if loop.loc else text
