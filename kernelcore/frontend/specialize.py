"""Specialize: a Python function, for given types of its parameters, as a Func."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import KernelError, KernelSyntaxError, KernelTypeError, SrcLoc, all_of
from kernelcore.base.nesting import refusing_deep_nesting
from kernelcore.frontend.calls.by_reference import assign_updated
from kernelcore.frontend.calls.call import lower_call
from kernelcore.frontend.calls.overloads import Match, argument, recursion, resolve, source_type
from kernelcore.frontend.derivatives.adjoint_syntax import refuse_adjoint_syntax
from kernelcore.frontend.derivatives.rules import Bind, Callee, Finish, emit_with_rules, make_rules
from kernelcore.frontend.formula import BuiltinNames
from kernelcore.frontend.parameters import flat_parameters, parameter_value
from kernelcore.frontend.scope import FALSE, TRUE, Scope
from kernelcore.frontend.statements.assigned_names import assigned_names
from kernelcore.frontend.statements.branch import RETURN, guard, stopped
from kernelcore.frontend.statements.results import Results
from kernelcore.frontend.statements.statement import Block
from kernelcore.frontend.values.array_choice import merged
from kernelcore.frontend.values.literal_types import (
    InferenceVariable,
    InferredType,
    Promotion,
    TypeInference,
    UntypedLiteral,
    solve,
    widest,
)
from kernelcore.frontend.values.value import (
    Leaf,
    Value,
    flatten,
    has_function,
    substituted,
    unflatten,
)
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Func, Region, Var
from kernelcore.ir.derivative_rules import Rules
from kernelcore.ir.op import CALL
from kernelcore.language.annotations import (
    Open,
    Wanted,
    parameter_nodes,
    result_types,
)
from kernelcore.language.definition import kernel_parameters
from kernelcore.language.function import Function, Overload
from kernelcore.language.source import Source, read_source
from kernelcore.language.source_check import check_text
from kernelcore.language.types import Scalar, SourceType, Type, boolean, element_type, is_pattern


def specialize_kernel(
    pyfunc: Callable[..., Any],
    types: Sequence[SourceType] | None = None,
    *,
    is_kernel: bool = True,
) -> Func:
    """The kernel ``pyfunc`` for parameters of ``types``, by default those of its annotations.

    Without ``is_kernel`` it is a function, which may return values.

    Raises:
        KernelError: The first place that is not in the kernel language.
    """
    if types is None:
        types = [_concrete(*row) for row in kernel_parameters(pyfunc)]
    return _Specializer().kernel(read_source(pyfunc), types, is_kernel=is_kernel)


def result_types_of(callee: object, types: Sequence[SourceType]) -> tuple[SourceType, ...]:
    """The types of the results of ``callee``, a function or built-in, on arguments of ``types``.

    Raises:
        KernelError: It does not take them, or gives no values.
    """
    node = ast.Call(ast.Name("function"), [ast.Name(f"x{k}") for k in range(len(types))], [])
    inference = TypeInference(Builder())
    scope = Scope(
        BuiltinNames(None), inference.builder, inference, _Specializer().call, is_kernel=False
    )
    params = [flat_parameters(f"x{k}", t) for k, t in enumerate(types)]
    pairs = zip(types, params, strict=True)
    value = lower_call(
        scope, callee, [parameter_value(scope, t, iter(p)) for t, p in pairs], {}, node
    )
    found = [source_type(v) for v in (value if isinstance(value, tuple) else (value,))]
    results = tuple(f for f in found if f is not None)
    if not results or len(results) < len(found):
        raise KernelTypeError("the function gives no value", remedy="return a value")
    return results


def _concrete(name: str, wanted: Wanted, loc: SrcLoc | None) -> SourceType:
    """``wanted``, which must be one type."""
    if isinstance(wanted, Open | TypeVar) or is_pattern(wanted):
        raise KernelTypeError(
            f"parameter '{name}' may have several types: the kernel is generic",
            loc,
            "choose types with overload(kernel, [type, ...]), or launch it with arguments",
        )
    return wanted


@dataclass(frozen=True, slots=True)
class _Untyped:
    """The type of a parameter with an untyped argument: at least ``least``."""

    least: Scalar


FlatType = Type | _Untyped
# The skeleton of every argument and the types of its leaves.
Key = tuple[tuple[Value, tuple[FlatType, ...]], ...]


Specializations = dict[Hashable, tuple[Func, Value]]


@cache
def _shared(overload: Overload) -> Specializations:
    """The specialisations of a function of the library, which all kernels share."""
    del overload
    return {}


@dataclass(slots=True)
class _Specializer:
    """The functions that one kernel reaches, each specialised once per argument types."""

    done: dict[Overload, Specializations] = field(default_factory=dict[Overload, Specializations])
    active: list[Overload] = field(default_factory=list[Overload])
    # Functions whose rules are being lowered: a call inside runs their plain code.
    ruled: list[Overload] = field(default_factory=list[Overload])
    rules: dict[Func, Rules] = field(default_factory=dict[Func, Rules])

    def call(
        self,
        function: Function,
        args: Sequence[Value],
        keywords: Mapping[str, Value],
        node: ast.AST,
        scope: Scope,
    ) -> Value:
        """Call ``function``; errors inside the library are those of the call."""
        loc = scope.loc(node)
        _check_home(scope, function, loc)
        match = resolve(scope, function, args, keywords, loc)
        if match.overload in self.active:
            raise recursion(function.name, loc)
        try:
            result = self._call(match, node, scope)
        except KernelError as error:
            if not function.is_library:
                raise
            message = f"{function.name}(): {error.message}"
            raise type(error)(message, loc, error.remedy) from None
        return assign_updated(scope, match, result, node) if match.overload.updates else result

    def _call(self, match: Match, node: ast.AST, scope: Scope) -> Value:
        loc = scope.loc(node)
        variable = InferenceVariable(node, "$call", Promotion.NEVER)
        wanted = scope.inference.solution.get(variable)
        skeletons: list[tuple[Value, tuple[FlatType, ...]]] = []
        leaves: list[Leaf] = []
        for value, target in zip(match.values, match.targets, strict=True):
            if match.overload.is_library and isinstance(value, UntypedLiteral) and target is None:
                skeletons.append((value, ()))  # stays a compile-time constant in the callee
                continue
            given = argument(scope, value, target, loc)
            skeleton, own = flatten(given)
            skeletons.append((skeleton, tuple(_flat_type(scope, leaf, wanted) for leaf in own)))
            leaves.extend(own)
        func, skeleton = self._specialized(match, tuple(skeletons))
        atoms = [
            leaf
            if isinstance(leaf, Var) and not isinstance(leaf.type, Scalar)
            else scope.inference.adapt(leaf, element_type(param.type), loc)
            for param, leaf in zip(func.params, leaves, strict=True)
        ]
        scope.at(node)
        if match.overload.read_rules() and match.overload not in self.ruled:
            rules = self._rules(match, func, tuple(f for f, _ in skeletons), skeleton)
            outs = emit_with_rules(scope.builder, func, atoms, rules)
        else:
            outs = scope.builder.emit_all(CALL, atoms, callee=func)
        # Untyped arguments make untyped results.
        is_open = None in match.targets and all(scope.inference.is_untyped(v) for v in match.values)
        if atoms and is_open:
            for out in outs:
                if isinstance(out.type, Scalar) and out.type != boolean:
                    is_fixed = wanted is not None and wanted.fixed
                    scope.inference.mark(out, variable, InferredType(out.type, is_fixed), ())
        given = {p: a for p, a in zip(func.params, atoms, strict=True) if isinstance(a, Var)}
        return merged(scope, substituted(unflatten(skeleton, outs), given))

    def _rules(
        self, match: Match, func: Func, skeletons: tuple[Value, ...], skeleton: Value
    ) -> Rules:
        """The rules of an overload that has some, for the types of a call."""
        if func not in self.rules:
            names = tuple(node.arg for node in match.definition.nodes)
            callee = Callee(match.overload.pyfunc.__name__, names, skeletons, func, skeleton)
            self.ruled.append(match.overload)
            try:
                self.rules[func] = make_rules(match.overload, callee, self.lower)
            finally:
                self.ruled.pop()
        return self.rules[func]

    def _specialized(self, match: Match, skeletons: Key) -> tuple[Func, Value]:
        overload = match.overload
        # Literals as text, since 0, 0.0 and -0.0 are equal.
        row = tuple(
            (repr(f) if isinstance(f, UntypedLiteral) else f, types) for f, types in skeletons
        )
        key = (row, tuple(self.ruled))
        is_shared = overload.is_library and not any(has_function(f) for f, _ in skeletons)
        known = _shared(overload) if is_shared else self.done.setdefault(overload, {})
        if key not in known:
            self.active.append(overload)
            try:

                def bind(scope: Scope) -> list[Var]:
                    scope.captured = frozenset(overload.captures)
                    return _bind(scope, match.definition.nodes, skeletons)

                updates = () if overload.is_library else overload.updates
                known[key] = self.lower(match.definition.source, bind, updates=updates)
            finally:
                self.active.pop()
        return known[key]

    def kernel(self, source: Source, types: Sequence[SourceType], *, is_kernel: bool) -> Func:
        """A kernel, or a function on its own, whose parameters have ``types``."""
        nodes = parameter_nodes(source)

        def bind(scope: Scope) -> list[Var]:
            params: list[Var] = []
            for node, type_ in zip(nodes, types, strict=True):
                leaves = flat_parameters(node.arg, type_)
                scope.at(node)
                scope.set(node.arg, parameter_value(scope, type_, iter(leaves)))
                params.extend(leaves)
            return params

        with refusing_deep_nesting(f"'{source.tree.name}'", source.name_loc()):
            func, _ = self.lower(source, bind, is_kernel=is_kernel)
        locs = [
            source.loc(n)
            for n, t in zip(nodes, types, strict=True)
            for _ in flat_parameters(n.arg, t)
        ]
        return Func(func.name, func.body, func.grid_rank, func.loc, tuple(locs))

    def lower(
        self,
        source: Source,
        bind: Bind,
        finish: Finish | None = None,
        *,
        is_kernel: bool = False,
        updates: Sequence[str] = (),
    ) -> tuple[Func, Value]:
        """Lower a function, again while inferred types are found to be wider.

        Results are followed by the last values of the parameters ``updates``.
        """
        if source.text:
            check_text(source)
        if finish is None:
            refuse_adjoint_syntax(source)
        return solve(
            lambda inference: self._attempt(source, bind, inference, is_kernel, finish, updates)
        )

    def _attempt(
        self,
        source: Source,
        bind: Bind,
        inference: TypeInference,
        is_kernel: bool,
        finish: Finish | None,
        updates: Sequence[str],
    ) -> tuple[Func, Value]:
        builder = inference.builder
        tree = source.tree
        scope = Scope(source, builder, inference, self.call, is_kernel)
        scope.assigned = assigned_names(scope, source.own_nodes())
        results = None if is_kernel else Results(tree, result_types(source), finish, updates)
        with builder.region() as eqns:
            params = bind(scope)
            for name, start in inference.unset.items():
                scope.set(name, start)
            scope.env[RETURN] = FALSE
            if results is not None:
                results.prepare(scope)
            Block(scope, results).lower(tree.body)
            if updates and results is not None:
                _return_at_end(scope, tree, results)
        if inference.errors:
            raise all_of(inference.errors)
        loc = source.name_loc()
        skeleton, yields = results.collect(scope, loc) if results is not None else ((), ())
        body = Region(tuple(params), tuple(eqns), yields)
        return Func(tree.name, body, scope.grid_rank, loc), skeleton


def _return_at_end(scope: Scope, tree: ast.FunctionDef, results: Results) -> None:
    """Lower the ``return`` that follows the body of a function that assigns parameters."""
    node = ast.copy_location(ast.Return(None), tree.body[-1])
    stop = stopped(scope)
    if stop == FALSE:
        results.give(scope, node, ())
    elif stop != TRUE:
        guard(scope, node, stop, lambda: results.give(scope, node, ()))


def _bind(scope: Scope, nodes: Sequence[ast.arg], skeletons: Key) -> list[Var]:
    """Bind parameters to fresh values of ``skeletons``; returns the parameters of the IR."""
    params: list[Var] = []
    for node, (skeleton, types) in zip(nodes, skeletons, strict=True):
        leaves = [_parameter(scope, node, k, t) for k, t in enumerate(types)]
        scope.set(node.arg, unflatten(skeleton, leaves))
        params.extend(leaves)
    return params


def _parameter(scope: Scope, node: ast.arg, position: int, dtype: FlatType) -> Var:
    if not isinstance(dtype, _Untyped):
        return Var(dtype, node.arg)
    variable = InferenceVariable(node, f"{node.arg}.{position}")
    inferred = scope.inference.infer(variable, dtype.least)
    param = Var(inferred.type, node.arg)
    scope.inference.mark(param, variable, inferred, ())
    return param


def _check_home(scope: Scope, function: Function, loc: SrcLoc | None) -> None:
    """Refuse calls of a nested function where its captured variables are missing or unset."""
    for overload in function.overloads:
        for name in overload.captures:
            if overload.home is not scope:
                raise KernelSyntaxError(
                    f"'{function.name}' uses '{name}' of the function around it, "
                    "and is called in another one",
                    loc,
                    f"give '{function.name}' a parameter for '{name}'",
                )
            scope.require(name, loc)


def _flat_type(scope: Scope, leaf: Leaf, wanted: InferredType | None) -> FlatType:
    """The type of a parameter for ``leaf``; an open type is as wide as the wanted result."""
    if scope.inference.is_untyped(leaf):
        found = scope.inference.current_type(leaf)
        is_alike = wanted is not None and wanted.type.kind == found.kind
        return _Untyped(widest((found, wanted.type)) if is_alike and wanted else found)
    assert not isinstance(leaf, UntypedLiteral)
    return leaf.type
