"""Small rows, whose elements a kernel names by constants, as the components of one element.

Gangs load and store such elements as they do those of arrays of vectors: the rows of all lanes
at once, sorted in registers. Code for packed arrays then needs rows of just this length; others
run that for any strides (docs/decisions/291).
"""

from __future__ import annotations

from functools import lru_cache

from kernelcore.base.dataclass import replace
from kernelcore.codegen.analysis.uniformity import lane_strides, stride_of
from kernelcore.ir.core import Func, Var
from kernelcore.ir.op import ACCESSES
from kernelcore.ir.walk import element_indices, walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.access.named_rows import named_places, with_types

# Longer ones are not sorted in registers.
MOST_IN_ROW = 16


@lru_cache(maxsize=4)
def rows_as_elements(func: Func) -> Func:
    """``func`` with arrays of vectors in place of those of small rows that lanes access apart."""
    types: dict[Var, ArrayType] = {}
    for param, places in named_places(func).items():
        type_ = param.type
        assert isinstance(type_, ArrayType)
        if max(places, default=0) < type_.row <= MOST_IN_ROW:
            types[param] = replace(type_, components=(type_.row,))
    if not types:
        return func
    strides = lane_strides(func)
    moving = {
        eqn.inputs[0]
        for eqn in walk_eqns(func.body)
        if eqn.op.kind in ACCESSES and any(stride_of(strides, i) != 0 for i in element_indices(eqn))
    }
    return with_types(func, {p: type_ for p, type_ in types.items() if p in moving})
