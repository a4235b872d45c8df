"""Values as a wanted type: literals adapt, everything else must have it already."""

from __future__ import annotations

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.scope import Scope, scalar
from kernelcore.frontend.values.value import ArrayView, CompositeValue, Value, describe_type
from kernelcore.language.types import ArrayOf, Dense, Scalar, SourceType, StructType


def converted(scope: Scope, value: Value, want: SourceType, loc: SrcLoc | None) -> Value:
    """``value`` as ``want``, one concrete type.

    Raises:
        KernelTypeError: It has another type.
    """
    match want:
        case Scalar():
            if isinstance(value, CompositeValue | ArrayView):
                is_array = isinstance(value, ArrayView)
                remedy = "index the array: a[i]" if is_array else "take a component or a field"
                raise KernelTypeError(f"expected {want}, found {describe_type(value)}", loc, remedy)
            return scope.inference.adapt(scalar(value, loc), want, loc)
        case Dense() | StructType() if isinstance(value, CompositeValue) and value.type == want:
            return value
        case ArrayOf() if isinstance(value, ArrayView) and _fits(value, want):
            return value
        case _:
            remedy = None
            if isinstance(want, Dense) and isinstance(value, CompositeValue):
                alike = isinstance(value.type, Dense) and value.type.shape == want.shape
                remedy = f"{'convert it' if alike else 'make one'}: {want}(...)"
            elif isinstance(want, Dense) and not isinstance(value, ArrayView):
                remedy = f"make one: {want}(...)"
            raise KernelTypeError(
                f"expected {_named(want)}, found {describe_type(value)}", loc, remedy
            )


def _named(want: SourceType) -> str:
    return f"an {want}" if isinstance(want, ArrayOf) else str(want)


def _fits(view: ArrayView, want: ArrayOf) -> bool:
    return view.element == want.element and len(view.free) == want.ndim
