"""Simplify: fold constants, take known branches, drop what loops and branches pass on unchanged."""

from __future__ import annotations

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
    """``eqn`` without the slots whose body yields their own parameter."""
    lead, first = LEADING[eqn.op.kind]
    body = eqn.regions[-1]
    kept: list[int] = []
    for slot, yielded in enumerate(body.yields):
        if _origin(body, yielded) is body.params[first + slot]:
            init = eqn.inputs[lead + slot]
            env[eqn.outputs[slot]] = init
            env.update((r.params[first + slot], init) for r in eqn.regions)
        else:
            kept.append(slot)
    return keep_slots(eqn, kept)


def _origin(region: Region, atom: Atom) -> Atom:
    """The value of ``atom`` before branches of ``region`` whose arms both yield it."""
    for eqn in region.eqns:
        if eqn.op.kind is OpKind.IF and atom in eqn.outputs:
            slot = eqn.outputs.index(atom)
            then, orelse = (_origin(arm, arm.yields[slot]) for arm in eqn.regions)
            return then if then is orelse else atom
    return atom
