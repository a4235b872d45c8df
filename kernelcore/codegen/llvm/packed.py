"""Packed arrays: those of which code knows that the elements of the last axis are adjacent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

from kernelcore.codegen.analysis.row_blocks import BlockedLoop
from kernelcore.codegen.llvm import memory
from kernelcore.codegen.llvm.emitter import ArrayValue, Emitter
from kernelcore.ir.core import Var
from kernelcore.language.types import ArrayType

# Beyond, arithmetic hides what strides cost, and the time to compile a second body is saved.
MAX_EQNS_OF_TWO_BODIES = 600


def as_packed(type_: ArrayType, array: ArrayValue) -> ArrayValue:
    """``array`` with adjacent components, and adjacent elements along the last other axis."""
    strides = component_strides(type_)
    outer = type_.outer_ndim
    if outer:
        strides.insert(0, str(type_.dtype.size_bytes * prod(type_.components)))
    return ArrayValue(array.data, array.shape, (*array.strides[: max(outer - 1, 0)], *strides))


def component_strides(type_: ArrayType) -> list[str]:
    """The strides of adjacent components."""
    strides: list[str] = []
    size_bytes = type_.dtype.size_bytes
    for extent in reversed(type_.components):
        strides.insert(0, str(size_bytes))
        size_bytes *= extent
    return strides


def all_equal(e: Emitter, found: Mapping[Var, ArrayValue], wanted: Mapping[Var, ArrayValue]) -> str:
    """Whether the strides of ``found`` are those of ``wanted``."""
    result = "true"
    for param, array in found.items():
        for stride, expected in zip(array.strides, wanted[param].strides, strict=True):
            if stride != expected:
                same = e.op(f"icmp eq i64 {stride}, {expected}")
                result = e.op(f"and i1 {result}, {same}")
    return result


class ApartUser(Protocol):
    """Code for which pairs of arrays must share no memory."""

    @property
    def apart(self) -> Sequence[tuple[Var, Var]]:
        """These pairs."""
        ...


def all_apart(e: Emitter, result: str, users: Sequence[ApartUser]) -> str:
    """Whether ``result``, and every pair of arrays of ``users`` shares no more than it may."""
    blocked = [user for user in users if isinstance(user, BlockedLoop)]
    pairs = {(*pair, False): None for user in users for pair in user.apart}
    pairs |= {(*pair, True): None for loop in blocked for pair in loop.equal}
    for x, y, may_be_one in pairs:
        is_apart = memory.are_apart(e, x, y)
        if may_be_one:
            one, other = (f"ptr {e.array(a).data}" for a in (x, y))
            same = all_equal(e, {x: e.array(x)}, {x: e.array(y)})
            same = e.op(f"and i1 {same}, {e.op(f'icmp eq {one}, {other[4:]}')}")
            is_apart = e.op(f"or i1 {is_apart}, {same}")
        result = e.op(f"and i1 {result}, {is_apart}")
    return result
