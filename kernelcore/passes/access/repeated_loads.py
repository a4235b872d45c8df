"""Loads of a loop that give the same in every iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import REPEATABLE, WRITES, OpKind
from kernelcore.ir.walk import eqns_inside
from kernelcore.passes.access.index_offsets import computing


def repeated_loads(loop: Eqn) -> Mapping[Eqn, Sequence[Eqn]]:
    """The loads that every iteration of ``loop`` makes alike, each with what computes its indices.

    Nothing in the loop writes their arrays by name; where arrays may share memory, an iteration may
    change what the next one loads. Loads inside of branches and of other loops are left out.
    """
    (body,), inside = loop.regions, list(eqns_inside(loop))
    written = {eqn.inputs[0] for eqn in inside if eqn.op.kind in WRITES}
    own: set[Atom] = {*body.params, *(v for eqn in inside for v in eqn.outputs)}
    alike: dict[Var, Eqn] = {}
    found: dict[Eqn, Sequence[Eqn]] = {}
    for eqn in body.eqns:
        if any(a in own and a not in alike for a in eqn.inputs):
            continue
        if eqn.op.kind in REPEATABLE:
            alike[eqn.out] = eqn
        elif eqn.op.kind is OpKind.LOAD and eqn.inputs[0] not in written:
            found[eqn] = computing(eqn.inputs, alike)
    return found
