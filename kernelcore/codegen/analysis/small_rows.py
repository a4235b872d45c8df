"""Small rows, whose elements a kernel names by constants, as the components of one element.

Gangs load and store such elements as they do those of arrays of vectors: the rows of all lanes
at once, sorted in registers, or a row per lane. Code for packed arrays then needs rows of just this
length; others run that for any strides (docs/decisions/291).
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from kernelcore.base.dataclass import replace
from kernelcore.codegen.analysis.component_groups import (
    MAX_INTERLEAVED,
    rows_loaded,
    rows_stored,
)
from kernelcore.codegen.analysis.uniformity import lane_strides, stride_of
from kernelcore.ir.core import Atom, Func
from kernelcore.ir.op import ACCESSES
from kernelcore.ir.walk import array_type, element_indices, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.named_rows import are_within, named_places, with_types


@lru_cache(maxsize=4)
def rows_as_elements(func: Func) -> Func:
    """``func`` with arrays of vectors in place of those of small rows that lanes access apart."""
    types: dict[Atom, ArrayType] = {}
    for param, places in named_places(func).items():
        type_ = param.type
        assert isinstance(type_, ArrayType)
        if prod(type_.named) <= MAX_INTERLEAVED and are_within(places, type_.named):
            types[param] = replace(type_, components=type_.named)
    if not types:
        return func
    every = with_types(func, types)
    gaining = _gaining(every)
    found = zip(func.params, every.params, strict=True)
    return with_types(func, {p: types[p] for p, other in found if p in types and other in gaining})


def _gaining(func: Func) -> set[Atom]:
    """The arrays of ``func`` whose elements lanes access apart: next to each other, or as rows."""
    strides, rows = lane_strides(func), rows_loaded(func) | rows_stored(func)
    found: set[Atom] = set()
    for eqn in walk_eqns(func.body):
        if eqn.op.kind in ACCESSES:
            outer = element_indices(eqn)[: array_type(eqn).outer_ndim]
            if any(stride_of(strides, i) != 0 for i in (outer if eqn in rows else outer[-1:])):
                found.add(eqn.inputs[0])
    return found
