"""Results of loops that a kernel saves for its adjoint, which then need not run these loops again.

The kernel stores them to arrays of the launch's shape, one element a thread; the adjoint loads them
where it would run the loop. An adjoint that needs more of a loop than its results, such as the
values that it carried, still runs it. What is computed from a result alone can be saved in its
place: of ``tanh(total)``, the adjoint needs the hyperbolic tangent, not the total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Eqn, Func, Region, Var
from kernelcore.ir.op import STORE, TID, OpKind
from kernelcore.ir.walk import used_atoms
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.access.trips import known_trips

# A loop with fewer iterations costs less than passing its results through memory.
FEW_ITERATIONS = 16
# A thread that saves more writes as much as it computes.
MOST_RESULTS = 4


def results_of_loops(func: Func) -> list[Var]:
    """What loops of ``func`` have computed in the end, if it is worth saving."""
    return [v for eqn in func.body.eqns if _is_worth_saving(eqn) for v in eqn.outputs]


def functions_of(func: Func, results: Sequence[Var]) -> Mapping[Var, Var]:
    """By Var of ``results``: the last float of a chain, each computed from the one before alone.

    In ``y[i] = tanh(total * 0.5)`` it is the hyperbolic tangent for ``total``. A chain begins with
    the only result of a loop, and nothing else uses what is before its end, so that the adjoint may
    do without that.
    """
    only_results = {
        eqn.outputs[0] for eqn in func.body.eqns if eqn.regions and len(eqn.outputs) == 1
    }
    uses = Counter(a for eqn in func.body.eqns for a in used_atoms(eqn))
    # By the newest float that is computed from a result: this result.
    newest: dict[Var, Var] = {v: v for v in results if v in only_results}
    for eqn in func.body.eqns:
        operands = [a for a in eqn.inputs if isinstance(a, Var)]
        if eqn.op.kind is OpKind.PURE and len(operands) == 1 and uses[operands[0]] == 1:
            (made,) = eqn.outputs
            if operands[0] in newest and isinstance(made.type, Scalar) and made.type.is_float:
                newest[made] = newest.pop(operands[0])
    return {result: made for made, result in newest.items() if made is not result}


def with_saved(func: Func, rank: int, values: Sequence[Var]) -> Func:
    """``func`` with parameters behind its own, to which threads store ``values``, in this order.

    Args:
        func: A kernel.
        rank: The dimensions of its launch.
        values: Vars outside of loops and branches.
    """
    names = {v: v.name or eqn.op.name for eqn in func.body.eqns for v in eqn.outputs}
    arrays: dict[Var, Var] = {}
    for value in values:
        assert isinstance(value.type, Scalar)
        arrays[value] = Var(ArrayType(value.type, rank), f"saved_{names[value]}")
    builder = Builder()
    eqns: list[Eqn] = []
    with builder.into(eqns):
        index = [builder.emit(TID, axis=axis) for axis in range(rank)]
        for eqn in func.body.eqns:
            builder.append(eqn)
            builder.loc = eqn.loc
            for value in eqn.outputs:
                if value in arrays:
                    builder.emit_effect(STORE, arrays[value], *index, value)
    params = (*func.params, *arrays.values())
    locs = (*(func.param_loc(i) for i in range(len(func.params))), *([func.loc] * len(arrays)))
    return replace(func, body=Region(params, tuple(eqns), func.body.yields), param_locs=locs)


def _is_worth_saving(eqn: Eqn) -> bool:
    if eqn.op.kind is not OpKind.FOR or not 0 < len(eqn.outputs) <= MOST_RESULTS:
        return False
    known = known_trips(eqn)
    return known is None or known > FEW_ITERATIONS
