"""Results of loops that a kernel saves for its adjoint, which then need not run these loops again.

The kernel stores them to arrays of the launch's shape, one element a thread; the adjoint loads them
where it would run the loop. An adjoint that needs more of a loop than its results, such as the
values that it carried, still runs it.
"""

from __future__ import annotations

from collections.abc import Collection

from kernelcore.base.dataclass import replace
from kernelcore.builtins.reference import trip_count
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Const, Eqn, Func, Region, Var
from kernelcore.ir.op import STORE, TID, OpKind
from kernelcore.language.types import ArrayType, Scalar

# A loop with fewer iterations costs less than passing its results through memory.
FEW_ITERATIONS = 16
# A thread that saves more writes as much as it computes.
MOST_RESULTS = 4


def with_saved(func: Func, rank: int) -> Func:
    """``func`` with parameters behind its own, to which threads store the results of their loops.

    Args:
        func: A kernel.
        rank: The dimensions of its launch.
    """
    builder = Builder()
    eqns: list[Eqn] = []
    arrays: list[Var] = []
    with builder.into(eqns):
        index = [builder.emit(TID, axis=axis) for axis in range(rank)]
        for eqn in func.body.eqns:
            builder.append(eqn)
            if not _is_worth_saving(eqn):
                continue
            builder.loc = eqn.loc
            for result in eqn.outputs:
                assert isinstance(result.type, Scalar)
                array = Var(ArrayType(result.type, rank), f"saved_{result.name}")
                builder.emit_effect(STORE, array, *index, result)
                arrays.append(array)
    if not arrays:
        return func
    params = (*func.params, *arrays)
    locs = (*(func.param_loc(i) for i in range(len(func.params))), *([func.loc] * len(arrays)))
    return replace(func, body=Region(params, tuple(eqns), func.body.yields), param_locs=locs)


def without_saved(func: Func, dropped: Collection[int]) -> Func:
    """``func``, made by ``with_saved``, without the parameters ``dropped`` and stores to them."""
    arrays = {func.params[i] for i in dropped}
    params = tuple(p for p in func.params if p not in arrays)
    eqns = tuple(e for e in func.body.eqns if not (e.op is STORE and e.inputs[0] in arrays))
    locs = tuple(func.param_loc(i) for i in range(len(func.params)) if i not in dropped)
    return replace(func, body=Region(params, eqns, func.body.yields), param_locs=locs)


def _is_worth_saving(eqn: Eqn) -> bool:
    if eqn.op.kind is not OpKind.FOR or not 0 < len(eqn.outputs) <= MOST_RESULTS:
        return False
    bounds = [int(a.value) for a in eqn.inputs[:3] if isinstance(a, Const)]
    return len(bounds) < 3 or trip_count(*bounds) > FEW_ITERATIONS
