"""Overloads: which definition of a function a call means, and what it takes."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelSyntaxError, KernelTypeError, SrcLoc, reduction_remedy
from kernelcore.frontend.expressions.apply import truth
from kernelcore.frontend.scope import Scope, is_value
from kernelcore.frontend.values.conversion import converted
from kernelcore.frontend.values.host_value import host_value
from kernelcore.frontend.values.literal_types import UntypedLiteral, cast_name
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayValue,
    ArrayView,
    CompositeValue,
    Static,
    Value,
    describe_type,
)
from kernelcore.ir.core import Const, Var
from kernelcore.language.annotations import Open, Wanted, bound_of, words_of
from kernelcore.language.definition import Definition, define
from kernelcore.language.function import Function, Overload
from kernelcore.language.overload_resolution import Rank, total
from kernelcore.language.types import (
    ArrayOf,
    Dense,
    Scalar,
    SourceType,
    TypeClass,
    admits,
    boolean,
    float32,
)


@dataclass(frozen=True, slots=True)
class Match:
    """A definition and its arguments, with the target type of each conversion.

    A target is None where the argument is taken as it is.
    """

    overload: Overload
    definition: Definition
    values: tuple[Value, ...]
    targets: tuple[SourceType | None, ...]
    rank: tuple[int, int]


def recursion(name: str, loc: SrcLoc | None) -> KernelSyntaxError:
    """The error for a function that calls itself."""
    return KernelSyntaxError(
        f"'{name}' calls itself, directly or through others",
        loc,
        "write a loop: functions of the kernel language cannot recurse",
    )


def takes(scope: Scope, function: Function, args: Sequence[Value]) -> bool:
    """Whether an overload of ``function`` takes ``args``."""
    return any(isinstance(_match(scope, o, args, {}, None), Match) for o in function.overloads)


def resolve(
    scope: Scope,
    function: Function,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    loc: SrcLoc | None,
) -> Match:
    """The overload of ``function`` that fits best; of equals, the first.

    Raises:
        KernelTypeError: None fits.
    """
    found = [_match(scope, o, args, keywords, loc) for o in function.overloads]
    matches = [m for m in found if isinstance(m, Match)]
    if matches:
        return min(matches, key=lambda m: m.rank)
    if any(isinstance(v, ArrayValue) for v in args) and (remedy := reduction_remedy(function.name)):
        given = describe_type(args[0])
        raise KernelTypeError(f"{function.name}() takes values, found {given}", loc, remedy)
    if len(found) == 1:
        assert isinstance(found[0], KernelTypeError)
        raise found[0]
    given = ", ".join(describe_type(v) for v in (*args, *keywords.values())) or "nothing"
    known = "; ".join(_signature(function.name, define(o)) for o in function.overloads)
    raise KernelTypeError(
        f"no overload of {function.name}() takes {given}", loc, f"the overloads are {known}"
    )


def argument(scope: Scope, value: Value, target: SourceType | None, loc: SrcLoc | None) -> Value:
    """``value`` as a parameter of the type ``target`` of a ``Match`` takes it."""
    if target is None:
        return value
    is_scalar = isinstance(value, UntypedLiteral | Const | Var)
    return (
        truth(scope, value, loc)
        if target == boolean and is_scalar
        else converted(scope, value, target, loc)
    )


def _signature(name: str, definition: Definition) -> str:
    names = {node.arg: want for node, want in zip(definition.nodes, definition.wanted, strict=True)}
    first: dict[Wanted, str] = {}
    params: list[str] = []
    for param in definition.signature.parameters.values():
        want = names[param.name]
        if param.name in definition.captures:
            continue
        if param.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in params:
            params.append("*")
        text = param.name if want is Open.ANY else f"{param.name}: {words_of(want)}"
        if isinstance(want, typing.TypeVar) and want in first:
            text = f"{param.name}: the type of {first[want]}"
        first.setdefault(want, param.name)
        has_default = param.default is not inspect.Parameter.empty
        params.append(f"{text} = {param.default!r}" if has_default else text)
    return f"{name}({', '.join(params)})"


def _match(
    scope: Scope,
    overload: Overload,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    loc: SrcLoc | None,
) -> Match | KernelTypeError:
    """How ``overload`` takes the arguments, or why not."""
    definition = define(overload)
    name, signature = overload.pyfunc.__name__, definition.signature
    captured = {n: v for n in overload.captures if is_value(v := scope.get(n))}
    try:
        bound = signature.bind(*args, **keywords, **captured)
    except TypeError as error:
        return KernelTypeError(
            f"{name}(): {error}", loc, f"the signature is {_signature(name, definition)}"
        )
    values: list[Value] = []
    for param in signature.parameters.values():
        if param.name in bound.arguments:
            values.append(bound.arguments[param.name])
        else:
            values.append(host_value(param.default, f"{param.name}=...", loc))
    variables = _bind_variables(scope, definition.wanted, values)
    targets: list[SourceType | None] = []
    ranks: list[Rank] = []
    for node, want, value in zip(definition.nodes, definition.wanted, values, strict=True):
        fixed = variables.get(want) if isinstance(want, typing.TypeVar) else None
        fit = _fit(scope, want if fixed is None else fixed, value)
        if fit is None:
            text = words_of(want if fixed is None else fixed)
            return KernelTypeError(
                f"{name}(): argument '{node.arg}': expected {text}, found {describe_type(value)}",
                loc,
                _remedy(want if fixed is None else fixed, value)
                or f"the signature is {_signature(name, definition)}",
            )
        rank, target = fit
        ranks.append(max(rank, Rank.PATTERN) if isinstance(want, typing.TypeVar) else rank)
        targets.append(target)
    return Match(overload, definition, tuple(values), tuple(targets), total(ranks))


def _bind_variables(
    scope: Scope, wanted: Sequence[Wanted], values: Sequence[Value]
) -> dict[typing.TypeVar, SourceType]:
    """The type of each type variable: that of its first typed argument."""
    found: dict[typing.TypeVar, SourceType] = {}
    for want, value in zip(wanted, values, strict=True):
        type_ = None if scope.inference.is_untyped(value) else source_type(value)
        if not isinstance(want, typing.TypeVar) or type_ is None or want in found:
            continue
        if any(_fit(scope, limit, value) is not None for limit in bound_of(want)):
            found[want] = type_
    return found


def source_type(value: Value) -> SourceType | None:
    """The type of ``value`` as a user writes it; None for literals, tuples and functions."""
    match value:
        case Var(type=Scalar() as type_) | Const(type=type_):
            return type_
        case CompositeValue(type_, _):
            return type_
        case ArrayView() | ArrayChoice():
            return value.type
        case _:
            return None


def _fit(scope: Scope, want: Wanted, value: Value) -> tuple[Rank, SourceType | None] | None:
    """The rank of ``value`` for ``want`` and the type to convert it to; None if it does not fit."""
    if isinstance(want, typing.TypeVar):
        fits = [f for limit in bound_of(want) if (f := _fit(scope, limit, value)) is not None]
        return min(fits, key=lambda f: f[0]) if fits else None
    if want is Open.ANY:
        return Rank.ANY, None
    if want is Open.TUPLE:
        return (Rank.PATTERN, None) if isinstance(value, tuple) else None
    if want is Open.FUNCTION:
        return (Rank.EXACT, None) if isinstance(value, Static) else None
    if isinstance(want, Scalar | TypeClass):
        is_scalar = isinstance(value, UntypedLiteral | Const | Var)
        return _fit_scalar(scope, want, value) if is_scalar else None
    found = source_type(value)
    if found is None:
        return None
    if isinstance(want, ArrayOf) and isinstance(found, ArrayOf):
        found = replace(found, is_indexed=want.is_indexed)
    if found == want:
        return Rank.EXACT, want
    return (Rank.PATTERN, None) if admits(want, found) else None


def _fit_scalar(
    scope: Scope, want: Scalar | TypeClass, value: UntypedLiteral | Const | Var
) -> tuple[Rank, SourceType | None] | None:
    inference = scope.inference
    dtype = inference.current_type(value)
    if want == boolean and dtype.is_integer:
        return Rank.ADAPTED, boolean
    if isinstance(want, TypeClass):
        if dtype in want.members:
            return Rank.PATTERN, None
        # An integer literal for a float parameter.
        is_open = isinstance(value, UntypedLiteral) and value.kind == "int"
        return (Rank.PATTERN, float32) if is_open and float32 in want.members else None
    if not inference.is_untyped(value):
        return (Rank.EXACT, want) if dtype == want else None
    if dtype == want:
        return Rank.DEFAULT, want
    may = want.is_float or (want.is_integer and dtype.is_integer)
    return (Rank.ADAPTED, want) if may else None


def _remedy(want: Wanted, value: Value) -> str | None:
    is_scalar = isinstance(value, UntypedLiteral | Const | Var)
    if isinstance(want, Scalar) and is_scalar:
        return f"cast it: {cast_name(want)}(...)"
    if isinstance(want, Dense) and isinstance(value, CompositeValue) and not want.is_pattern:
        alike = isinstance(value.type, Dense) and value.type.shape == want.shape
        return f"convert it: {want}(...)" if alike else None
    if want is Open.FUNCTION:
        return "pass a built-in, or a function decorated with @func"
    if isinstance(value, ArrayValue) and not isinstance(want, ArrayOf):
        return "index the array: a[i]"
    if isinstance(want, Scalar | TypeClass) and isinstance(value, CompositeValue):
        return "take a component or a field"
    return None
