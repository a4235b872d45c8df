"""Scalars of a kernel as elements that it loads: numbers that only the device knows."""

from __future__ import annotations

from collections.abc import Collection

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import LOAD
from kernelcore.language.types import ArrayType, Scalar


def by_reference(func: Func, chosen: Collection[int]) -> Func:
    """``func`` with the scalar parameters ``chosen`` as arrays without dimensions."""
    if not chosen:
        return func
    params = list(func.params)
    loads: list[Eqn] = []
    for index in chosen:
        value = params[index]
        assert isinstance(value.type, Scalar)
        array = params[index] = Var(ArrayType(value.type, 0), value.name)
        loads.append(Eqn(LOAD, (array,), (value,), loc=func.param_loc(index)))
    body = func.body
    return replace(func, body=Region(tuple(params), (*loads, *body.eqns), body.yields))
