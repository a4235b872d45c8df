"""Gradients of atomic minima and maxima: they go to the arguments that attained the extremum.

After a launch, an element holds its final value, and every thread that attained it ties. One more
launch counts the ties; with the tie weight 1 / count, the final value is a weighted sum of the
tied values, which has derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelGradError
from kernelcore.builtins.arithmetic import max as max_builtin
from kernelcore.builtins.arithmetic import min as min_builtin
from kernelcore.builtins.arithmetic import mul
from kernelcore.builtins.logic import equal, logical_and, logical_or, not_equal
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMIC_ADD, LOAD, OpKind
from kernelcore.ir.walk import atoms_in, rewrite, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, int32
from kernelcore.passes.access.effects import Access, AccessMap, disjoint
from kernelcore.passes.autodiff.activity import active_values, without_messages
from kernelcore.passes.autodiff.rules import own_code, replayed_values
from kernelcore.passes.simplify.dead_code import dce, without_checks

_UPDATES = (min_builtin.op, max_builtin.op)


def extremum_arrays(func: Func, sources: Sequence[int]) -> tuple[int, ...]:
    """Float arrays that ``func`` only updates by atomic minima or maxima whose result is unused.

    Only those that depend on the parameters ``sources``; such an array depends on itself.
    """
    func = without_checks(func)
    eqns = list(walk_eqns(func.body))
    if not any(e.op.kind is OpKind.ATOMIC and e.attrs["update"] in _UPDATES for e in eqns):
        return ()
    accesses = AccessMap(func)
    hidden = own_code(func)
    used = atoms_in(func.body)
    found = [
        i
        for i, param in enumerate(func.params)
        if isinstance(param.type, ArrayType)
        and param.type.dtype.is_float
        and param not in accesses.snippets
        and _are_extrema(accesses.of(param))
        and not any(a.eqn in hidden or a.eqn.out in used for a in accesses.of(param))
    ]
    reached = active_values(func, [func.params[i] for i in sources]) if found else set[Atom]()
    return tuple(i for i in found if func.params[i] in reached)


def _are_extrema(accesses: Sequence[Access]) -> bool:
    """Whether ``accesses`` of one array give the same element in any order."""
    if not accesses:
        return False
    if any(
        a.eqn.op.kind is not OpKind.ATOMIC or a.eqn.attrs["update"] not in _UPDATES
        for a in accesses
    ):
        return False
    return all(
        a.eqn.attrs["update"] is b.eqn.attrs["update"] or disjoint(a, b)
        for n, a in enumerate(accesses)
        for b in accesses[n + 1 :]
    )


def count_attaining(func: Func, chosen: Sequence[int]) -> Func:
    """A kernel that counts the updates of the arrays ``chosen`` that attain their final values.

    It has two more parameters per array: its final values, and int32 counts, which are added to.
    """
    func = without_checks(func)
    final, counts = _like(func, chosen, "final"), _like(func, chosen, "count", int32)

    def count(builder: Builder, eqn: Eqn) -> None:
        builder.emit(ATOMIC_ADD, counts[eqn.inputs[0]], *eqn.inputs[1:-1], Const(int32, 1))

    body = _rewritten(func.body, final, count)
    made = _with_params(func, "count", [*final.values(), *counts.values()], body)
    return dce(without_messages(made), counts.values())


def weighted_sums(func: Func, chosen: Sequence[int]) -> Func:
    """``func`` with weighted sums in place of the atomic minima and maxima of ``chosen``.

    It has two more parameters per array: its final values, and the tie weight of each element.
    Where the array starts from its own weighted value, the sums equal the final values.

    Raises:
        KernelGradError: Derivatives compute an argument of an update in another way than ``func``.
    """
    func = without_checks(func)
    _refuse_replays(func, chosen)
    final, weight = _like(func, chosen, "final"), _like(func, chosen, "tie_weight")

    def add(builder: Builder, eqn: Eqn) -> None:
        array, *indices, value = eqn.inputs
        part = builder.emit(mul.op, value, builder.emit(LOAD, weight[array], *indices))
        builder.emit(ATOMIC_ADD, array, *indices, part)

    body = _rewritten(func.body, final, add)
    return _with_params(func, "weighted_sums", [*final.values(), *weight.values()], body)


def _refuse_replays(func: Func, chosen: Sequence[int]) -> None:
    """Refuse arguments that depend on replays: other last bits, and no thread attains the extremum.

    Raises:
        KernelGradError: Naming the update.
    """
    replayed = replayed_values(func)
    if not replayed:
        return
    reached, accesses = active_values(func, replayed), AccessMap(func)
    for update in (a.eqn for i in chosen for a in accesses.of(func.params[i])):
        if update.inputs[-1] in reached:
            raise KernelGradError(
                "the gradient of an extremum goes to the threads whose values equal it, and this "
                "value depends on a function with a replay, which may round otherwise",
                update.loc,
                "give the function its derivative with @kc.func_grad, in place of the replay",
            )


def _like(
    func: Func, chosen: Sequence[int], suffix: str, dtype: Scalar | None = None
) -> dict[Atom, Var]:
    """By array in ``chosen``: a new parameter of its shape."""
    found: dict[Atom, Var] = {}
    for array in (func.params[i] for i in chosen):
        assert isinstance(array.type, ArrayType)
        type_ = replace(array.type, dtype=dtype or array.type.dtype)
        found[array] = Var(type_, f"{array.name}_{suffix}")
    return found


def _rewritten(
    region: Region, final: Mapping[Atom, Var], attained: Callable[[Builder, Eqn], None]
) -> Region:
    """``region`` where an update of an array in ``final`` becomes what ``attained`` emits.

    That runs only where the value equals the final one; NaN equals NaN here.
    """

    def visit(eqn: Eqn) -> Eqn | Region:
        if not eqn.inputs or eqn.inputs[0] not in final or eqn.op.kind is not OpKind.ATOMIC:
            return eqn
        builder = Builder()
        builder.loc = eqn.loc
        array, *indices, value = eqn.inputs
        last = builder.emit(LOAD, final[array], *indices)
        both = [builder.emit(not_equal.op, a, a) for a in (value, last)]
        is_same = builder.emit(equal.op, value, last)
        is_same = builder.emit(logical_or.op, is_same, builder.emit(logical_and.op, *both))
        with builder.region() as then:
            attained(builder, eqn)
        builder.emit_if(is_same, Region((), tuple(then)), Region((), ()))
        return Region((), tuple(builder.eqns), eqn.outputs)

    return rewrite(region, visit)


def _with_params(func: Func, suffix: str, params: Sequence[Var], body: Region) -> Func:
    """The kernel ``body``, with ``params`` after those of ``func``."""
    whole = Region((*func.params, *params), body.eqns)
    locs = tuple(func.param_loc(i) for i in range(len(func.params)))
    # A value equals the final one only if it has the bits that it has in ``func``, which is scalar
    # code because of its atomic operations.
    name = f"{func.name}_{suffix}"
    return replace(func, name=name, body=whole, param_locs=locs, keeps_bits=True)
