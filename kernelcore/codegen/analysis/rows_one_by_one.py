"""What threads do besides loops along rows, which one thread after the other may run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kernelcore.builtins.arithmetic import range_len
from kernelcore.codegen.analysis.uniformity import Strides, stride_of
from kernelcore.ir.core import Eqn, Var
from kernelcore.ir.op import FEW_TRIPS, LOOPS, AddForm, OpKind
from kernelcore.ir.walk import eqns_inside
from kernelcore.passes.access.accumulation_plan import form_of


def besides_rows(eqns: Iterable[Eqn], along_rows: Collection[Eqn]) -> list[Eqn] | None:
    """The equations of ``eqns`` outside of the loops ``along_rows``, and of loops around these.

    None if there are other loops, or additions to elements that threads share: gangs, which make
    these as a tree, suit them better.
    """
    result: list[Eqn] = []
    for eqn in eqns:
        if eqn.op.kind in LOOPS:
            if eqn in along_rows or FEW_TRIPS in eqn.attrs:
                continue
            inside = eqn.regions[-1].eqns
            has_loops = any(e.op.kind in LOOPS for e in inside)
            found = besides_rows(inside, along_rows) if has_loops else None
            if found is None:
                return None
            result += found
            continue
        for part in (eqn, *eqns_inside(eqn)):
            if part.op.kind in LOOPS or (
                part.op.kind is OpKind.ATOMIC_ADD and form_of(part) is not AddForm.OWNED
            ):
                return None
            result.append(part)
    return result


def grows_with_thread(loop: Eqn, strides: Strides, defined: Mapping[Var, Eqn]) -> bool:
    """Whether one end of ``loop`` moves evenly from thread to thread, and the other one is fixed.

    Most threads have many iterations then, where there are many threads. ``defined`` is what makes
    values of the kernel: reverse mode runs as many iterations as a loop has had.
    """
    start, stop = loop.inputs[:2]
    ends = (start, stop)
    eqn = defined.get(stop) if isinstance(stop, Var) else None
    if eqn is not None and eqn.op is range_len.op and stride_of(strides, start) == 0:
        ends = eqn.inputs[:2]
    steps = [stride_of(strides, a) for a in ends]
    return None not in steps and 0 in steps
