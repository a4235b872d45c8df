"""Runs of additions: those of one block of code to one array."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.codegen.analysis.uniformity import Strides
from kernelcore.ir.core import Atom, Const, Eqn, Func
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import walk_regions
from kernelcore.passes.access.accumulation_plan import form_of

# What may stand between additions that are made together: it does not touch accumulated arrays.
_UNRELATED = frozenset({OpKind.PURE, OpKind.CAST, OpKind.TID, OpKind.DIM, OpKind.LOAD})
# With more in between, what is added would be kept in registers for long.
MAX_BETWEEN = 8


def runs(func: Func, strides: Strides) -> Mapping[Eqn, tuple[Eqn, ...]]:
    """The additions in SHARED form that may be made with the last of them, by each of them.

    ``strides`` says by how much scalars grow from thread to thread of a gang. What a gang adds to
    one element is a run of its own: side by side, trees take more registers than there are.
    """
    found: list[list[Eqn]] = []
    for region in walk_regions(func.body):
        # Per array, the run that goes on and where its last addition stands.
        open_runs: dict[Atom, tuple[list[Eqn], int]] = {}
        for at, eqn in enumerate(region.eqns):
            if is_unrelated(eqn):
                continue
            if eqn.op.kind is not OpKind.ATOMIC_ADD or form_of(eqn) is not AddForm.SHARED:
                open_runs.clear()
                continue
            run, last = open_runs.pop(eqn.inputs[0], (list[Eqn](), at))
            if not run or at - last > MAX_BETWEEN or _is_total(eqn, strides):
                run = list[Eqn]()
                found.append(run)
            run.append(eqn)
            if not _is_total(eqn, strides):
                open_runs[eqn.inputs[0]] = run, at
    return {eqn: tuple(run) for run in found for eqn in run}


def is_unrelated(eqn: Eqn) -> bool:
    """Whether ``eqn`` touches no array to which threads add in SHARED form."""
    if eqn.op.kind is OpKind.ATOMIC_ADD:
        return form_of(eqn) is AddForm.OWNED
    return eqn.op.kind in _UNRELATED


def _is_total(eqn: Eqn, strides: Strides) -> bool:
    """Whether a gang adds to one element."""
    return all(isinstance(i, Const) or strides.get(i) == 0 for i in eqn.inputs[1:-1])
