"""Which overload a call means: how well arguments fit, and the choice on the host."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar, cast

import numpy as np

from kernelcore.language.types import (
    PYTHON_SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    StructType,
    TypeClass,
    admits,
    boolean,
    scalar_of_numpy,
    type_of,
)


class Rank(IntEnum):
    """How well an argument fits a parameter; lower is better."""

    EXACT = 0
    DEFAULT = 1  # an untyped literal, or a Python number, of its default type
    # An untyped literal or a Python number takes another type, an integer is a condition.
    ADAPTED = 2
    PATTERN = 3
    ANY = 4


def choose(
    pyfuncs: Sequence[Callable[..., Any]], args: Sequence[Any], keywords: Mapping[str, Any]
) -> int | None:
    """The position of the function whose annotations fit best; of equals, the first.

    It is the one that a kernel chooses for such arguments; numbers of Python count as literals.
    """
    ranks = [_rank(pyfunc, args, keywords) for pyfunc in pyfuncs]
    fitting = [(rank, k) for k, rank in enumerate(ranks) if rank is not None]
    return min(fitting)[1] if fitting else None


def total(ranks: Sequence[Rank]) -> tuple[int, int]:
    """How well arguments of ``ranks`` fit together: by the worst, then by all; lower is better."""
    return max(ranks, default=0), sum(ranks)


def _rank(
    pyfunc: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[int, int] | None:
    signature = inspect.signature(pyfunc)
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError:
        return None
    bound.apply_defaults()
    annotations = inspect.get_annotations(pyfunc, eval_str=True)
    named: dict[Any, object] = {}
    ranks: list[Rank] = []
    for name, value in bound.arguments.items():
        rank = _fit(annotations.get(name, Any), value, named)
        if rank is None:
            return None
        ranks.append(rank)
    return total(ranks)


def _fit(wanted: object, value: object, named: dict[Any, object]) -> Rank | None:
    if wanted is Any:
        return Rank.ANY
    found = host_type(value)
    if isinstance(wanted, TypeVar):
        known = named.setdefault(wanted, found)
        if found is not None and known is not None and found != known:
            return None
        bounds = wanted.__constraints__ or (wanted.__bound__ or Any,)
        ranks = [r for b in bounds if (r := _fit(b, value, named)) is not None]
        return max(min(ranks), Rank.PATTERN) if ranks else None
    target = type_of(wanted)
    if target is None:
        return Rank.EXACT if callable(value) else None
    if found is not None:
        if found == target:
            return Rank.EXACT
        if target == boolean and isinstance(found, Scalar) and found.is_integer:
            return Rank.ADAPTED
        return Rank.PATTERN if admits(target, found) else None
    match target:
        case Scalar() | TypeClass():
            return _number_fit(target, value)
        case ArrayOf(ndim=ndim):
            return Rank.PATTERN if getattr(value, "ndim", None) == ndim else None
        case _:
            return None


def host_type(value: object) -> Scalar | Dense | StructType | None:
    """The type of ``value``; None for Python's own numbers, which take any, and for others."""
    if isinstance(value, np.generic):
        return scalar_of_numpy(cast("np.generic", value).dtype)
    found = None if isinstance(value, bool | int | float) else type_of(type(value))
    return found if isinstance(found, Scalar | Dense | StructType) else None


def _number_fit(target: Scalar | TypeClass, value: object) -> Rank | None:
    """How a number of Python fits."""
    members = (target,) if isinstance(target, Scalar) else target.members
    if not isinstance(value, bool | int | float):
        return None
    if target == boolean and isinstance(value, int) and not isinstance(value, bool):
        return Rank.ADAPTED
    if isinstance(value, bool):
        kinds = ("bool",)
    else:
        kinds = ("int", "uint", "float") if isinstance(value, int) else ("float",)
    if not any(m.kind in kinds for m in members):
        return None
    if isinstance(target, TypeClass):
        return Rank.PATTERN
    return Rank.DEFAULT if target == PYTHON_SCALARS.get(type(value)) else Rank.ADAPTED
