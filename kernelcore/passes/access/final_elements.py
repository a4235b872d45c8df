"""Arrays that hold, after a launch, what the launch loaded from them."""

from __future__ import annotations

from kernelcore.ir.core import Atom, Const, Eqn
from kernelcore.ir.op import WRITES, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access.effects import Access, AccessMap
from kernelcore.passes.access.index_offsets import base_and_offset, definitions


def has_what_was_loaded(accesses: AccessMap, array: Atom) -> bool:
    """Whether a launch that starts with the final elements of ``array`` loads what it loaded.

    That is proven of elements that a thread stores before it loads them, and of one loop that
    stores each element once and loads those of iterations before, as a recurrence in time does.
    No other thread touches the elements of a thread.
    """
    found = accesses.of(array)
    writes = [a for a in found if a.eqn.op.kind in WRITES]
    if array in accesses.snippets or any(a.eqn.op.kind is not OpKind.STORE for a in writes):
        return False
    # What is stored before anything is loaded depends on no element of the array.
    first_load = next(n for n, a in enumerate(found) if a.eqn.op.kind is OpKind.LOAD)
    initial = [a for a in found[:first_load] if not a.path]
    rows = {accesses.index_keys(a) for a in found}
    if initial and len(rows) == 1:
        return True
    stores = [a for a in writes if a not in initial]
    return len(stores) == 1 and _is_recurrence(accesses, found, stores[0], initial)


def _is_recurrence(
    accesses: AccessMap, found: list[Access], store: Access, initial: list[Access]
) -> bool:
    """Whether ``store`` runs once per iteration, and no load is of what it stores afterwards."""
    if len(store.path) != 1 or store.path[0][0].op.kind is not OpKind.FOR:
        return False
    loop = store.path[0][0]
    step = loop.inputs[2]
    if not isinstance(step, Const) or step.value <= 0:
        return False
    order = {eqn: n for n, eqn in enumerate(walk_eqns(accesses.func.body))}
    defined = definitions(accesses.func)
    counter = loop.regions[0].params[0]
    places = [base_and_offset(i, defined) for i in store.indices]
    moving = [p for p, (base, _) in enumerate(places) if base is counter]
    fixed = [p for p in range(len(places)) if p not in moving]
    if len(moving) != 1 or not all(_is_fixed(accesses, store.indices[p]) for p in fixed):
        return False
    at = moving[0]

    def is_earlier(load: Access) -> bool:
        """Whether ``load`` is of an element that the loop has stored, or never stores."""
        if loop not in _loops(load):
            return order[load.eqn] > order[store.eqn]
        base, offset = base_and_offset(load.indices[at], defined)
        last = places[at][1]
        if order[load.eqn] < order[store.eqn]:
            last -= 1
        return base is counter and offset <= last

    keys = accesses.index_keys(store)
    loads = [a for a in found if a is not store and a not in initial]
    return all(
        is_earlier(a) and all(accesses.index_keys(a)[p] == keys[p] for p in fixed) for a in loads
    )


def _loops(access: Access) -> list[Eqn]:
    return [eqn for eqn, _ in access.path]


def _is_fixed(accesses: AccessMap, index: Atom) -> bool:
    """Whether ``index`` has one value in all iterations: it is uniform or the launch index."""
    return accesses.is_uniform(index) or accesses.decides(index)
