"""Small rows, whose elements a kernel names by constants, as the components of one element.

Gangs load and store such elements as they do those of arrays of vectors: the rows of all lanes
at once, sorted in registers, or a row per lane. Code for packed arrays then needs rows of just this
length; others run that for any strides (docs/decisions/291).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from kernelcore.base.dataclass import replace
from kernelcore.codegen.analysis.component_groups import MAX_INTERLEAVED, rows_apart
from kernelcore.codegen.analysis.uniformity import lane_strides, stride_of
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.ir.op import ACCESSES
from kernelcore.ir.walk import array_type, element_indices, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.named_rows import are_within, named_places, with_types


@lru_cache(maxsize=4)
def rows_as_elements(func: Func) -> Func:
    """``func`` with arrays of vectors in place of small rows that a gang accesses as a whole."""
    types: dict[Var, ArrayType] = {}
    for param, places in named_places(func).items():
        type_ = param.type
        assert isinstance(type_, ArrayType)
        if prod(type_.named) <= MAX_INTERLEAVED and are_within(places, type_.named):
            types[param] = replace(type_, components=type_.named)
    if not types:
        return func
    every = with_types(func, types)
    whole = _accessed_whole(every)
    found = zip(func.params, every.params, strict=True)
    return with_types(func, {p: types[p] for p, other in found if p in types and other in whole})


def _accessed_whole(func: Func) -> set[Atom]:
    """The arrays whose elements a gang accesses whole: neighbouring ones, or a row per lane."""
    strides, rows = lane_strides(func), rows_apart(func)
    found: set[Atom] = set()
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in ACCESSES:
            outer = element_indices(eqn)[: array_type(eqn).outer_ndim]
            if any(stride_of(strides, i) != 0 for i in (outer if eqn in rows else outer[-1:])):
                found.add(eqn.inputs[0])
    return found
