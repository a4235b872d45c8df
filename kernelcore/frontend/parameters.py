"""Parameters of kernels: each is one or more parameters of the IR, taken together again here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.value import ArrayView, Axis, CompositeValue, Value
from kernelcore.ir.core import Const, Var
from kernelcore.ir.op import LOAD
from kernelcore.language.flatten import leaf_offsets, named_leaves
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Scalar,
    SourceType,
    StructType,
    TypeClass,
    int32,
)


def flat_parameters(name: str, type_: SourceType) -> list[Var]:
    """The parameters of the IR that a parameter of ``type_`` consists of."""
    return [Var(leaf, text) for text, leaf in named_leaves(name, type_)]


def parameter_value(scope: Scope, type_: SourceType, params: Iterator[Var]) -> Value:
    """The value of a parameter whose leaves are the next of ``params``; composites are loaded."""
    match type_:
        case Scalar():
            return next(params)
        case Dense():
            array = next(params)
            positions = itertools.product(*(range(n) for n in type_.extents))
            indices = [tuple(Const(int32, k) for k in position) for position in positions]
            return CompositeValue(
                type_, tuple(scope.builder.emit(LOAD, array, *index) for index in indices)
            )
        case StructType(fields=fields):
            return CompositeValue(
                type_, tuple(parameter_value(scope, member, params) for _, member in fields)
            )
        case ArrayOf(element=Scalar() | Dense() | StructType() as element, ndim=ndim):
            arrays = tuple(next(params) for _ in leaf_offsets(element))
            tables = [next(params) if type_.is_indexed else None for _ in range(ndim)]
            return ArrayView(element, arrays, tuple(Axis(table=table) for table in tables))
        case ArrayOf() | TypeClass():
            raise ValueError(f"a parameter of the pattern {type_}")
