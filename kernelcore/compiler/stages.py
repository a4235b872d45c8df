"""Every stage of one kernel as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernelcore.base.errors import KernelError
from kernelcore.codegen.gpu import ptx
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func, Region, Var
from kernelcore.ir.op import LOOPS, OpKind
from kernelcore.ir.printer import pretty, pretty_names
from kernelcore.language.source import read_source
from kernelcore.language.types import StackType
from kernelcore.passes.access.effects import effects
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.passes.autodiff.atomic_extrema import extremum_arrays, weighted_sums
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
            wrt, seeds = all_derivatives(func)
            adjoint = tidy(vjp(_smooth(func, wrt), wrt, seeds).func)
            return _records(adjoint) + pretty(adjoint)
        case "llvm":
            return cpu.llvm_text(optimize(func), func.name)
        case "asm":
            return cpu.assembly(cpu.llvm_text(optimize(func), func.name))
        case "ptx":
            architecture = architecture or ptx.DEFAULT_ARCHITECTURE
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


def _records(func: Func) -> str:
    """The stacks of ``func`` as a comment: a line per stack, with the loops around it."""
    names = pretty_names(func)
    lines: list[str] = []
    for stack, loops in _pushes(func.body, (), names):
        assert isinstance(stack.type, StackType)
        dtype = stack.type.dtype
        size = f"{dtype.size_bytes} byte{'' if dtype.size_bytes == 1 else 's'}"
        place = " > ".join(loops) or "no loop"
        lines.append(f"#   {names[stack]}: {dtype}, {size} per value, pushed in {place}\n")
    if not lines:
        return "# records nothing\n"
    return "# records, per thread:\n" + "".join(lines)


def _pushes(
    region: Region, loops: tuple[str, ...], names: Mapping[Var, str]
) -> Iterator[tuple[Var, tuple[str, ...]]]:
    """Every stack with the loops around each place that pushes on it."""
    for eqn in region.eqns:
        if eqn.op.kind is OpKind.PUSH:
            assert isinstance(eqn.inputs[0], Var)
            yield eqn.inputs[0], loops
        inner = loops
        if eqn.op.kind in LOOPS:
            is_for = eqn.op.kind is OpKind.FOR
            text = f"for {names[eqn.regions[0].params[0]]}" if is_for else "while"
            inner = (*loops, f"{text} (line {eqn.loc.line})" if eqn.loc else text)
        for body in eqn.regions:
            yield from _pushes(body, inner, names)
