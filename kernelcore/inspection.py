"""Every stage of one kernel as text."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from kernelcore.codegen import cpu
from kernelcore.errors import KernelError
from kernelcore.ir.core import Func
from kernelcore.ir.text import pretty
from kernelcore.passes.access import effects
from kernelcore.passes.activity import is_float
from kernelcore.passes.forward import jvp
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.reverse import vjp

STAGES = ("source", "ir", "jvp", "vjp", "llvm", "asm")


def stage_text(pyfunc: Callable[..., Any], func: Func, stage: str) -> str:
    """``stage`` of the kernel ``func``, which was made of ``pyfunc``.

    Raises:
        KernelError: There is no such stage.
    """
    match stage:
        case "source":
            return textwrap.dedent(inspect.getsource(pyfunc))
        case "ir":
            return pretty(func)
        case "jvp":
            active = [i for i, p in enumerate(func.params) if is_float(p)]
            return pretty(normalize(jvp(func, active).func))
        case "vjp":
            return pretty(normalize(vjp(func, *_all_derivatives(func)).func))
        case "llvm":
            return cpu.llvm_text(optimize(func), func.name)
        case "asm":
            return cpu.assembly(cpu.llvm_text(optimize(func), func.name))
        case _:
            raise KernelError(
                f"inspect: expected one of {', '.join(STAGES)}, found '{stage}'", func.loc
            )


def _all_derivatives(func: Func) -> tuple[list[int], list[int]]:
    """All float parameters that are not only written, and all arrays that are written."""
    marks = list(enumerate(zip(func.params, effects(func), strict=True)))
    wrt = [i for i, (p, e) in marks if is_float(p) and (e.loads or not e.writes)]
    return wrt, [i for i, (p, e) in marks if is_float(p) and e.writes]
