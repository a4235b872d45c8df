"""Specialize: a Python function, for given types of its parameters, as a Func."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelcore.errors import KernelError, KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.frontend.annotations import (
    parameter_nodes,
    parameter_type,
    required_type,
    result_types,
)
from kernelcore.frontend.branch import RETURN
from kernelcore.frontend.call import call_site
from kernelcore.frontend.for_while import assigned_names
from kernelcore.frontend.function import Function
from kernelcore.frontend.results import Results
from kernelcore.frontend.scope import (
    FALSE,
    Scope,
    describe_type,
    host_value,
    settle,
    single,
)
from kernelcore.frontend.source import Source, read_source
from kernelcore.frontend.stmt import Block
from kernelcore.frontend.weak import Choice, Site, Value, Weak, WeakTypes, widest
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Region, Var
from kernelcore.types import Scalar, Type


def specialize_kernel(pyfunc: Callable[..., Any]) -> Func:
    """The kernel ``pyfunc``, whose parameters are annotated.

    Raises:
        KernelError: The first place that is not in the kernel language.
    """
    source = read_source(pyfunc)
    nodes = parameter_nodes(source)
    for default in (*source.tree.args.defaults, *source.tree.args.kw_defaults):
        if default is not None:
            raise KernelSyntaxError(
                "kernel parameters have no defaults",
                source.loc(default),
                "pass the value when you launch the kernel",
            )
    types = [required_type(source, node) for node in nodes]
    return _Program().lower(source, types, is_kernel=True)


def specialize_function(function: Function) -> Func:
    """The function, whose parameters are annotated, on its own.

    Raises:
        KernelError: The first place that is not in the kernel language.
    """
    source = read_source(function.pyfunc)
    types = [required_type(source, node) for node in parameter_nodes(source)]
    return _Program().lower(source, types, is_kernel=False)


@dataclass(frozen=True, slots=True)
class _Open:
    """The type of a parameter that a weak value is passed for: at least ``least``."""

    least: Scalar


@dataclass(slots=True)
class _Program:
    """The functions that one kernel reaches, each specialised once per argument types."""

    done: dict[tuple[Function, tuple[Type | _Open, ...]], Func] = field(
        default_factory=lambda: dict[tuple[Function, tuple[Type | _Open, ...]], Func]()
    )
    sources: dict[Function, Source] = field(default_factory=lambda: dict[Function, Source]())
    active: list[Function] = field(default_factory=lambda: list[Function]())

    def call(
        self,
        function: Function,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        node: ast.Call,
        scope: Scope,
    ) -> tuple[Func, list[Atom]]:
        """The specialisation of ``function`` for a call, and the arguments as it takes them."""
        loc = scope.loc(node)
        if function in self.active:
            raise KernelSyntaxError(
                f"'{function.name}' calls itself, directly or through others",
                loc,
                "write a loop: functions of the kernel language cannot recurse",
            )
        if function not in self.sources:
            self.sources[function] = read_source(function.pyfunc)
        source = self.sources[function]
        nodes = parameter_nodes(source)
        values = _bound_arguments(function, args, keywords, loc)
        wanted = scope.weak.chosen.get(call_site(node))
        types: list[Type | _Open] = []
        for param, value in zip(nodes, values, strict=True):
            annotated = parameter_type(source, param)
            types.append(annotated or _argument_type(scope, value, wanted))
        func = self._specialized(function, tuple(types))
        atoms = [
            _argument(scope, function, node, param, value)
            for param, value in zip(func.params, values, strict=True)
        ]
        return func, atoms

    def _specialized(self, function: Function, types: tuple[Type | _Open, ...]) -> Func:
        if (function, types) not in self.done:
            self.active.append(function)
            try:
                func = self.lower(self.sources[function], types, is_kernel=False)
            finally:
                self.active.pop()
            self.done[function, types] = func
        return self.done[function, types]

    def lower(self, source: Source, types: Sequence[Type | _Open], *, is_kernel: bool) -> Func:
        """Lower a function, again and again while weak types are found to be wider."""
        chosen: dict[Site, Choice] = {}
        while True:
            weak = WeakTypes(Builder(), dict(chosen))
            try:
                func = self._attempt(source, types, weak, is_kernel)
            except KernelError as error:
                # Errors count only where the types are final.
                if not weak.requests:
                    raise (weak.deferred or error) from None
            else:
                if weak.deferred is not None and not weak.requests:
                    raise weak.deferred
                if not weak.requests:
                    return func
            chosen.update(weak.requests)

    def _attempt(
        self, source: Source, types: Sequence[Type | _Open], weak: WeakTypes, is_kernel: bool
    ) -> Func:
        builder = weak.builder
        tree = source.tree
        scope = Scope(source, builder, weak, self.call, is_kernel)
        scope.assigned = assigned_names(scope, tree.body)
        nodes = parameter_nodes(source)
        params = [_parameter(scope, n, t) for n, t in zip(nodes, types, strict=True)]
        scope.env.update({p.name: p for p in params})
        scope.env[RETURN] = FALSE
        results = None if is_kernel else Results(tree, result_types(source))
        if results is not None:
            results.prepare(scope)
        with builder.region() as eqns:
            Block(scope, results).lower(tree.body)
        loc = source.name_loc()
        yields = results.collect(scope, loc) if results is not None else ()
        body = Region(tuple(params), tuple(eqns), yields)
        return Func(tree.name, body, scope.grid_rank, loc, tuple(source.loc(n) for n in nodes))


def _parameter(scope: Scope, node: ast.arg, dtype: Type | _Open) -> Var:
    if not isinstance(dtype, _Open):
        return Var(dtype, node.arg)
    site = Site(node, node.arg)
    choice = scope.weak.choose(site, dtype.least)
    param = Var(choice.type, node.arg)
    scope.weak.mark(param, site, choice, ())
    return param


def _bound_arguments(
    function: Function, args: Sequence[Value], keywords: Mapping[str, Value], loc: SrcLoc | None
) -> list[Value]:
    """One value per parameter, defaults included."""
    signature = inspect.signature(function.pyfunc)
    try:
        bound = signature.bind(*args, **keywords)
    except TypeError as error:
        raise KernelTypeError(
            f"{function.name}(): {error}", loc, f"the signature is {function.name}{signature}"
        ) from None
    out: list[Value] = []
    for name, param in signature.parameters.items():
        if name in bound.arguments:
            out.append(bound.arguments[name])
        else:
            out.append(host_value(param.default, f"{name}={param.default!r}", loc))
    return out


def _argument_type(scope: Scope, value: Value, wanted: Choice | None) -> Type | _Open:
    """The type that an argument asks for; an open one as wide as the result that is wanted."""
    one = single(value, None)
    if scope.weak.is_weak(one):
        found = scope.weak.type_now(one)
        is_alike = wanted is not None and wanted.type.kind == found.kind
        return _Open(widest((found, wanted.type)) if is_alike and wanted else found)
    return settle(one, None).type


def _argument(scope: Scope, function: Function, node: ast.Call, param: Var, value: Value) -> Atom:
    loc = scope.loc(node)
    one = single(value, loc)
    if isinstance(param.type, Scalar):
        try:
            return scope.weak.adapt(one, param.type, loc)
        except KernelTypeError as error:
            raise KernelTypeError(
                f"{function.name}(): argument '{param.name}': {error.message}", loc, error.remedy
            ) from None
    if isinstance(one, Weak) or one.type != param.type:
        raise KernelTypeError(
            f"{function.name}(): argument '{param.name}': expected {param.type}, "
            f"found {describe_type(one)}",
            loc,
        )
    return one
