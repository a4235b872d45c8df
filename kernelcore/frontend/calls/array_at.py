"""``array(ptr=, shape=, dtype=)`` in a kernel: an array whose place is known at run time only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.frontend.scope import Scope, scalar
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.packed_array import packed_array
from kernelcore.frontend.values.value import ArrayView, Static, Value, describe_type
from kernelcore.ir.core import Atom
from kernelcore.language.flatten import leaf_types
from kernelcore.language.types import (
    MAX_ARRAY_DIMS,
    Dense,
    Scalar,
    StructType,
    int32,
    type_of,
    uint64,
)

_USAGE = "write array(ptr=address, shape=(n, m), dtype=float), where address is a uint64"


def array_at(
    scope: Scope, args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None
) -> ArrayView:
    """The packed array of the given shape at an address.

    Raises:
        KernelTypeError: An argument is missing, unknown or of another type.
    """
    if args or set(keywords) != {"ptr", "shape", "dtype"}:
        found = ", ".join(keywords) or "no keywords"
        raise KernelTypeError(
            f"in a kernel array() takes ptr, shape and dtype by keyword, found {found}", loc, _USAGE
        )
    address = scalar(keywords["ptr"], loc)
    if isinstance(address, UntypedLiteral) or address.type != uint64:
        what = "a literal" if isinstance(address, UntypedLiteral) else address.type
        raise KernelTypeError(f"array(): ptr: expected a uint64, found {what}", loc, _USAGE)
    dtype = keywords["dtype"]
    element = type_of(dtype.obj) if isinstance(dtype, Static) else None
    if not isinstance(element, Scalar | Dense | StructType) or not leaf_types(element):
        raise KernelTypeError(
            f"array(): dtype: expected the type of an element, found {describe_type(dtype)}",
            loc,
            "use float, int, bool, or a type such as kc.float64, kc.vec3 or a struct",
        )
    given = keywords["shape"]
    extents = [_extent(scope, e, loc) for e in (given if isinstance(given, tuple) else (given,))]
    if not 1 <= len(extents) <= MAX_ARRAY_DIMS:
        raise KernelTypeError(
            f"array(): shape: expected 1 to {MAX_ARRAY_DIMS} extents, found {len(extents)}",
            loc,
            _USAGE,
        )
    return packed_array(element, address, extents)


def _extent(scope: Scope, value: Value, loc: SrcLoc | None) -> Atom:
    found = scalar(value, loc)
    if isinstance(found, UntypedLiteral):
        return scope.integer(found, int32)
    if not (isinstance(found.type, Scalar) and found.type.is_integer):
        raise KernelTypeError(f"array(): shape: expected integers, found {found.type}", loc, _USAGE)
    return found
