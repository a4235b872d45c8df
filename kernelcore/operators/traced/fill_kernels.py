"""Kernels that programs launch on their own: to fill an array, and to copy one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Func, Region, Var
from kernelcore.ir.op import LOAD, STORE, TID
from kernelcore.language.types import ArrayType, int32


def filled(type_: ArrayType, components: npt.NDArray[Any]) -> Func:
    """A kernel with one parameter, which stores ``components`` to every element of it."""
    builder, target = Builder(), Var(type_, "array")
    values = [Const(type_.dtype, value) for value in components.reshape(-1).tolist()]
    for place, value in zip(_places(builder, type_), values, strict=True):
        builder.emit_effect(STORE, target, *place, value)
    return _func("fill", builder, (target,))


def copied(type_: ArrayType) -> Func:
    """A kernel that copies the elements of its first parameter to the second."""
    builder, source, target = Builder(), Var(type_, "source"), Var(type_, "target")
    for place in _places(builder, type_):
        builder.emit_effect(STORE, target, *place, builder.emit(LOAD, source, *place))
    return _func("copy", builder, (source, target))


def _places(builder: Builder, type_: ArrayType) -> Sequence[tuple[Atom, ...]]:
    """The indices of every component of the element at the launch index."""
    index = [builder.emit(TID, axis=axis) for axis in range(type_.outer_ndim)]
    inner = itertools.product(*(range(n) for n in type_.components))
    return [(*index, *(Const(int32, k) for k in place)) for place in inner]


def _func(name: str, builder: Builder, params: tuple[Var, ...]) -> Func:
    rank = params[0].type.outer_ndim if isinstance(params[0].type, ArrayType) else 0
    return Func(name, Region(params, tuple(builder.eqns)), rank)
