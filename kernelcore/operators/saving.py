"""Operations that save results of loops for their adjoints, which then need not run these again."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.dataclass import replace
from kernelcore.compiler.launch_descriptor import Binding, Role
from kernelcore.ir.core import Func, Var
from kernelcore.ir.op import LOOPS
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.effect import Effect
from kernelcore.language.types import ArrayType
from kernelcore.operators.derive import Assembly, DerivedOperation
from kernelcore.operators.operation import Operation, Result
from kernelcore.operators.primal import zero_fill
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.autodiff import saved_results
from kernelcore.passes.autodiff.rules import replayed_values


def saving(op: Operation, wrt: Sequence[int]) -> Operation | None:
    """``op`` with more visible results, by which its adjoint is cheaper; None if there are none.

    They are what threads have at the end of loops that the adjoint for ``wrt`` would run again, or
    functions of that.

    Raises:
        KernelGradError: The kernel has no exact derivative.
    """
    return op.once(("saving", tuple(wrt)), lambda: _saving(op, tuple(wrt)))


def vjp_of_saved(op: Operation, wrt: Sequence[int], cotangents: Sequence[int]) -> DerivedOperation:
    """Cotangents of the operands ``wrt``, given those of the visible results ``cotangents``.

    The operands are those of ``op``, the results that only ``saving`` has, then the cotangents in
    order.

    Raises:
        KernelGradError: The kernel has no exact derivative.
    """
    made = saving(op, wrt)
    assert made is not None
    return _vjp_of_saved(op, made, wrt, cotangents)


def _saving(op: Operation, wrt: tuple[int, ...]) -> Operation | None:
    if replayed_values(op.func):
        return None  # The adjoint would compare what it replays with what was saved.
    values, made = saved_results.results_of_loops(op.func), None
    # A loop is spared if all its results are saved: without one that the adjoint does not use, the
    # adjoint may have to run the loop, and use other results less.
    while values:
        made = _Candidate(op, values, wrt)
        if made.used == values:
            break
        values = made.used
    if made is None or not values:
        return None
    for result, function in saved_results.functions_of(op.func, values).items():
        other = _Candidate(op, [function if v is result else v for v in made.used], wrt)
        # An adjoint that needs the result itself runs the loop again.
        if other.loops == made.loops:
            made = other
    return made.operation


class _Candidate:
    """A choice of values to save, and what the adjoint makes of them.

    Attributes:
        operation: The operation with the values as further results.
        used: The values that the adjoint loads.
        loops: How many loops the adjoint runs.
    """

    def __init__(self, op: Operation, values: Sequence[Var], wrt: tuple[int, ...]) -> None:
        func = saved_results.with_saved(op.func, len(op.grid), values)
        self.operation = _with_results(op, func)
        seeds = [j for j, r in enumerate(op.outputs) if r.type.dtype.is_float]
        adjoint = _vjp_of_saved(op, self.operation, wrt, seeds).operation
        first = len(op.operands)
        self.used = [
            v for i, v in enumerate(values) if adjoint.param_of_operand(first + i) is not None
        ]
        self.loops = sum(eqn.op.kind in LOOPS for eqn in walk_eqns(adjoint.func.body))


def _vjp_of_saved(
    op: Operation, made: Operation, wrt: Sequence[int], cotangents: Sequence[int]
) -> DerivedOperation:
    """``vjp_of_saved``, where ``made`` is ``op`` with more visible results."""
    saved = range(op.visible, made.visible)
    key = ("vjp_of_saved", tuple(wrt), tuple(cotangents))
    return made.once(key, lambda: _vjp(made, tuple(wrt), cotangents, saved))


def _vjp(
    op: Operation, wrt: tuple[int, ...], cotangents: Sequence[int], saved: Sequence[int]
) -> DerivedOperation:
    places = {j: len(op.operands) + i for i, j in enumerate((*saved, *cotangents))}
    given, kept = ({j: places[j] for j in which} for which in (cotangents, saved))
    return Assembly(op, given, kept).vjp(wrt)


def _with_results(op: Operation, func: Func) -> Operation:
    """``op`` with the kernel ``func``, whose further parameters are further visible results."""
    accesses, added = AccessMap(func), func.params[len(op.func.params) :]
    results = list(op.outputs)
    bindings = [
        replace(b, result=b.result + len(added)) if b.result >= op.visible else b
        for b in op.bindings
    ]
    for param in added:
        assert isinstance(param.type, ArrayType)
        zero = zero_fill(accesses, param, Effect(stores=True))
        bindings.append(Binding(Role.OUTPUT, -1, len(results), zero))
        results.append(Result(param.name, param.type, op.grid))
    visible = len(results)
    results += op.results[op.visible :]
    return Operation(
        func, op.operands, tuple(results), visible, tuple(bindings), op.grid, op.covered
    )
