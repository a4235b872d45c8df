"""Simplify: fold constants, take known branches, drop what loops and branches pass on unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import LEADING, keep_slots, replace_body, substitute
from kernelcore.language.types import Scalar


def simplify(func: Func) -> Func:
    """``func`` with equal meaning and fewer Eqns."""
    return replace_body(func, _region(func.body, {}))


def _region(region: Region, env: dict[Var, Atom]) -> Region:
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        _eqn(eqn, env, eqns)
    return Region(region.params, tuple(eqns), tuple(substitute(a, env) for a in region.yields))


def _eqn(eqn: Eqn, env: dict[Var, Atom], into: list[Eqn]) -> None:
    inputs = tuple(substitute(a, env) for a in eqn.inputs) if env else eqn.inputs
    match eqn.op.kind:
        case OpKind.PURE if (found := _folded(eqn, inputs)) is not None:
            env[eqn.out] = found
            return
        case OpKind.CAST if inputs[0].type == eqn.out.type:
            env[eqn.out] = inputs[0]
            return
        case OpKind.IF if isinstance(inputs[0], Const):
            taken = eqn.regions[0 if inputs[0].value else 1]
            for inner in taken.eqns:
                _eqn(inner, env, into)
            env.update(
                (v, substitute(a, env)) for v, a in zip(eqn.outputs, taken.yields, strict=True)
            )
            return
        case OpKind.ASSERT if isinstance(inputs[0], Const) and inputs[0].value:
            return
        case OpKind.FOR | OpKind.WHILE:
            eqn = _drop_invariant(replace(eqn, inputs=inputs), env)
            inputs = eqn.inputs
        case _:
            pass
    if inputs is eqn.inputs and not eqn.regions:
        into.append(eqn)
        return
    regions = tuple(_region(r, env) for r in eqn.regions)
    if eqn.op.kind is OpKind.IF:
        for out, *given in zip(eqn.outputs, *(r.yields for r in regions), strict=True):
            if given[0] is given[1]:
                env[out] = given[0]
    into.append(Eqn(eqn.op, inputs, eqn.outputs, eqn.attrs, regions, eqn.loc))


def _folded(eqn: Eqn, inputs: tuple[Atom, ...]) -> Const | None:
    """The literal that ``eqn`` of literals is; none for a NaN of given bits: literals have one."""
    if not all(isinstance(a, Const) for a in inputs):
        return None
    dtype = eqn.out.type
    assert eqn.op.ref is not None
    assert isinstance(dtype, Scalar)
    with np.errstate(all="ignore"):
        values: list[Any] = [a.type.numpy.type(a.value) for a in inputs if isinstance(a, Const)]
        value = dtype(eqn.op.ref(*values)).item()
    if value != value and not any(a.type.is_float for a in inputs if isinstance(a, Const)):
        return None
    return Const(dtype, value)


def _drop_invariant(eqn: Eqn, env: dict[Var, Atom]) -> Eqn:
    """``eqn`` without the slots that have one value in all iterations: what goes in."""
    fixed = _invariant_slots(eqn)
    lead, first = LEADING[eqn.op.kind]
    for slot in fixed:
        init = eqn.inputs[lead + slot]
        env[eqn.outputs[slot]] = init
        env.update((r.params[first + slot], init) for r in eqn.regions)
    return keep_slots(eqn, [k for k in range(len(eqn.outputs)) if k not in fixed])


def _invariant_slots(eqn: Eqn) -> set[int]:
    """The slots of a loop whose body yields what it was given, or another slot of that value."""
    lead, first = LEADING[eqn.op.kind]
    body, inits = eqn.regions[-1], eqn.inputs[lead:]
    slot_of: dict[Atom, int] = {p: slot for slot, p in enumerate(body.params[first:])}
    found = enumerate(map(slot_of.get, _origins(body, body.yields)))
    source = {slot: other for slot, other in found if other is not None}
    fixed = set(source)
    while dropped := [
        k for k in fixed if source[k] not in fixed or not _is_same(inits[source[k]], inits[k])
    ]:
        fixed.difference_update(dropped)
    return fixed


def _is_same(a: Atom, b: Atom) -> bool:
    """Whether two atoms surely are one value: floats that compare equal may differ in sign."""
    return a is b or (isinstance(a, Const) and not a.type.is_float and a == b)


def _origins(region: Region, atoms: Sequence[Atom]) -> list[Atom]:
    """What ``atoms`` are before branches of ``region`` whose arms both yield that."""
    wanted = set(atoms)
    origin: dict[Atom, Atom] = {}
    for eqn in region.eqns:
        if eqn.op.kind is not OpKind.IF or wanted.isdisjoint(eqn.outputs):
            continue
        slots = [slot for slot, out in enumerate(eqn.outputs) if out in wanted]
        then, orelse = (_origins(arm, [arm.yields[k] for k in slots]) for arm in eqn.regions)
        pairs = zip(slots, then, orelse, strict=True)
        origin.update({eqn.outputs[k]: one for k, one, other in pairs if one is other})
    return [origin.get(atom, atom) for atom in atoms]
