"""Derivatives that users give for functions: the decorators, and their code as IR."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelTypeError
from kernelcore.frontend.calls.overloads import source_type
from kernelcore.frontend.derivatives.adjoint_syntax import cotangent_name, with_adjoint_variables
from kernelcore.frontend.scope import Scope, is_value
from kernelcore.frontend.values.value import (
    Leaf,
    Value,
    describe_type,
    flatten,
    hole_count,
    unflatten,
)
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Func, Region, Var
from kernelcore.ir.derivative_rules import Rules, instantiate
from kernelcore.language.annotations import Open, bound_of, parameter_nodes, parameter_type
from kernelcore.language.function import Function, Overload, annotation_texts, require_function
from kernelcore.language.source import Source, read_source
from kernelcore.language.source_check import check_text, note_text
from kernelcore.language.types import ArrayType, Scalar, StackType, Type, admits, element_type

GRAD, REPLAY, JVP = "grad", "replay", "jvp"


_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def func_grad(function: Function) -> _Decorator:
    """Give ``function`` its own derivative in reverse mode.

    The decorated function takes the parameters of ``function``, then the cotangent of each result,
    and adds the cotangents of the parameters to ``adjoint[x]``: ``kc.adjoint[x] += adj_ret * 2.0``,
    ``kc.adjoint[v].x += ...``, and for arrays ``kc.adjoint[a][i] += ...``, which is atomic. It
    returns nothing. The cotangent of an array that has none is zero, and what is added to it is
    dropped; where ``function`` overwrites elements whose values before count, the rule sets their
    cotangents to zero.

    The rule takes the place of the derivative of the code in all orders, and the author answers for
    it, races between threads included; a call of ``function`` inside of it is a call of the code.
    If it is linear in the cotangents of the results, forward mode follows from it where arrays do
    not matter.

    Args:
        function: A function decorated with ``@func``; of overloads, the one with the same
            annotations.

    Raises:
        KernelTypeError: ``function`` is something else, or no overload fits.
    """
    return _decorator(function, GRAD, "func_grad")


def func_replay(function: Function) -> _Decorator:
    """Give the code that derivatives run in place of that of ``function``.

    The decorated function takes what ``function`` takes, and gives the same results, without its
    effects: what an atomic returned is loaded from where ``function`` has kept it, for example.
    Without ``func_grad`` and ``func_jvp``, it is what is differentiated. Arrays that it reads and
    only ``function`` writes are those after the launch: ``launch(..., adjoint=True)`` has them,
    operators of frameworks do not. Floats may be rounded otherwise: where an atomic minimum or
    maximum depends on them, its gradient is refused.

    Args:
        function: A function decorated with ``@func``; of overloads, the one with the same
            annotations.

    Raises:
        KernelTypeError: ``function`` is something else, or no overload fits.
    """
    return _decorator(function, REPLAY, "func_replay")


def func_jvp(function: Function) -> _Decorator:
    """Give ``function`` its own derivative in forward mode.

    The decorated function takes the parameters of ``function``, then the tangent of each parameter
    that holds floats, arrays included, and returns the tangent of each result that holds floats. It
    must be linear in the tangents: where arrays do not matter, reverse mode follows from it.

    Args:
        function: A function decorated with ``@func``; of overloads, the one with the same
            annotations.

    Raises:
        KernelTypeError: ``function`` is something else, or no overload fits.
    """
    return _decorator(function, JVP, "func_jvp")


DECORATORS = (func_grad, func_replay, func_jvp)


def _decorator(function: Any, kind: str, name: str) -> _Decorator:
    if not isinstance(function, Function) or function.is_library:
        what = "a function of kernelcore" if isinstance(function, Function) else repr(function)
        raise KernelTypeError(
            f"@{name}: expected a function decorated with @func, found {what}",
            remedy=f"write @func above the function, and @{name}(function) above its rule",
        )

    def register(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
        require_function(pyfunc, f"{name}({function.name})")
        note_text(pyfunc)
        overload = _overload(function, pyfunc, name)
        if overload.updates:
            raise KernelTypeError(
                f"@{name}({function.name}): '{function.name}' has parameters ref[...], and takes "
                "no rule",
                remedy="return the values, and give that function the rule",
            )
        overload.rules = {**overload.rules, kind: pyfunc}
        return pyfunc

    return register


def _overload(function: Function, pyfunc: Callable[..., Any], name: str) -> Overload:
    """The overload whose annotations are those of the first parameters of ``pyfunc``."""
    if len(function.overloads) == 1:
        return function.overloads[0]
    given = [text for _, text in annotation_texts(pyfunc)]
    for overload in function.overloads:
        wanted = [text for _, text in annotation_texts(overload.pyfunc)]
        if given[: len(wanted)] == wanted:
            return overload
    raise KernelTypeError(
        f"@{name}({function.name}): no overload has the annotations of '{pyfunc.__name__}'",
        read_source(pyfunc).name_loc(),
        "annotate its first parameters like those of the overload",
    )


# Lowers a rule, given how its parameters are bound and the value of a bare return, if any.
Bind = Callable[[Scope], list[Var]]
Finish = Callable[[Scope], Value]
Lower = Callable[[Source, Bind, Finish | None], tuple[Func, Value]]


@dataclass(frozen=True, slots=True)
class Callee:
    """A function, specialised for a call.

    Attributes:
        names: Of its parameters.
        skeletons: Of the values of its parameters.
        func: Its code.
        skeleton: Of what it returns.
    """

    name: str
    names: tuple[str, ...]
    skeletons: tuple[Value, ...]
    func: Func
    skeleton: Value

    @property
    def results(self) -> list[tuple[Value, list[Type]]]:
        """The skeleton of each result and the types of its leaves."""
        members = self.skeleton if isinstance(self.skeleton, tuple) else (self.skeleton,)
        return _rows(members, self.func.body.yields)

    @property
    def params(self) -> list[tuple[Value, list[Type]]]:
        """The skeleton of each parameter and the types of its leaves."""
        return _rows(self.skeletons, self.func.params)


def _rows(skeletons: Sequence[Value], leaves: Sequence[Atom]) -> list[tuple[Value, list[Type]]]:
    types = iter([leaf.type for leaf in leaves])
    return [(f, [next(types) for _ in range(hole_count(f))]) for f in skeletons]


def make_rules(overload: Overload, callee: Callee, lower: Lower) -> Rules:
    """The rules of ``overload``, specialised as ``callee`` is.

    Raises:
        KernelError: A rule is not in the kernel language, or does not fit the function.
    """
    makers = {GRAD: _make_adjoint, REPLAY: _make_replay, JVP: _make_jvp}
    made = {
        kind: makers[kind](callee, _checked(read_source(pyfunc)), lower)
        for kind, pyfunc in overload.read_rules().items()
    }
    types = tuple(p.type for p in callee.func.params)
    return Rules(callee.name, types, made.get(GRAD), made.get(JVP), made.get(REPLAY))


def _checked(source: Source) -> Source:
    check_text(source)
    return source


def emit_with_rules(
    builder: Builder, func: Func, inputs: Sequence[Atom], rules: Rules
) -> tuple[Var, ...]:
    """Emit a call of a function that has rules."""
    body = instantiate(func, [(a,) for a in inputs])
    return builder.emit_custom(inputs, body, rules)


def _make_adjoint(callee: Callee, source: Source, lower: Lower) -> Func:
    nodes = parameter_nodes(source)
    rows = [*callee.params, *callee.results]
    several = [f"adj_ret_{k}" for k in range(len(callee.results))]
    wanted = [*callee.names, *(several if len(several) != 1 else ["adj_ret"])]
    _check_count(callee, source, nodes, wanted, "gradient")
    count = len(callee.skeletons)
    marks = [any(_is_float(t) for t in types) for _, types in callee.params]
    names = [node.arg for node in nodes[:count]]
    rewritten = with_adjoint_variables(source, dict(zip(names, marks, strict=True)))

    def bind(scope: Scope) -> list[Var]:
        params: list[Var] = []
        arrays: list[Var] = []
        for k, (node, row) in enumerate(zip(nodes, rows, strict=True)):
            own = _bound(scope, callee, source, node, row)
            params += own
            if k < count and marks[k]:
                leaves = [_cotangent(v) for v in own]
                scope.set(cotangent_name(node.arg), unflatten(row[0], leaves))
                arrays += [v for v in leaves if isinstance(v, Var) and v not in own]
        return [*params, *arrays]

    def finish(scope: Scope) -> Value:
        yields: list[Atom] = []
        for node, (skeleton, types) in zip(nodes[:count], callee.params, strict=True):
            if any(_is_float(t) for t in types):
                yields += _final(scope, source, node, skeleton, types)
        return tuple(yields)

    return lower(rewritten, bind, finish)[0]


def _final(
    scope: Scope, source: Source, node: ast.arg, skeleton: Value, types: Sequence[Type]
) -> list[Atom]:
    """The cotangents of the float scalars in a parameter, at the end of the rule."""
    loc = source.loc(node)
    value = scope.get(cotangent_name(node.arg))
    found, leaves = flatten(value) if is_value(value) else ((), [])
    if found != skeleton:
        raise KernelTypeError(
            f"kc.adjoint[{node.arg}] is assigned another type than '{node.arg}' has",
            loc,
            f"add to it: kc.adjoint[{node.arg}] += ...",
        )
    pairs = zip(leaves, types, strict=True)
    return [
        scope.inference.adapt(leaf, t, loc)
        for leaf, t in pairs
        if isinstance(t, Scalar) and t.is_float
    ]


def _make_replay(callee: Callee, source: Source, lower: Lower) -> Func:
    nodes = parameter_nodes(source)
    _check_count(callee, source, nodes, callee.names, "replay")

    def bind(scope: Scope) -> list[Var]:
        pairs = zip(nodes, callee.params, strict=True)
        return [v for node, row in pairs for v in _bound(scope, callee, source, node, row)]

    func, skeleton = lower(source, bind, None)
    types = [a.type for a in callee.func.body.yields]
    _check_results(callee, source, (func, skeleton), callee.skeleton, types)
    return func


def _make_jvp(callee: Callee, source: Source, lower: Lower) -> Func:
    nodes = parameter_nodes(source)
    marks = [any(_is_float(t) for t in types) for _, types in callee.params]
    rows = zip(callee.names, callee.params, marks, strict=True)
    moving = [(name, row) for name, row, is_float in rows if is_float]
    wanted = [*callee.names, *(f"t_{name}" for name, _ in moving)]
    _check_count(callee, source, nodes, wanted, "tangent")
    count = len(callee.skeletons)

    def bind(scope: Scope) -> list[Var]:
        own: dict[str, list[Var]] = {}
        for name, node, row in zip(callee.names, nodes[:count], callee.params, strict=True):
            own[name] = _bound(scope, callee, source, node, row)
        tangents: list[Var] = []
        for node, (name, (skeleton, _)) in zip(nodes[count:], moving, strict=True):
            leaves = [Var(v.type, node.arg) if _is_float(v.type) else v for v in own[name]]
            value = unflatten(skeleton, leaves)
            _check_annotation(callee, source, node, value)
            scope.set(node.arg, value)
            tangents += [v for v in leaves if v not in own[name]]
        tangents.sort(key=lambda v: isinstance(v.type, ArrayType))
        return [*(v for row in own.values() for v in row), *tangents]

    func, skeleton = lower(source, bind, None)
    floats = [row for row in callee.results if any(_is_float(t) for t in row[1])]
    members = tuple(skeleton for skeleton, _ in floats)
    types = [t for _, row in floats for t in row]
    _check_results(
        callee, source, (func, skeleton), members[0] if len(members) == 1 else members, types
    )
    yields = tuple(a for a in func.body.yields if _is_float(a.type))
    body = Region(func.params, func.body.eqns, yields)
    return Func(func.name, body, func.grid_rank, func.loc, func.param_locs)


def _bound(
    scope: Scope, callee: Callee, source: Source, node: ast.arg, row: tuple[Value, list[Type]]
) -> list[Var]:
    """Give a parameter of a rule a value; its leaves."""
    skeleton, types = row
    leaves = [Var(t, node.arg) for t in types]
    value = unflatten(skeleton, leaves)
    _check_annotation(callee, source, node, value)
    scope.set(node.arg, value)
    return leaves


def _cotangent(leaf: Var) -> Leaf:
    """The cotangent of a leaf of a parameter at the start: an array of its own, or zero."""
    if not _is_float(leaf.type):
        return leaf
    if isinstance(leaf.type, Scalar):
        return zero(leaf.type)
    return Var(leaf.type, f"ct_{leaf.name}")


def _check_count(
    callee: Callee, source: Source, nodes: Sequence[ast.arg], wanted: Sequence[str], what: str
) -> None:
    if len(nodes) != len(wanted):
        raise KernelTypeError(
            f"the {what} of {callee.name}() takes {len(wanted)} arguments, "
            f"'{source.tree.name}' has {len(nodes)} parameters",
            source.name_loc(),
            f"write def {source.tree.name}({', '.join(wanted)})",
        )


def _check_annotation(callee: Callee, source: Source, node: ast.arg, value: Value) -> None:
    want, found = parameter_type(source, node), source_type(value)
    limits = bound_of(want) if isinstance(want, TypeVar) else (want,)
    for limit in limits:
        if isinstance(limit, Open | TypeVar) or found is None or admits(limit, found):
            return
    raise KernelTypeError(
        f"parameter '{node.arg}' of the rule for {callee.name}(): the annotation is "
        f"{ast.unparse(node.annotation or node)}, expected {describe_type(value)}",
        source.loc(node),
        "leave the annotation out, or give it the type of the argument or result",
    )


def _check_results(
    callee: Callee,
    source: Source,
    found: tuple[Func, Value],
    skeleton: Value,
    types: Sequence[Type],
) -> None:
    func, got = found
    if got != skeleton or [a.type for a in func.body.yields] != list(types):
        given = ", ".join(str(a.type) for a in func.body.yields) or "nothing"
        want = ", ".join(map(str, types)) or "nothing"
        raise KernelTypeError(
            f"the rule '{source.tree.name}' for {callee.name}() returns {given}, expected {want}",
            source.name_loc(),
            "return values of the types of the results, in their order",
        )


def _is_float(type_: Type) -> bool:
    return not isinstance(type_, StackType) and element_type(type_).is_float
