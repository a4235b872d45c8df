"""Indices as another value plus a constant: neighbours of one element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.builtins.arithmetic import add, sub
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.walk import element_indices, walk_eqns

# Beyond, integers of 32 bits might wrap.
MAX_OFFSET = 1 << 20

# Per axis a value and how far from it the index is.
Position = tuple[tuple[Atom, int], ...]


def definitions(func: Func) -> Mapping[Var, Eqn]:
    """The Eqn that makes each Var of ``func`` besides parameters."""
    return {out: eqn for eqn in walk_eqns(func.body) for out in eqn.outputs}


def computing(atoms: Sequence[Atom], defined: Mapping[Var, Eqn]) -> tuple[Eqn, ...]:
    """The equations, ``defined`` by their results, that ``atoms`` need, in order."""
    found: dict[Eqn, None] = {}

    def visit(atom: Atom) -> None:
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is not None and eqn not in found:
            for source in eqn.inputs:
                visit(source)
            found[eqn] = None

    for atom in atoms:
        visit(atom)
    return tuple(found)


def base_and_offset(index: Atom, defined: Mapping[Var, Eqn]) -> tuple[Atom, int]:
    """The value that ``index`` is as far from as the number says, at most ``MAX_OFFSET``."""
    offset = 0
    while isinstance(index, Var) and index in defined:
        eqn = defined[index]
        if eqn.op not in (add.op, sub.op):
            break
        first, second = eqn.inputs
        if eqn.op is add.op and isinstance(first, Const):
            first, second = second, first
        if not isinstance(second, Const):
            break
        moved = offset + int(second.value if eqn.op is add.op else -second.value)
        if abs(moved) > MAX_OFFSET:
            break
        index, offset = first, moved
    return index, offset


def position_of(eqn: Eqn, defined: Mapping[Var, Eqn]) -> Position:
    """Where the access ``eqn`` is."""
    return tuple(base_and_offset(i, defined) for i in element_indices(eqn))
