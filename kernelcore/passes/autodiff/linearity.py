"""Linearity: whether a function is linear in given parameters, and so has a transpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelcore.builtins.arithmetic import add, div, mul, neg, sub
from kernelcore.builtins.logic import where
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import LEADING, slot, walk_eqns
from kernelcore.language.types import Scalar

_PLAIN = frozenset({OpKind.PURE, OpKind.CAST})
_CONTROL = frozenset({OpKind.IF, OpKind.FOR, OpKind.WHILE, OpKind.CUSTOM})
_SUMS = frozenset({add.op, sub.op, neg.op})


def nonlinear_place(func: Func, params: Sequence[Var]) -> Eqn | Func | None:
    """Where ``func``, which has no calls, is not seen to be linear in ``params`` as a whole."""
    dependent = _dependent(func, params)
    for eqn in walk_eqns(func.body):
        if not _is_linear(eqn, dependent):
            return eqn
    return None if _alike(func.body.yields, dependent, True) else func


def _dependent(func: Func, params: Iterable[Var]) -> set[Atom]:
    """All values that depend on ``params``."""
    found: set[Atom] = set(params)
    before = -1
    while before != len(found):
        before = len(found)
        for eqn in walk_eqns(func.body):
            if eqn.op.kind in _CONTROL:
                for targets, sources in _slots(eqn):
                    if any(a in found for a in (*targets, *sources)):
                        found.update(targets)
            elif any(a in found for a in eqn.inputs):
                found.update(eqn.outputs)
    return found


def _slots(eqn: Eqn) -> list[tuple[tuple[Var, ...], tuple[Atom, ...]]]:
    return [slot(eqn, k) for k in range(len(eqn.outputs))]


def _is_linear(eqn: Eqn, dependent: set[Atom]) -> bool:
    if eqn.op.kind in _CONTROL:
        return _is_linear_control(eqn, dependent)
    marks = [a in dependent for a in eqn.inputs]
    if not any(marks):
        return True
    if eqn.op.kind not in _PLAIN or not _is_float(eqn.out):
        return False
    if eqn.op.kind is OpKind.CAST:
        return _is_float(eqn.inputs[0])
    if eqn.op in _SUMS:
        return _alike(eqn.inputs, dependent, True)
    if eqn.op is where.op:
        return not marks[0] and _alike(eqn.inputs[1:], dependent, True)
    if eqn.op is mul.op:
        return not all(marks)
    return eqn.op is div.op and not marks[1]


def _is_linear_control(eqn: Eqn, dependent: set[Atom]) -> bool:
    conditions: list[Atom] = []
    if eqn.op.kind is not OpKind.CUSTOM:
        conditions += eqn.inputs[: LEADING[eqn.op.kind][0]]
    if eqn.op.kind is OpKind.WHILE:
        conditions += eqn.regions[0].yields
    if any(a in dependent for a in conditions):
        return False
    return all(_alike(sources, dependent, out[0] in dependent) for out, sources in _slots(eqn))


def _alike(atoms: Iterable[Atom], dependent: set[Atom], is_needed: bool) -> bool:
    """Whether all of ``atoms`` are linear in the parameters, or zero."""
    zero = (isinstance(a, Const) and a.value == 0 for a in atoms if a not in dependent)
    return not is_needed or all(zero)


def _is_float(atom: Atom) -> bool:
    return isinstance(atom.type, Scalar) and atom.type.is_float
