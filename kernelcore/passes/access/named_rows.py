"""Named rows: arrays whose last index is a constant wherever a kernel uses them, as ``x[i, 0]``."""

from __future__ import annotations

from collections.abc import Mapping

from kernelcore.base.dataclass import replace
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import array_type, clone_eqn, element_indices, substitute, walk_eqns
from kernelcore.language.types import ArrayType

_ACCESSES = frozenset({OpKind.LOAD, OpKind.STORE, OpKind.ATOMIC_ADD})


def with_rows(func: Func) -> Func:
    """``func`` with the types of its arrays saying how long the rows are that it names.

    Derived kernels, which may name less of a row, inherit the types.
    """
    types: dict[Var, ArrayType] = {}
    for param, places in named_places(func).items():
        type_ = param.type
        assert isinstance(type_, ArrayType)
        is_whole = len(places) > 1 and places == set(range(len(places)))
        if is_whole and len(places) > type_.row:
            types[param] = replace(type_, row=len(places))
    return with_types(func, types)


def with_types(func: Func, types: Mapping[Var, ArrayType]) -> Func:
    """``func`` with other types of some of its parameters."""
    if not types:
        return func
    typed = {p: Var(type_, p.name) for p, type_ in types.items()}
    params, env = tuple(typed.get(p, p) for p in func.params), dict[Var, Atom](typed)
    eqns = tuple(clone_eqn(eqn, env) for eqn in func.body.eqns)
    yields = tuple(substitute(a, env) for a in func.body.yields)
    return replace(func, body=Region(params, eqns, yields))


def named_places(func: Func) -> dict[Var, set[int]]:
    """The last indices of arrays of numbers, where these are constants wherever they are used."""
    found: dict[Var, set[int]] = {}
    for param in func.params:
        if isinstance(param.type, ArrayType) and param.type.ndim > 1 and not param.type.components:
            found[param] = set()
    for eqn in walk_eqns(func.body) if found else ():
        for at, atom in enumerate(eqn.inputs):
            if not (isinstance(atom, Var) and atom in found) or eqn.op.kind is OpKind.DIM:
                continue
            place = _last_index(eqn) if at == 0 else None
            if place is None:
                del found[atom]
            else:
                found[atom].add(place)
    return found


def _last_index(eqn: Eqn) -> int | None:
    if eqn.op.kind not in _ACCESSES or not isinstance(eqn.inputs[0], Var):
        return None
    last = element_indices(eqn)[array_type(eqn).ndim - 1]
    return int(last.value) if isinstance(last, Const) and last.value >= 0 else None
