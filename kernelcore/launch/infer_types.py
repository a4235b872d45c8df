"""Parameters of kernels, and the types that those of a generic kernel take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.language.annotations import Open, Wanted, bound_of, wanted, words_of
from kernelcore.language.definition import kernel_parameters
from kernelcore.language.overload_resolution import host_type
from kernelcore.language.types import (
    PYTHON_SCALARS,
    SCALARS,
    ArrayOf,
    Dense,
    Scalar,
    SourceType,
    admits,
    is_pattern,
    type_of,
)
from kernelcore.runtime.array.array import Array

_BY_NAME = {s.name: s for s in SCALARS}
# Typed loosely: NumPy leaves the bit width of its scalars open.
_NUMPY_SCALAR: type[Any] = np.generic


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: its name, what its annotation asks for, and where it is declared."""

    name: str
    wanted: Wanted
    loc: SrcLoc | None

    @property
    def type(self) -> SourceType | None:
        """Its type; None if it may have several."""
        if isinstance(self.wanted, Open | TypeVar) or is_pattern(self.wanted):
            return None
        return self.wanted


def parameters(
    pyfunc: Callable[..., Any], types: tuple[SourceType, ...] | None
) -> tuple[Parameter, ...]:
    """The parameters of the kernel ``pyfunc``, of ``types`` if they are given.

    Raises:
        KernelError: An annotation is not in the kernel language.
    """
    found = tuple(Parameter(*row) for row in kernel_parameters(pyfunc))
    if types is None:
        return found
    return tuple(replace(p, wanted=type_) for p, type_ in zip(found, types, strict=True))


def is_leaf(type_: SourceType | None) -> bool:
    """Whether an argument of ``type_`` is taken as it is: a scalar, or an array of no structs."""
    if isinstance(type_, ArrayOf):
        return not (type_.is_indexed or type_.is_flat) and isinstance(type_.element, Scalar | Dense)
    return isinstance(type_, Scalar)


