"""The kernels whose device code is checked: patterns, timed kernels, operations, derivatives."""

from __future__ import annotations

import os
from collections.abc import Iterator

import kernelcore as kc
from kernelcore.base.errors import KernelGradError
from kernelcore.builtins import OPS
from kernelcore.compiler.stages import all_derivatives
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.launch.adjoint_kernel import Adjoint
from kernelcore.passes.autodiff.activity import is_float
from kernelcore.passes.autodiff.atomic_extrema import extremum_arrays, weighted_sums
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.pipeline import optimize, tidy
from tests.bench.suite import CASES
from tests.builtins.test_table import dtypes
from tests.helpers.kernel_harness import elementwise, one_call
from tests.helpers.patterns import PATTERNS

# Everything, instead of the part that every run of the tests checks.
IS_WHOLE = os.environ.get("KC_PTX_ALL", "0") == "1"
# Of the types of an operation, the part at which it is checked.
PART_OF_TYPES = 1 if IS_WHOLE else 4
# Of the programs, the part whose adjoints are checked.
PART_OF_ADJOINTS = 1 if IS_WHOLE else 3


def programs() -> Iterator[tuple[str, Func]]:
    """Patterns and timed kernels, and the adjoints of a part; of all of them, the JVPs too."""
    funcs = {pattern.name: pattern.kernel.func for pattern in PATTERNS}
    funcs |= {case.make.__name__: case.make(kc).func for case in CASES}
    for number, (name, func) in enumerate(funcs.items()):
        yield name, optimize(func)
        if number % PART_OF_ADJOINTS == 0:
            yield from _derivatives(name, func, ("adjoint", "jvp") if IS_WHOLE else ("adjoint",))


def operations() -> Iterator[tuple[str, Func]]:
    """Every operation at one type in ``PART_OF_TYPES``; of all of them, the derivatives too."""
    pure = (op for op in OPS.values() if op.kind is OpKind.PURE)
    for number, op in enumerate(pure):
        known = list(dtypes(op))
        for dtype in known[number % min(PART_OF_TYPES, len(known)) :: PART_OF_TYPES]:
            func, name = elementwise(one_call(op, dtype)), f"{op.name}_{dtype.name}"
            yield name, optimize(func)
            if IS_WHOLE:
                yield from _derivatives(name, func, ("adjoint", "jvp"))


def _derivatives(name: str, func: Func, modes: tuple[str, ...]) -> Iterator[tuple[str, Func]]:
    """The derivatives of ``func`` that exist."""
    wrt, seeds = all_derivatives(func)
    if not wrt or not seeds:
        return
    for mode in modes:
        try:
            derived = adjoint(func) if mode == "adjoint" else tangent(func)
        except KernelGradError:
            continue
        yield f"{name}_{mode}", optimize(derived)


def adjoint(func: Func) -> Func:
    """The adjoint for all float parameters."""
    wrt, seeds = all_derivatives(func)
    return Adjoint(lambda: func, (tuple(wrt), tuple(seeds), frozenset()), len(func.params)).func


def tangent(func: Func) -> Func:
    """The JVP with respect to all float parameters."""
    active = [i for i, p in enumerate(func.params) if is_float(p)]
    chosen = extremum_arrays(func, active)
    return tidy(jvp(weighted_sums(func, chosen) if chosen else func, active).func)
