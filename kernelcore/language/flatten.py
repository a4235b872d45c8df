"""The parameters of the IR that a parameter of the language stands for: their names and types."""

from __future__ import annotations

from kernelcore.language.types import (
    ArrayOf,
    ArrayType,
    Dense,
    Scalar,
    SourceType,
    StructType,
    int32,
)


def leaf_names(name: str, type_: SourceType) -> list[str]:
    """The names of the IR parameters of a parameter: ``s.pos``, ``a.mass``, ``a.indices[0]``."""
    match type_:
        case StructType():
            return [
                leaf for n, member in type_.fields for leaf in leaf_names(f"{name}.{n}", member)
            ]
        case ArrayOf(element=element, ndim=ndim, is_indexed=is_indexed):
            data = leaf_names(name, element) if isinstance(element, StructType) else [name]
            return data + [f"{name}.indices[{k}]" for k in range(ndim if is_indexed else 0)]
        case _:
            return [name]


def leaf_types(type_: SourceType) -> list[Scalar | ArrayType]:
    """The types of the IR parameters of a parameter of the concrete type ``type_``."""
    match type_:
        case Scalar():
            return [type_]
        case Dense():
            return [ArrayType(type_.scalar, len(type_.extents), type_.extents)]
        case StructType():
            return [leaf for _, member in type_.fields for leaf in leaf_types(member)]
        case ArrayOf(element=Scalar() | Dense() | StructType() as element, ndim=ndim):
            data: list[Scalar | ArrayType] = [_with_dims(t, ndim) for t in leaf_types(element)]
            indices = [ArrayType(int32, 1)] * (ndim if type_.is_indexed else 0)
            return data + indices
        case _:
            raise AssertionError(f"{type_} is a pattern")


def scalars_of(type_: SourceType | ArrayType) -> tuple[Scalar, ...]:
    """The scalars of a value of ``type_``, in order; arrays have none."""
    match type_:
        case Scalar():
            return (type_,)
        case Dense():
            return (type_.scalar,) * type_.size
        case StructType(fields=fields):
            return tuple(s for _, member in fields for s in scalars_of(member))
        case _:
            return ()


def _with_dims(leaf: Scalar | ArrayType, ndim: int) -> ArrayType:
    """An array of ``ndim`` dimensions with elements like ``leaf``."""
    if isinstance(leaf, Scalar):
        return ArrayType(leaf, ndim)
    return ArrayType(leaf.dtype, ndim + leaf.ndim, leaf.components)
