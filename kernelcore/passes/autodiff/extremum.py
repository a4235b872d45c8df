"""Atomic minima and maxima as sums over the threads whose value remains.

When all threads have run, an element holds the value of the threads that attained it. With these
known, it is their mean, which has derivatives: a launch counts them, another one adds up shares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernelcore.builtins.arithmetic import max as max_builtin
from kernelcore.builtins.arithmetic import min as min_builtin
from kernelcore.builtins.arithmetic import mul
from kernelcore.builtins.logic import equal, logical_and, logical_or, not_equal
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMIC_ADD, LOAD, OpKind
from kernelcore.ir.walk import atoms_in, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, int32
from kernelcore.passes.access.effects import Access, AccessMap, disjoint
from kernelcore.passes.autodiff.activity import active_values, without_messages
from kernelcore.passes.simplify.dead_code import dce

_UPDATES = (min_builtin.op, max_builtin.op)


def extrema(func: Func, sources: Sequence[int]) -> tuple[int, ...]:
    """Float arrays that ``func`` does nothing to but take atomic minima or maxima, unseen.

    Those only that vary with the parameters ``sources``, as such an array does with itself.
    """
    eqns = list(walk_eqns(func.body))
    if not any(e.op.kind is OpKind.ATOMIC and e.attrs["update"] in _UPDATES for e in eqns):
        return ()
    accesses = AccessMap(func)
    # What a function with its own derivative does is for its author to answer for.
    hidden = {e for c in eqns if c.op.kind is OpKind.CUSTOM for e in walk_eqns(c.regions[0])}
    used = atoms_in(func.body)
    found = [
        i
        for i, param in enumerate(func.params)
        if isinstance(param.type, ArrayType)
        and param.type.dtype.is_float
        and param not in accesses.native
        and _are_extrema(accesses.of(param))
        and not any(a.eqn in hidden or a.eqn.out in used for a in accesses.of(param))
    ]
    reached = active_values(func, [func.params[i] for i in sources]) if found else set[Atom]()
    return tuple(i for i in found if func.params[i] in reached)


def _are_extrema(accesses: Sequence[Access]) -> bool:
    """Whether the order of ``accesses`` of one array decides nothing."""
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


def counted(func: Func, chosen: Sequence[int]) -> Func:
    """How many updates by ``func`` attain what remains of the arrays ``chosen``, which it leaves.

    It has two more parameters per array: what remains, and int32 counts, which are added to.
    """
    remained, counts = _like(func, chosen, "remained"), _like(func, chosen, "count", int32)

    def count(builder: Builder, eqn: Eqn) -> None:
        builder.emit(ATOMIC_ADD, counts[eqn.inputs[0]], *eqn.inputs[1:-1], Const(int32, 1))

    body = _rewritten(func.body, remained, count)
    made = _with_params(func, "count", [*remained.values(), *counts.values()], body)
    return dce(without_messages(made), counts.values())


def picked(func: Func, chosen: Sequence[int]) -> Func:
    """``func`` with sums in the place of its atomic minima and maxima of the arrays ``chosen``.

    It has two more parameters per array: what remains, and the share of each value that attains
    it. Where the array starts from its own share, the sums are what ``func`` gives.
    """
    remained, share = _like(func, chosen, "remained"), _like(func, chosen, "share")

    def add(builder: Builder, eqn: Eqn) -> None:
        array, *indices, value = eqn.inputs
        part = builder.emit(mul.op, value, builder.emit(LOAD, share[array], *indices))
        builder.emit(ATOMIC_ADD, array, *indices, part)

    body = _rewritten(func.body, remained, add)
    return _with_params(func, "picked", [*remained.values(), *share.values()], body)


def shares(
    start: Any, remained: Any, count: Any, cast: Callable[[Any, Any], Any]
) -> tuple[Any, Any]:
    """The share of every value that attained what remained; that of ``start``, 0 if it did not.

    Args:
        start: What the elements held before: an array of any library, or None for zeros.
        remained: What they hold afterwards.
        count: How many updates attained that.
        cast: The first array, with the dtype of the second one.
    """
    if start is None:
        is_same = remained == 0.0
    else:
        is_same = (start == remained) | ((start != start) & (remained != remained))
    is_same = cast(is_same, remained)
    # Where nothing attained it, the share is infinite, so that nothing looks like a derivative.
    share = 1.0 / (cast(count, remained) + is_same)
    return share, share * is_same


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
    region: Region, remained: Mapping[Atom, Var], attained: Callable[[Builder, Eqn], None]
) -> Region:
    """``region`` where an update of an array in ``remained`` does what ``attained`` emits.

    It does so where its value is what remains; of values that are no numbers, where that is none.
    """
    builder = Builder()
    for eqn in region.eqns:
        if not eqn.inputs or eqn.inputs[0] not in remained or eqn.op.kind is not OpKind.ATOMIC:
            regions = tuple(_rewritten(r, remained, attained) for r in eqn.regions)
            builder.append(replace(eqn, regions=regions) if regions else eqn)
            continue
        builder.loc = eqn.loc
        array, *indices, value = eqn.inputs
        last = builder.emit(LOAD, remained[array], *indices)
        both = [builder.emit(not_equal.op, a, a) for a in (value, last)]
        is_same = builder.emit(equal.op, value, last)
        is_same = builder.emit(logical_or.op, is_same, builder.emit(logical_and.op, *both))
        with builder.region() as then:
            attained(builder, eqn)
        builder.emit_if(is_same, Region((), tuple(then)), Region((), ()))
    return Region(region.params, tuple(builder.eqns), region.yields)


def _with_params(func: Func, suffix: str, params: Sequence[Var], body: Region) -> Func:
    """The kernel ``body``, with ``params`` after those of ``func``."""
    whole = Region((*func.params, *params), body.eqns)
    locs = tuple(func.param_loc(i) for i in range(len(func.params)))
    return Func(f"{func.name}_{suffix}", whole, func.grid_rank, func.loc, locs)
