"""Values as a wanted type: literals adapt, everything else must have it already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.scope import Scope, scalar
from kernelcore.frontend.values.value import (
    ArrayValue,
    CompositeValue,
    Value,
    describe_type,
    flatten,
    null_array,
)
from kernelcore.ir.core import Atom
from kernelcore.language.annotations import words_of
from kernelcore.language.types import ArrayOf, Dense, Element, Scalar, SourceType, StructType


def converted(scope: Scope, value: Value, want: SourceType, loc: SrcLoc | None) -> Value:
    """``value`` as ``want``, one concrete type.

    Raises:
        KernelTypeError: It has another type.
    """
    match want:
        case Scalar():
            if isinstance(value, CompositeValue | ArrayValue):
                is_array = isinstance(value, ArrayValue)
                remedy = "index the array: a[i]" if is_array else "take a component or a field"
                raise KernelTypeError(f"expected {want}, found {describe_type(value)}", loc, remedy)
            return scope.inference.adapt(scalar(value, loc), want, loc)
        case Dense() | StructType() if isinstance(value, CompositeValue) and value.type == want:
            return value
        case ArrayOf(element=element, ndim=ndim) if isinstance(value, ArrayValue) and (
            value.element == element and len(value.free) == ndim
        ):
            return value
        case ArrayOf() if value == null_array(want):
            return value
        case _:
            remedy = None
            if isinstance(want, Dense) and isinstance(value, CompositeValue):
                alike = isinstance(value.type, Dense) and value.type.shape == want.shape
                remedy = f"{'convert it' if alike else 'make one'}: {want}(...)"
            elif isinstance(want, Dense) and not isinstance(value, ArrayValue):
                remedy = f"make one: {want}(...)"
            raise KernelTypeError(
                f"expected {words_of(want)}, found {describe_type(value)}", loc, remedy
            )


def converted_atoms(
    scope: Scope, value: Value, want: Element, loc: SrcLoc | None
) -> Sequence[Atom]:
    """The scalars of ``value`` as ``want``, in order.

    Raises:
        KernelTypeError: It has another type.
    """
    _, leaves = flatten(converted(scope, value, want, loc))
    # Conversion gives every literal a type.
    return cast("Sequence[Atom]", leaves)