def overload_types(
    name: str, parameters: Sequence[Parameter], types: Sequence[object] | Mapping[str, object]
) -> tuple[SourceType, ...]:
    """``types``, checked against what the parameters ask for.

    Raises:
        KernelTypeError: They do not fit.
    """
    if isinstance(types, Mapping):
        unknown = [k for k in types if k not in {p.name for p in parameters}]
        if unknown:
            raise KernelTypeError(
                f"{name}: overload: no parameter '{unknown[0]}'",
                remedy=f"its parameters are {', '.join(p.name for p in parameters)}",
            )
        rows = [types.get(p.name, p.type) for p in parameters]
    elif not isinstance(types, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelTypeError(
            f"{name}: overload: expected a list of types, found {type(types).__name__}",
            remedy="give one type per parameter, or a mapping from names to types",
        )
    else:
        rows = list(types)
    if len(rows) != len(parameters):
        raise KernelTypeError(
            f"{name}: overload: expected {len(parameters)} types, found {len(rows)}",
            remedy="give one type per parameter, or a mapping from names to types",
        )
    found: list[SourceType] = []
    variables: dict[TypeVar, SourceType] = {}
    for parameter, row in zip(parameters, rows, strict=True):
        type_ = wanted(row)
        if type_ is None or isinstance(type_, Open | TypeVar) or is_pattern(type_):
            raise KernelTypeError(
                f"{name}: overload: parameter '{parameter.name}': expected one type, found {row!r}",
                parameter.loc,
                "give a type such as kc.array[float], kc.vec3 or float",
            )
        known = variables.get(parameter.wanted) if isinstance(parameter.wanted, TypeVar) else None
        asked = words_of(known or parameter.wanted)
        if not _admits(parameter.wanted, type_, variables):
            raise KernelTypeError(
                f"{name}: overload: parameter '{parameter.name}': expected {asked}, found {type_}",
                parameter.loc,
                "give types that fit the annotations; those of one TypeVar are equal",
            )
        found.append(type_)
    return tuple(found)


def _admits(want: Wanted, type_: SourceType, variables: dict[TypeVar, SourceType]) -> bool:
    if isinstance(want, TypeVar):
        known = variables.setdefault(want, type_)
        return known == type_ and any(_admits(w, type_, variables) for w in bound_of(want))
    return want is Open.ANY or (not isinstance(want, Open) and admits(want, type_))


def argument_types(
    name: str, parameters: Sequence[Parameter], args: Sequence[object]
) -> list[SourceType]:
    """The types of the parameters of a generic kernel for arguments of a launch.

    Raises:
        KernelTypeError: Another number of arguments, or one whose type is not known.
    """
    if len(args) != len(parameters):
        text, remedy = wrong_count(name, parameters, len(args))
        raise KernelTypeError(text, remedy=remedy)
    return [
        p.type if p.type is not None else _argument_type(name, p, arg)
        for p, arg in zip(parameters, args, strict=True)
    ]


def wrong_count(name: str, parameters: Sequence[Parameter], found: int) -> tuple[str, str]:
    """What is wrong with another number of arguments than there are parameters, and the remedy."""
    count, names = len(parameters), ", ".join(p.name for p in parameters)
    return (
        f"{name}(): expected {count} argument{'s' * (count != 1)} ({names}), found {found}",
        "pass one argument per parameter, inputs first, then outputs"
        if found
        else f"pass the arguments after the grid: kc.launch({name}, dim, inputs, outputs)",
    )


def input_types(
    name: str, parameters: Sequence[Parameter], given: Mapping[str, object]
) -> list[SourceType]:
    """The types of the parameters of a generic kernel, some of whose arguments are results.

    A result whose type is open has that of the first argument with the same annotation.

    Raises:
        KernelTypeError: An argument has no known type, or no argument tells the type of a result.
    """
    known = {
        p.name: _argument_type(name, p, given[p.name])
        for p in parameters
        if p.type is None and p.name in given
    }

    def type_(parameter: Parameter) -> SourceType:
        if parameter.type is not None:
            return parameter.type
        if parameter.name in known:
            return known[parameter.name]
        for other in parameters:
            if other.name in known and other.wanted == parameter.wanted:
                return known[other.name]
        raise KernelTypeError(
            f"{name}: no argument tells the type of '{parameter.name}': expected one that is also "
            f"annotated as {words_of(parameter.wanted)}",
            parameter.loc,
            "choose the types: kernel.overload({...})",
        )

    return [type_(p) for p in parameters]


def _argument_type(name: str, parameter: Parameter, arg: Any) -> SourceType:
    want = parameter.wanted
    limits = bound_of(want) if isinstance(want, TypeVar) else (want,)
    # What is recorded says what it is: it has no elements to look at.
    found = getattr(arg, "argument_type", None)
    if found is None:
        found = _array_type(limits, arg) if is_array(arg) else _value_type(arg)
    if found is None:
        raise KernelTypeError(
            f"{name}(): argument '{parameter.name}': expected {words_of(want)}, found {_kind(arg)}",
            parameter.loc,
            "give arrays, numbers, vectors and structs, or choose types with kernel.overload(...)",
        )
    return found


def _kind(arg: Any) -> str:
    """An argument in words."""
    return f"an array of {arg.dtype}" if is_array(arg) else type(arg).__name__


def is_array(arg: Any) -> bool:
    """Whether ``arg`` is an array, and no scalar or composite value."""
    is_value = type_of(arg.__class__) is not None or isinstance(arg, _NUMPY_SCALAR)
    return hasattr(arg, "dtype") and hasattr(arg, "shape") and not is_value


def _array_type(limits: Sequence[Wanted], arg: Any) -> SourceType | None:
    """The type of an array as one of ``limits`` has it: the other dimensions are components."""
    if isinstance(arg, Array):
        for limit in limits:
            is_flat = isinstance(limit, ArrayOf) and limit.is_flat
            own = ArrayOf(arg.element, 1 if is_flat else arg.ndim, is_flat=is_flat)
            if _admits(limit, own, {}):
                return own
        extents, dtype = arg.layout
    else:
        extents, dtype = arg.shape, arg.dtype
    scalar = _BY_NAME.get(str(dtype).rsplit(".", maxsplit=1)[-1])
    shape = tuple(int(n) for n in extents)
    if scalar is None:
        return None
    for limit in limits:
        ndim = limit.ndim if isinstance(limit, ArrayOf) else len(shape)
        is_flat = isinstance(limit, ArrayOf) and limit.is_flat
        if is_flat:
            own = limit.element if isinstance(limit, ArrayOf) else None
            ndim = len(shape) - (len(own.shape) if isinstance(own, Dense) else 0)
        inner = shape[ndim:]
        element: Scalar | Dense = scalar
        if inner:
            kind = "vector" if len(inner) == 1 else "matrix"
            pattern = limit.element if isinstance(limit, ArrayOf) else None
            kind = pattern.kind if isinstance(pattern, Dense) else kind
            element = Dense(kind, scalar, inner)
        found = ArrayOf(element, 1 if is_flat else ndim, is_flat=is_flat)
        if len(shape) >= ndim and _admits(limit, found, {}):
            return found
    return None


def _value_type(arg: Any) -> SourceType | None:
    own = (scalar for kind, scalar in PYTHON_SCALARS.items() if isinstance(arg, kind))
    return host_type(arg) or next(own, None)
