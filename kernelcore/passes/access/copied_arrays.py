"""Arrays that a kernel fills with the elements of another array, which it only reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import ACCESSES, OpKind
from kernelcore.ir.walk import array_type, atoms_in, walk_eqns
from kernelcore.passes.access.fusion import grid_axes

# The value that such an access writes follows the array and the indices.
_WRITES = (OpKind.STORE, OpKind.ATOMIC_ADD)


def copied_arrays(func: Func) -> Mapping[int, int]:
    """Parameters by which parameter's elements they get, where a launch goes over all of them.

    The kernel may add the elements, to an array that holds zeros.
    """
    accesses: dict[Atom, list[Eqn]] = {p: [] for p in func.params}
    for eqn in walk_eqns(func.body):
        if eqn.op.kind is OpKind.SNIPPET:
            return {}
        if eqn.op.kind in ACCESSES and eqn.inputs[0] in accesses:
            accesses[eqn.inputs[0]].append(eqn)
    loads: dict[Atom, Eqn] = {
        eqn.out: eqn
        for found in accesses.values()
        if all(eqn.op.kind is OpKind.LOAD for eqn in found)
        for eqn in found
    }
    copied: dict[int, int] = {}
    for k, param in enumerate(func.params):
        source = _source(func, accesses[param], loads)
        if source is not None and source.type == param.type:
            copied[k] = func.params.index(source)
    return copied


def _source(func: Func, writes: Sequence[Eqn], loads: Mapping[Atom, Eqn]) -> Var | None:
    """The array whose elements ``writes``, all accesses of an array, give it; None if another."""
    # Every thread makes the accesses that are in no region.
    if not writes or not all(e.op.kind in _WRITES and e in func.body.eqns for e in writes):
        return None
    used, axes = atoms_in(func.body), grid_axes(func.body)
    if any(out in used for eqn in writes for out in eqn.outputs):
        return None
    type_ = array_type(writes[0])
    outer = type_.outer_ndim
    sources: set[Atom] = set()
    components: set[tuple[Atom, ...]] = set()
    for eqn in writes:
        index, value = eqn.inputs[1 : 1 + type_.ndim], eqn.inputs[1 + type_.ndim]
        load = loads.get(value)
        is_own = [axes.get(i) for i in index[:outer]] == list(range(func.rank))
        if load is None or load.inputs[1:] != index or not is_own:
            return None
        sources.add(load.inputs[0])
        components.add(index[outer:])
    is_each_once = len(components) == len(writes) == prod(type_.components)
    if not is_each_once or not all(isinstance(i, Const) for c in components for i in c):
        return None
    source = sources.pop()
    return source if not sources and isinstance(source, Var) else None
