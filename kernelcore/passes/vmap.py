"""Batching (vmap): a kernel that runs a kernel once per index of a new leading launch axis."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import replace
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Argument, instantiate
from kernelcore.ir.op import LOAD, TID, OpKind
from kernelcore.ir.walk import rewrite
from kernelcore.language.types import ArrayType, Scalar, Type
from kernelcore.passes.access.named_rows import with_rows


def batch(func: Func, batched: Sequence[bool], *, is_point: bool = False) -> Func:
    """``func`` per instance of a batch; the instance is launch axis 0.

    It is the only one where ``func`` ``is_point``: it is launched over one point, and does not ask
    for its index. A parameter marked in ``batched`` gets a leading dimension, a value becomes an
    array of one dimension; every other parameter is shared by all instances.
    """
    builder = Builder()
    builder.loc = func.loc
    instance = builder.emit(TID, axis=0, name="instance")
    params: list[Var] = []
    given: list[Argument] = []
    for param, is_batched in zip(func.params, batched, strict=True):
        params.append(Var(_batched(param.type), param.name) if is_batched else param)
        if not is_batched:
            given.append((param,))
        elif isinstance(param.type, ArrayType):
            given.append((params[-1], instance))
        else:
            given.append((builder.emit(LOAD, params[-1], instance, name=param.name),))
    eqns = rewrite(instantiate(func, given), _shifted).eqns
    body = Region(tuple(params), (*builder.eqns, *eqns))
    rank = 1 if is_point else func.rank + 1
    # A vector per instance is a row.
    return with_rows(replace(func, name=f"{func.name}_batch", body=body, grid_rank=rank))


def _batched(type_: Type) -> ArrayType:
    match type_:
        case ArrayType(_, ndim):
            return replace(type_, ndim=ndim + 1)
        case Scalar():
            return ArrayType(type_, 1)
        case _:
            raise ValueError(f"a parameter of type {type_}")


def _shifted(eqn: Eqn) -> Eqn:
    """A TID of the axis behind that of the batch."""
    if eqn.op.kind is not OpKind.TID:
        return eqn
    return replace(eqn, attrs={**eqn.attrs, "axis": eqn.attrs["axis"] + 1})
