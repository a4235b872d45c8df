"""Atomics on elements that one thread alone touches, as the loads and stores that they are."""

from __future__ import annotations

from collections.abc import Set

from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Eqn, Func, Region
from kernelcore.ir.op import LOAD, STORE, OpKind
from kernelcore.ir.walk import replace_body, walk_eqns
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
    return replace_body(func, _region(func.body, owned)) if owned else func


def _region(region: Region, owned: Set[Atom]) -> Region:
    builder = Builder()
    for eqn in region.eqns:
        if eqn.op.kind is OpKind.ATOMIC and eqn.inputs[0] in owned:
            _update(builder, eqn)
            continue
        regions = tuple(_region(r, owned) for r in eqn.regions)
        builder.append(Eqn(eqn.op, eqn.inputs, eqn.outputs, eqn.attrs, regions, eqn.loc))
    return Region(region.params, tuple(builder.eqns), region.yields)


def _update(builder: Builder, eqn: Eqn) -> None:
    """Emit what the ATOMIC ``eqn`` does."""
    builder.loc = eqn.loc
    *element, value = eqn.inputs
    builder.append(Eqn(LOAD, tuple(element), eqn.outputs, loc=eqn.loc))
    update = eqn.attrs["update"]
    new = value if update is None else builder.emit(update, eqn.out, value)
    builder.emit_effect(STORE, *element, new)
