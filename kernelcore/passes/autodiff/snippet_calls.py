"""Calls of snippets: forward mode passes tangents, reverse mode runs the adjoint text."""

from __future__ import annotations

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import SNIPPET, WRITES, OpKind
from kernelcore.ir.snippet import (
    Snippet,
    SnippetParam,
    Variant,
    array_uses,
    is_float_value,
    no_tangent,
    snippet_of,
)
from kernelcore.language.flatten import scalars_of
from kernelcore.language.types import ArrayType
from kernelcore.passes.autodiff.forward import Forward
from kernelcore.passes.autodiff.reverse import Cotangents, Reverse


def forward(state: Forward, eqn: Eqn) -> None:
    """Emit a SNIPPET Eqn and its tangent variant, which has no text but can be transposed.

    Raises:
        KernelGradError: It is active and has no derivative.
    """
    snippet = snippet_of(eqn)
    targets = (*eqn.outputs, *(u.array for u in array_uses(eqn) if u.writes))
    if eqn.outputs or any(state.accesses.has(v, OpKind.LOAD) for v in targets):
        state.builder.append(eqn)
    if not any(v in state.active for v in targets):
        return
    if snippet.variant is not Variant.FORWARD or snippet.adjoint is None:
        raise no_tangent(eqn)
    given: list[bool] = []
    tangents: list[Atom] = []
    for param, (_, atoms) in zip(snippet.params, snippet.arguments(eqn.inputs), strict=True):
        tangent = state.tangent.get(atoms[0])
        is_array = isinstance(param.type, ArrayType)
        given.append(is_array and tangent is not None)
        if is_array and tangent is not None:
            tangents += [tangent, *atoms[1:]]
        elif is_float_value(param):
            tangents += [state.of(a) for a in atoms]
    variant = snippet.as_tangent(given)
    found = state.builder.emit_all(SNIPPET, (*eqn.inputs, *tangents), snippet=variant)
    state.tangent.update(zip(eqn.outputs, found, strict=False))


def reverse(state: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Emit the adjoint of a SNIPPET Eqn, if a cotangent reaches what it makes.

    Raises:
        KernelGradError: It has no adjoint text, or that needs values that are gone.
    """
    if not any(v in cotangents for v in eqn.outputs) and not writes_active(state, eqn):
        return
    snippet = snippet_of(eqn)
    _check(state, eqn, snippet)
    inputs: list[Atom] = []
    adjoints: list[Atom] = []
    given: list[bool] = []
    targets: list[Atom] = []
    for param, primal, carrier in _carriers(snippet, eqn):
        values = [a if isinstance(a.type, ArrayType) else state.primal.value(a) for a in primal]
        if not isinstance(param.type, ArrayType):
            inputs += values
            targets += carrier if is_float_value(param) else ()
            given.append(False)
            continue
        inputs += values if param.is_in_derivative else ()
        adjoint = state.adjoint.get(carrier[0]) if carrier else None
        given.append(adjoint is not None)
        adjoints += [] if adjoint is None else [adjoint, *values[1:]]
    results = scalars_of(snippet.result) if snippet.result is not None else ()
    seeds: list[Atom] = [zero(dtype) for dtype in results]
    if results and results[0].is_float:
        seeds = [state.take(cotangents, v) for v in eqn.outputs]
    variant = snippet.as_adjoint(given)
    found = state.builder.emit_all(SNIPPET, (*inputs, *adjoints, *seeds), snippet=variant)
    for target, term in zip(targets, found, strict=True):
        state.add(cotangents, target, term)


def _carriers(
    snippet: Snippet, eqn: Eqn
) -> list[tuple[SnippetParam, tuple[Atom, ...], tuple[Atom, ...]]]:
    """Per parameter: its arguments, and the values that its cotangent belongs to.

    That is the argument itself, or, in the tangent variant, its tangent.
    """
    arguments = [atoms for _, atoms in snippet.arguments(eqn.inputs)]
    count = len(snippet.params)
    primal, rest = arguments[:count], iter(arguments[count:])
    if snippet.variant is Variant.FORWARD:
        return list(zip(snippet.params, primal, primal, strict=True))
    return [
        (p, atoms, next(rest) if is_given or is_float_value(p) else ())
        for p, atoms, is_given in zip(snippet.params, primal, snippet.given, strict=True)
    ]


def writes_active(state: Reverse, eqn: Eqn) -> bool:
    """Whether a SNIPPET Eqn writes an array that has cotangents."""
    return any(u.writes and u.array in state.adjoint for u in array_uses(eqn))


def _check(state: Reverse, eqn: Eqn, snippet: Snippet) -> None:
    if snippet.variant not in (Variant.FORWARD, Variant.TANGENT):
        raise no_tangent(eqn)
    if snippet.adjoint is None:
        raise KernelGradError(
            f"{snippet.name}() is a native snippet without an adjoint",
            eqn.loc,
            "give its derivative: @func_native(snippet, adj_snippet)",
        )
    for param, atoms, _ in _carriers(snippet, eqn):
        if param.is_in_derivative:
            _check_reads(state, eqn, snippet, atoms[0])


def _check_reads(state: Reverse, eqn: Eqn, snippet: Snippet, array: Atom) -> None:
    """Refuse an adjoint that reads an array that the kernel has overwritten since."""
    accesses = state.primal.accesses
    others = [a for a in accesses.snippets.get(array, ()) if a.use.writes]
    if accesses.has_own(array, *WRITES) or any(
        a.is_in_loop or not _is_same_call(a.eqn, eqn) for a in others
    ):
        assert isinstance(array, Var)
        raise KernelGradError(
            f"the adjoint of {snippet.name}() reads '{array.name}', which the kernel writes "
            "elsewhere: the values that it needs are gone",
            eqn.loc,
            "pass the values as arguments, or write to another array",
        )
    if snippet.replay is not None and others:
        assert isinstance(array, Var)
        raise KernelGradError(
            f"the adjoint or the replay of {snippet.name}() reads '{array.name}', which it writes: "
            "an adjoint starts from what arrays held before the kernel",
            eqn.loc,
            "leave out replay_snippet, or write to another array",
        )


def _is_same_call(primal: Eqn, eqn: Eqn) -> bool:
    """Whether ``eqn`` is ``primal`` or its tangent variant."""
    if snippet_of(eqn).variant is Variant.FORWARD:
        return primal is eqn
    is_primal = snippet_of(primal).variant is Variant.FORWARD
    return is_primal and eqn.inputs[: len(primal.inputs)] == primal.inputs
