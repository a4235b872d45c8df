"""Which kernels may run on parts of their grid apart, each with its part of the arrays."""

from __future__ import annotations

from enum import Enum, auto

from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.effects import effects

# What depends on the whole grid or the whole of an array, or cannot be looked into.
_WHOLE = (OpKind.DIM, OpKind.ARRAY_AT, OpKind.SNIPPET, OpKind.PRINT, OpKind.CUSTOM)


class Part(Enum):
    """What the part of a grid needs of a parameter, or gives."""

    OWN = auto()  # the elements at its own launch indices
    ALL = auto()  # everything, to read
    SUM = auto()  # a summand of every element


def parts(func: Func) -> tuple[Part, ...] | None:
    """Per parameter what a part of the grid needs; None if the parts are not independent.

    They are if a thread uses its launch index for nothing but elements at that index.
    """
    axis = {e.out: e.attrs["axis"] for e in walk_eqns(func.body) if e.op.kind is OpKind.TID}
    indices: dict[Atom, list[list[int | None]]] = {p: [] for p in func.params}
    for eqn in walk_eqns(func.body):
        outer = _outer_ndim(eqn)
        used = (*eqn.inputs[1 + outer :], *(a for r in eqn.regions for a in r.yields))
        if outer == 0:
            used = (*used, *eqn.inputs)
        if eqn.op.kind in _WHOLE or any(isinstance(a, Var) and a in axis for a in used):
            return None
        if eqn.op.kind in ACCESSES and eqn.inputs[0] in indices:
            row = [axis.get(i) if isinstance(i, Var) else None for i in eqn.inputs[1 : 1 + outer]]
            indices[eqn.inputs[0]].append(row)
    own = list(range(func.rank))
    found: list[Part] = []
    for param, effect in zip(func.params, effects(func), strict=True):
        rows = indices[param]
        if rows and all(row == own for row in rows):
            found.append(Part.OWN)
        elif any(place is not None for row in rows for place in row):
            return None
        elif not effect.writes:
            found.append(Part.ALL)
        elif effect.loads or effect.stores:
            return None
        else:
            found.append(Part.SUM)
    return tuple(found)


def _outer_ndim(eqn: Eqn) -> int:
    """How many indices of an access are no components; 0 for what is no access of an array."""
    array = eqn.inputs[0].type if eqn.op.kind in ACCESSES else None
    return array.outer_ndim if isinstance(array, ArrayType) else 0
