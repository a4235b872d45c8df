"""Which overload a call on the host means."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from kernelcore.types import (
    SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    StructType,
    TypeClass,
    type_of,
)

# How well an argument fits; None is not at all.
_EXACT, _WEAK, _PATTERN, _ANY = range(4)
_BY_NUMPY: dict[type[Any], Scalar] = {s.numpy.type: s for s in SCALARS}


def choose(
    pyfuncs: Sequence[Callable[..., Any]], args: Sequence[Any], keywords: Mapping[str, Any]
) -> int | None:
    """The position of the function whose annotations fit best; of equals, the first."""
    ranks = [_rank(pyfunc, args, keywords) for pyfunc in pyfuncs]
    fitting = [(rank, k) for k, rank in enumerate(ranks) if rank is not None]
    return min(fitting)[1] if fitting else None


def _rank(
    pyfunc: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[int, ...] | None:
    signature = inspect.signature(pyfunc)
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError:
        return None
    annotations = inspect.get_annotations(pyfunc, eval_str=True)
    named: dict[Any, object] = {}
    ranks: list[int] = []
    for name, value in bound.arguments.items():
        rank = _fit(annotations.get(name, Any), value, named)
        if rank is None:
            return None
        ranks.append(rank)
    return tuple(ranks)


def _fit(wanted: object, value: object, named: dict[Any, object]) -> int | None:
    if wanted is Any:
        return _ANY
    found = _host_type(value)
    if isinstance(wanted, TypeVar):
        known = named.setdefault(wanted, found)
        if found is not None and known is not None and found != known:
            return None
        bounds = wanted.__constraints__ or (wanted.__bound__ or Any,)
        ranks = [r for b in bounds if (r := _fit(b, value, named)) is not None]
        return min(ranks, default=None)
    target = type_of(wanted)
    match target:
        case Scalar() | TypeClass():
            return _scalar_fit(target, value, found)
        case Dense() if isinstance(found, Dense):
            return _dense_fit(target, found)
        case ArrayOf(ndim=ndim):
            return _PATTERN if found is None and getattr(value, "ndim", None) == ndim else None
        case StructType():
            return _EXACT if found == target else None
        case None if callable(value):
            return _PATTERN
        case _:
            return None


def _host_type(value: object) -> Scalar | Dense | StructType | None:
    """The type of ``value``; None for Python's own numbers, which take any, and for others."""
    if isinstance(value, np.generic):
        return _BY_NUMPY.get(type(cast("np.generic", value)))
    found = None if isinstance(value, bool | int | float) else type_of(type(value))
    return found if isinstance(found, Scalar | Dense | StructType) else None


def _scalar_fit(
    target: Scalar | TypeClass, value: object, found: Scalar | Dense | StructType | None
) -> int | None:
    members = (target,) if isinstance(target, Scalar) else target.members
    if isinstance(found, Scalar):
        rank = _EXACT if isinstance(target, Scalar) else _PATTERN
        return rank if found in members else None
    if found is not None or not isinstance(value, bool | int | float):
        return None
    if isinstance(value, bool):
        kinds = ("bool",)
    else:
        kinds = ("int", "uint", "float") if isinstance(value, int) else ("float",)
    return _WEAK if any(m.kind in kinds for m in members) else None


def _dense_fit(target: Dense, found: Dense) -> int | None:
    if target == found:
        return _EXACT
    wanted = target.dtype
    dtypes = wanted.members if isinstance(wanted, TypeClass) else (wanted,)
    alike = target.kind == found.kind and len(target.shape) == len(found.shape)
    sizes = zip(target.shape, found.shape, strict=False)
    fits = alike and found.scalar in dtypes and all(a in (None, b) for a, b in sizes)
    return _PATTERN if fits else None
