"""Atomics on elements that one thread alone touches, as the loads and stores that they are."""

from __future__ import annotations

from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Eqn, Func, Region
from kernelcore.ir.op import LOAD, STORE, OpKind
from kernelcore.ir.walk import replace_body, rewrite, walk_eqns
from kernelcore.passes.access.effects import AccessMap


def without_owned_atomics(func: Func) -> Func:
    """``func`` with loads and stores in the place of atomics on owned arrays.

    Accumulations stay, which are linear, and what depends on the bits of a value.
    """
    arrays = {e.inputs[0] for e in walk_eqns(func.body) if e.op.kind is OpKind.ATOMIC}
    if not arrays:
        return func
    accesses = AccessMap(func)
    owned = {a for a in arrays if accesses.owned(a)}

    def visit(eqn: Eqn) -> Eqn | Region:
        return _update(eqn) if eqn.op.kind is OpKind.ATOMIC and eqn.inputs[0] in owned else eqn

    return replace_body(func, rewrite(func.body, visit)) if owned else func


def _update(eqn: Eqn) -> Region:
    """What the ATOMIC ``eqn`` does, as a load and a store."""
    builder = Builder()
    builder.loc = eqn.loc
    *element, value = eqn.inputs
    builder.append(Eqn(LOAD, tuple(element), eqn.outputs, loc=eqn.loc))
    update = eqn.attrs["update"]
    new = value if update is None else builder.emit(update, eqn.out, value)
    builder.emit_effect(STORE, *element, new)
    return Region((), tuple(builder.eqns), eqn.outputs)
