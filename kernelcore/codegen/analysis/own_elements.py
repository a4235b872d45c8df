"""Gathered sums that chunks can divide among them: each makes the whole sums of its own elements.

    over (k, j):                                        a chunk of a quarter of the threads:
        for i: total += g[i, j] * a[i, k]                   the same for a quarter of the k,
        ct_b[k, j] += total                                 over all i

Chunks that each add their threads' part to all elements need copies of the array, which are added
up in order; of their own elements they need none.
"""

from __future__ import annotations

from kernelcore.codegen.analysis.gathered_sums import Bounds, GatheredSum, GatheredSums
from kernelcore.ir.core import Const, Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import atoms_in, walk_eqns
from kernelcore.language.types import int32
from kernelcore.passes.access.accumulation_plan import (
    MAX_SHARED_ARRAYS,
    OwnElements,
    shared_arrays,
)


def own_elements(found: GatheredSums, least_trips: int) -> tuple[OwnElements | None, ...]:
    """What launches need to know to divide each sum of ``found``; None if they cannot.

    Args:
        found: A kernel with gathered sums.
        least_trips: The iterations of all loops from which on launches gather.
    """
    extent = _extent(found.func, found.bounds[0])
    if found.func.rank != 2 or len(found.bounds) != 1 or extent is None:
        return (None,) * len(found.sums)
    return tuple(
        OwnElements(*extent, -1 if one.is_last else 1, least_trips)
        if _can_be_divided(found, one)
        else None
        for one in found.sums
    )


def _extent(func: Func, bounds: Bounds) -> tuple[int, int] | None:
    """The array, a parameter of ``func``, and its axis that a loop with ``bounds`` goes along."""
    start, stop, step = bounds
    if (start, step) != (Const(int32, 0), Const(int32, 1)):
        return None
    maker = next((e for e in func.body.eqns if stop in e.outputs), None)
    if maker is None or maker.op.kind is not OpKind.DIM or maker.inputs[0] not in func.params:
        return None
    return func.params.index(maker.inputs[0]), maker.attrs["axis"]


def _can_be_divided(found: GatheredSums, one: GatheredSum) -> bool:
    """Whether any chunk can make the whole sums of any elements of ``one``.

    Elements of a row of the grid are added to by one chunk as it is, and those that all threads add
    to are few. What the threads of other chunks keep is not known. What else is added to the array
    may reach any element.
    """
    if one.axis != 1 or not atoms_in(one.func.body).isdisjoint(found.kept.values()):
        return False
    uses = [a for func in found.funcs for e in walk_eqns(func.body) for a in e.inputs[:1]]
    has_bit = one.arrays[0] in shared_arrays(found.func)[:MAX_SHARED_ARRAYS]
    return has_bit and len(one.arrays) == 1 and uses.count(one.arrays[0]) == 1
