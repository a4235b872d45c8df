"""Results of loops that a kernel saves for its adjoint, which then need not run these loops again.

The kernel stores them to arrays of the launch's shape, one element a thread; the adjoint loads them
where it would run the loop. An adjoint that needs more of a loop than its results, such as the
values that it carried, still runs it. What is computed from a result alone can be saved in its
place: of ``tanh(total)``, the adjoint needs the hyperbolic tangent, not the total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.builtins.reference import trip_count
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import STORE, TID, OpKind
from kernelcore.ir.walk import used_atoms
from kernelcore.language.types import ArrayType, Scalar

# A loop with fewer iterations costs less than passing its results through memory.
FEW_ITERATIONS = 16
# A thread that saves more writes as much as it computes.
MOST_RESULTS = 4


def with_saved(func: Func, rank: int, *, has_functions: bool = False) -> Func:
    """``func`` with parameters behind its own, to which threads store the results of their loops.

    Args:
        func: A kernel.
        rank: The dimensions of its launch.
        has_functions: Whether to store, too, what is computed from such a result alone and nothing
            else uses: the last of several such values.
    """
    saved = [v for eqn in func.body.eqns if _is_worth_saving(eqn) for v in eqn.outputs]
    if has_functions:
        saved += _last_functions(func, saved)
    if not saved:
        return func
    builder = Builder()
    eqns: list[Eqn] = []
    arrays: list[Var] = []
    with builder.into(eqns):
        index = [builder.emit(TID, axis=axis) for axis in range(rank)]
        for eqn in func.body.eqns:
            builder.append(eqn)
            builder.loc = eqn.loc
            for value in eqn.outputs:
                if value in saved:
                    assert isinstance(value.type, Scalar)
                    array = Var(ArrayType(value.type, rank), f"saved_{value.name}")
                    builder.emit_effect(STORE, array, *index, value)
                    arrays.append(array)
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


def _last_functions(func: Func, values: Sequence[Var]) -> list[Var]:
    """Per Var of ``values`` the last float that is computed from it alone, if there is one.

    Nothing else uses the Var, or a float on the way to the last one.
    """
    uses = Counter(a for eqn in func.body.eqns for a in used_atoms(eqn))
    # Per float that is so computed: what it is computed from.
    made: dict[Var, Atom] = {}
    for eqn in func.body.eqns:
        operands = [a for a in eqn.inputs if not isinstance(a, Const)]
        if eqn.op.kind is not OpKind.PURE or len(operands) != 1 or uses[operands[0]] != 1:
            continue
        (result,) = eqn.outputs
        is_float = isinstance(result.type, Scalar) and result.type.is_float
        if is_float and (operands[0] in values or operands[0] in made):
            made[result] = operands[0]
    before = set(made.values())
    return [v for v in made if v not in before]
