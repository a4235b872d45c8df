"""Side effects of code: writes and messages."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import MESSAGES, WRITES, OpKind
from kernelcore.ir.walk import walk_eqns


def writes(eqns: Sequence[Eqn], array: Var) -> bool:
    """Whether ``eqns``, or a function that they call, store or add to an element of ``array``."""
    for eqn in walk_eqns(Region((), tuple(eqns))):
        if eqn.op.kind in WRITES and eqn.inputs[0] is array:
            return True
        if eqn.op.kind is OpKind.CALL:
            callee: Func = eqn.attrs["callee"]
            pairs = zip(callee.params, eqn.inputs, strict=True)
            if any(writes(callee.body.eqns, p) for p, given in pairs if given is array):
                return True
    return False


def has_effects(eqns: Sequence[Eqn]) -> bool:
    """Whether ``eqns``, or a function that they call, write an array or tell something."""
    for eqn in walk_eqns(Region((), tuple(eqns))):
        if eqn.op.kind in WRITES or eqn.op.kind in MESSAGES or eqn.op.kind is OpKind.SNIPPET:
            return True
        if eqn.op.kind is OpKind.CALL and has_effects(eqn.attrs["callee"].body.eqns):
            return True
    return False
