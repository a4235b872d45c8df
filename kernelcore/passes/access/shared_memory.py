"""Arrays that a kernel may read and write in the same memory."""

from __future__ import annotations

from kernelcore.ir.core import Atom
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access.effects import AccessMap, shares_loop


def may_share_memory(accesses: AccessMap, read: Atom, written: Atom) -> bool:
    """Whether elements of ``written`` may take the place of those of ``read``, an array alike.

    A thread then touches one element of both arrays, that no other thread touches, and loads all
    it needs of it before it writes.
    """
    if read in accesses.snippets or written in accesses.snippets or not accesses.owned(read):
        return False
    loads, writes = accesses.of(read), accesses.of(written)
    if any(a.eqn.op.kind is not OpKind.LOAD for a in loads):
        return False
    if len({accesses.index_keys(a)[: a.outer_ndim] for a in (*loads, *writes)}) > 1:
        return False
    place = {eqn: n for n, eqn in enumerate(walk_eqns(accesses.func.body))}
    return not any(
        place[load.eqn] > place[write.eqn] or shares_loop(load, write)
        for load in loads
        for write in writes
    )
