"""Batching (vmap): a kernel that runs a kernel once per index of a new leading launch axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, LOAD, TID, OpKind
from kernelcore.ir.walk import rewrite
from kernelcore.language.types import ArrayType, Scalar


def batch(func: Func, batched: Sequence[bool]) -> Func:
    """``func`` per instance of a batch; the instance is launch axis 0.

    A parameter marked in ``batched`` gets a leading dimension, a value becomes an array of one
    dimension; every other parameter is shared by all instances.
    """
    builder = Builder()
    instance = builder.emit(TID, axis=0, name="instance")
    arrays: dict[Atom, Var] = {}
    values: list[Eqn] = []
    params: list[Var] = []
    for param, is_batched in zip(func.params, batched, strict=True):
        if not is_batched:
            params.append(param)
            continue
        match param.type:
            case ArrayType(_, ndim):
                arrays[param] = Var(replace(param.type, ndim=ndim + 1), param.name)
                params.append(arrays[param])
            case Scalar():
                params.append(Var(ArrayType(param.type, 1), param.name))
                values.append(Eqn(LOAD, (params[-1], instance), (param,), loc=func.loc))
            case _:
                raise ValueError(f"a parameter of type {param.type}")
    eqns = rewrite(func.body, lambda eqn: _eqn(eqn, arrays, instance)).eqns
    body = Region(tuple(params), (*builder.eqns, *values, *eqns))
    return replace(func, name=f"{func.name}_batch", body=body, grid_rank=func.rank + 1)


def _eqn(eqn: Eqn, arrays: dict[Atom, Var], instance: Var) -> Eqn:
    if eqn.op.kind is OpKind.TID:
        return replace(eqn, attrs={**eqn.attrs, "axis": eqn.attrs["axis"] + 1})
    if eqn.op.kind in (OpKind.SNIPPET, OpKind.CUSTOM):
        pairs = [(arrays[a], instance) if a in arrays else (a,) for a in eqn.inputs]
        return replace(eqn, inputs=tuple(a for pair in pairs for a in pair))
    if eqn.inputs and eqn.inputs[0] in arrays:
        array, *rest = eqn.inputs
        if eqn.op.kind in ACCESSES:
            return replace(eqn, inputs=(arrays[array], instance, *rest))
        if eqn.op.kind is OpKind.DIM:
            attrs = {**eqn.attrs, "axis": eqn.attrs["axis"] + 1}
            return replace(eqn, inputs=(arrays[array],), attrs=attrs)
    return eqn
