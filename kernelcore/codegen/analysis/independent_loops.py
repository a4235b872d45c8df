"""Independent loops: no iteration reads or writes an element that another iteration writes.

Such a loop can be vectorised with other loops inside, which all lanes run together: what does not
depend on its index is computed once for all lanes (outer-loop vectorisation).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kernelcore.builtins.reference import trip_count
from kernelcore.codegen.analysis.uniformity import Strides, iteration_strides, stride_of
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, REPEATABLE, OpKind
from kernelcore.ir.walk import array_type, element_indices, walk_eqns, walk_paths

_KINDS = REPEATABLE | {OpKind.LOAD, OpKind.STORE, OpKind.IF, OpKind.FOR}


@dataclass(frozen=True, slots=True)
class IndependentLoop:
    """A loop whose iterations can be lanes, without sums.

    Attributes:
        body: Its body; the parameter is the index, which grows by 1.
        strides: By how much the values of ``body`` grow from iteration to iteration.
        apart: Pairs of arrays, one that the loop stores and another that it accesses, which must
            share no memory.
        equal: Pairs that may be one array; there are none.
    """

    body: Region
    strides: Strides
    apart: tuple[tuple[Var, Var], ...]
    equal: tuple[tuple[Var, Var], ...] = ()


def independent_loops(func: Func, least_trips: int) -> Mapping[Eqn, IndependentLoop]:
    """The outermost loops of ``func`` whose iterations are independent, and access neighbours.

    Loops that are known to have fewer than ``least_trips`` iterations are left out.
    """
    found: dict[Eqn, IndependentLoop] = {}
    for eqn, path in walk_paths(func.body):
        if eqn.op.kind is not OpKind.FOR or any(around in found for around, _ in path):
            continue
        loop = _independent(eqn) if _may_have(eqn, least_trips) else None
        if loop is not None:
            found[eqn] = loop
    return found


def _may_have(loop: Eqn, trips: int) -> bool:
    """Whether ``loop`` may have that many iterations."""
    bounds = [int(a.value) for a in loop.inputs[:3] if isinstance(a, Const)]
    return len(bounds) < 3 or trip_count(*bounds) >= trips


def _independent(loop: Eqn) -> IndependentLoop | None:
    (body,), step = loop.regions, loop.inputs[2]
    index, *carried = body.params
    if carried or not isinstance(step, Const) or step.value != 1:
        return None
    eqns = list(walk_eqns(body))
    if any(eqn.op.kind not in _KINDS for eqn in eqns):
        return None
    accesses, strides = [eqn for eqn in eqns if eqn.op.kind in ACCESSES], iteration_strides(body, 1)
    if not all(_is_adjacent(eqn, strides) for eqn in accesses):
        return None
    stored = dict.fromkeys(eqn.inputs[0] for eqn in accesses if eqn.op.kind is OpKind.STORE)
    # A value that an iteration computes once, and that is 1 more in the next: it differs in all.
    own = {index, *(out for eqn in body.eqns for out in eqn.outputs)}
    apart = {v for v in own if strides[v] == 1}
    if not stored or not all(_is_decided(accesses, array, apart) for array in stored):
        return None
    loops = [eqn for eqn in eqns if eqn.op.kind is OpKind.FOR]
    if any(stride_of(strides, a) != 0 for eqn in loops for a in eqn.inputs[:3]):
        return None
    arrays = dict.fromkeys(eqn.inputs[0] for eqn in accesses)
    pairs = [(x, y) for x in stored for y in arrays if x is not y]
    return IndependentLoop(
        body, strides, tuple((x, y) for x, y in pairs if isinstance(x, Var) and isinstance(y, Var))
    )


def _is_decided(accesses: Sequence[Eqn], array: Atom, apart: Collection[Atom]) -> bool:
    """Whether all accesses of ``array`` have the same one of ``apart`` as index of some axis."""
    places = [element_indices(eqn) for eqn in accesses if eqn.inputs[0] is array]
    axes = (set(axis) for axis in zip(*places, strict=True))
    return any(len(axis) == 1 and axis <= set(apart) for axis in axes)


def _is_adjacent(eqn: Eqn, strides: Strides) -> bool:
    """Whether iterations share the element of ``eqn``, or access one beside the other."""
    found = [stride_of(strides, i) for i in element_indices(eqn)]
    is_shared = all(s == 0 for s in found)
    is_next = found[-1:] == [1] and not any(s != 0 for s in found[:-1])
    return is_shared or (is_next and not array_type(eqn).components)
