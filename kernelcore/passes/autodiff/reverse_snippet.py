"""Reverse mode of snippets: the adjoint text runs in place of the forward text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.op import NATIVE, WRITES
from kernelcore.ir.snippet import (
    Form,
    Snippet,
    SnippetParam,
    array_uses,
    is_float_value,
    no_tangent,
    scalars_of,
    snippet_of,
)
from kernelcore.language.types import ArrayType

if TYPE_CHECKING:
    from kernelcore.passes.autodiff.reverse import Cotangents, Reverse


def call(reverse: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Emit the adjoint of a NATIVE Eqn, if a cotangent reaches what it makes.

    Raises:
        KernelGradError: It has no adjoint text, or that needs values that are gone.
    """
    if not any(v in cotangents for v in eqn.outputs) and not touches_memory(reverse, eqn):
        return
    snippet = snippet_of(eqn)
    _check(reverse, eqn, snippet)
    inputs: list[Atom] = []
    adjoints: list[Atom] = []
    given: list[bool] = []
    targets: list[Atom] = []
    for param, primal, carrier in _carriers(snippet, eqn):
        values = [a if isinstance(a.type, ArrayType) else reverse.replay.value(a) for a in primal]
        if not isinstance(param.type, ArrayType):
            inputs += values
            targets += carrier if is_float_value(param) else ()
            given.append(False)
            continue
        inputs += values if param.is_recalled else ()
        adjoint = reverse.adjoint.get(carrier[0]) if carrier else None
        given.append(adjoint is not None)
        adjoints += [] if adjoint is None else [adjoint, *values[1:]]
    results = scalars_of(snippet.result) if snippet.result is not None else ()
    seeds: list[Atom] = [zero(dtype) for dtype in results]
    if results and results[0].is_float:
        seeds = [reverse.take(cotangents, v) for v in eqn.outputs]
    form = snippet.adjoint_form(given)
    found = reverse.builder.emit_all(NATIVE, (*inputs, *adjoints, *seeds), snippet=form)
    for target, term in zip(targets, found, strict=True):
        reverse.add(cotangents, target, term)


def _carriers(
    snippet: Snippet, eqn: Eqn
) -> list[tuple[SnippetParam, tuple[Atom, ...], tuple[Atom, ...]]]:
    """Per parameter: what is passed for it, and what its cotangent is the cotangent of.

    That is the argument itself, or, in the tangent form, its tangent.
    """
    arguments = [atoms for _, atoms in snippet.arguments(eqn.inputs)]
    count = len(snippet.params)
    primal, rest = arguments[:count], iter(arguments[count:])
    if snippet.form is Form.FORWARD:
        return list(zip(snippet.params, primal, primal, strict=True))
    return [
        (p, atoms, next(rest) if is_given or is_float_value(p) else ())
        for p, atoms, is_given in zip(snippet.params, primal, snippet.given, strict=True)
    ]


def touches_memory(reverse: Reverse, eqn: Eqn) -> bool:
    """Whether a NATIVE Eqn writes an array that has cotangents."""
    return any(u.writes and u.array in reverse.adjoint for u in array_uses(eqn))


def _check(reverse: Reverse, eqn: Eqn, snippet: Snippet) -> None:
    if snippet.form not in (Form.FORWARD, Form.TANGENT):
        raise no_tangent(eqn)
    if snippet.adjoint is None:
        raise KernelGradError(
            f"{snippet.name}() is a native snippet without an adjoint",
            eqn.loc,
            "give its derivative: @func_native(snippet, adj_snippet)",
        )
    for param, atoms, _ in _carriers(snippet, eqn):
        if param.is_recalled:
            _check_recalled(reverse, eqn, snippet, atoms[0])


def _check_recalled(reverse: Reverse, eqn: Eqn, snippet: Snippet, array: Atom) -> None:
    """Refuse an adjoint that reads an array whose elements the kernel has changed since."""
    accesses = reverse.replay.accesses
    others = [a for a in accesses.native.get(array, ()) if a.use.writes]
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
    """Whether ``eqn`` is ``primal``, or the tangent form of it."""
    if snippet_of(eqn).form is Form.FORWARD:
        return primal is eqn
    is_primal = snippet_of(primal).form is Form.FORWARD
    return is_primal and eqn.inputs[: len(primal.inputs)] == primal.inputs
