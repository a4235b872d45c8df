"""Gradients inside kernels: ``grad(f)`` is a function of the arguments of ``f``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelError, KernelTypeError, SrcLoc
from kernelcore.builtins import Builtin
from kernelcore.frontend.calls.overloads import argument, resolve
from kernelcore.frontend.scope import Scope, settle
from kernelcore.frontend.values.value import Static, Value, describe_type, flatten, unflatten
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Func, Region, Var
from kernelcore.ir.op import GRAD
from kernelcore.language.function import Function
from kernelcore.language.types import Scalar

_REMEDY = "pass a built-in, or a function decorated with @func"


@dataclass(frozen=True, eq=False, slots=True)
class Gradient:
    """The gradient of a function; made by ``grad``, called in kernels."""

    function: Any

    @property
    def name(self) -> str:
        """The name in error messages."""
        inner: Any = self.function
        is_named = isinstance(inner, Function | Gradient)
        return f"grad({inner.name if is_named else inner.op.name})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KernelError(
            f"{self.name} was called from Python", remedy="call it in a kernel or in a function"
        )


def grad(function: Any) -> Gradient:
    """The gradient of ``function``, a function or built-in, to be called with its arguments.

    ``grad(f)(x, y)`` gives the derivatives of ``f(x, y)`` with respect to ``x`` and to ``y``: one
    value of the type of each argument, alone if there is one argument, zero for integers. Of a
    function with several results, or with a composite one, it is the gradient of their sum. It is
    code like any other, and has derivatives itself.

    Raises:
        KernelTypeError: ``function`` is something else.
    """
    if not isinstance(function, Function | Builtin | Gradient):
        raise KernelTypeError(
            f"grad() takes a function, found {type(function).__name__}", remedy=_REMEDY
        )
    return Gradient(function)


def gradient_of(args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None) -> Static:
    """The value of ``grad(f)`` in a kernel.

    Raises:
        KernelTypeError: ``f`` is no function.
    """
    given = [*args, *keywords.values()]
    found = given[0].obj if len(given) == 1 and isinstance(given[0], Static) else None
    if not isinstance(found, Function | Builtin | Gradient):
        text = ", ".join(describe_type(v) for v in given) or "nothing"
        raise KernelTypeError(f"grad() takes a function, found {text}", loc, _REMEDY)
    return Static(Gradient(found))


# The type of lower_call, which imports this module.
_Lower = Callable[[Scope, object, Sequence[Value], Mapping[str, Value], ast.Call], Value]


def lower_gradient(
    scope: Scope,
    callee: Gradient,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    node: ast.Call,
    lower: _Lower,
) -> Value:
    """The value of calling ``callee``.

    Raises:
        KernelTypeError: Its function does not take these arguments, takes arrays, or gives no
            float.
    """
    loc = scope.at(node)
    values, names = _arguments(scope, callee, args, keywords, loc)
    inputs: list[Atom] = []
    params: list[Var] = []
    given: list[Value] = []
    for value in values:
        skeleton, leaves = flatten(value)
        own = [_typed(callee, value, settle(leaf, loc), loc) for leaf in leaves]
        inputs += own
        fresh = [Var(a.type, a.name if isinstance(a, Var) else "") for a in own]
        params += fresh
        given.append(unflatten(skeleton, fresh))
    named = {name: v for name, v in zip(names, given, strict=True) if name}
    with scope.builder.region() as eqns:
        result = lower(scope, callee.function, given[: len(given) - len(named)], named, node)
        yields = [settle(leaf, loc) for leaf in flatten(result)[1]]
    if not any(isinstance(a.type, Scalar) and a.type.is_float for a in yields):
        raise KernelTypeError(
            f"{callee.name}: the function gives {describe_type(result)}, which has no gradient",
            loc,
            "use a function that returns a float",
        )
    scope.at(node)
    body = Region(tuple(params), tuple(eqns), tuple(yields))
    found = iter(scope.builder.emit_all(GRAD, inputs, callee=Func(callee.name, body, 0, loc)))
    gradients: list[Value] = []
    for value in given:
        skeleton, leaves = flatten(value)
        types = [leaf.type for leaf in leaves if isinstance(leaf, Var)]
        scalars = [t for t in types if isinstance(t, Scalar)]
        gradients.append(
            unflatten(skeleton, [next(found) if t.is_float else zero(t) for t in scalars])
        )
    return gradients[0] if len(gradients) == 1 else tuple(gradients)


def _arguments(
    scope: Scope,
    callee: Gradient,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    loc: SrcLoc | None,
) -> tuple[list[Value], list[str]]:
    """The arguments as the function takes them, and the names of those passed by name."""
    function: Any = callee.function
    if not isinstance(function, Function):
        if keywords:
            raise KernelTypeError(
                f"{callee.name} takes no keywords", loc, "pass the arguments by position"
            )
        return list(args), [""] * len(args)
    match = resolve(scope, function, args, keywords, loc)
    if match.overload.captures:
        raise KernelTypeError(
            f"{callee.name}: '{function.name}' uses variables of the function around it",
            loc,
            "pass them as parameters",
        )
    if match.overload.updates:
        raise KernelTypeError(
            f"{callee.name}: '{function.name}' updates its arguments", loc, "it has no gradient"
        )
    pairs = zip(match.values, match.targets, strict=True)
    values = [argument(scope, v, t, loc) for v, t in pairs]
    only = inspect.Parameter.KEYWORD_ONLY
    known = match.definition.signature.parameters.values()
    return values, [p.name if p.kind is only else "" for p in known]


def _typed(callee: Gradient, value: Value, leaf: Atom, loc: SrcLoc | None) -> Atom:
    if isinstance(leaf.type, Scalar):
        return leaf
    raise KernelTypeError(
        f"{callee.name}: found {describe_type(value)} among the arguments, whose gradient would be "
        "an array",
        loc,
        "write a function of values, and load elements before the call",
    )
