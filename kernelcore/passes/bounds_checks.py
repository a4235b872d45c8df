"""Index checks: before every access of an array, one per axis that could be left."""

from __future__ import annotations

from kernelcore.base.errors import INTEGER_PLACE
from kernelcore.builtins.logic import less, less_equal, logical_and
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region
from kernelcore.ir.op import ACCESSES, ASSERT, CAST, DIM
from kernelcore.ir.walk import replace_body, rewrite
from kernelcore.language.types import ArrayType, int64

_ZERO = Const(int64, 0)


def check_bounds(func: Func) -> Func:
    """``func`` with an ASSERT per index.

    Native snippets are left alone: what they do to arrays is C++.
    """
    return replace_body(func, rewrite(func.body, _checked))


def _checked(eqn: Eqn) -> Eqn | Region:
    return _access(eqn) if eqn.op.kind in ACCESSES else eqn


def _access(eqn: Eqn) -> Region:
    """``eqn`` with an ASSERT per index before it."""
    builder = Builder()
    builder.loc = eqn.loc
    array = eqn.inputs[0]
    assert isinstance(array.type, ArrayType)
    for axis, index in enumerate(eqn.inputs[1 : 1 + array.type.ndim]):
        component = axis - array.type.outer_ndim
        if component >= 0 and isinstance(index, Const):
            # The frontend has checked it.
            continue
        found = builder.emit(CAST, index, dtype=int64)
        extent = builder.emit(CAST, builder.emit(DIM, array, axis=axis), dtype=int64)
        low = builder.emit(less_equal.op, _ZERO, found)
        high = builder.emit(less.op, found, extent)
        holds = builder.emit(logical_and.op, low, high)
        builder.emit_effect(ASSERT, holds, found, extent, text=_text(array, axis), check="index")
    builder.append(eqn)
    return Region((), tuple(builder.eqns), eqn.outputs)


def _text(array: Atom, axis: int) -> str:
    """The message, with places for the index and the extent."""
    name = "" if isinstance(array, Const) or not array.name else f" of '{array.name}'"
    place = INTEGER_PLACE
    return f"index {place} is outside of axis {axis}{name}, whose extent is {place}"
