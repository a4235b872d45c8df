"""Reverse mode of snippets: the adjoint text runs in place of the forward text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.errors import KernelGradError
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Eqn, Var
from kernelcore.ir.native import Form, Snippet, array_uses, is_float_value, snippet_of
from kernelcore.ir.op import NATIVE, WRITES
from kernelcore.types import ArrayType, Scalar

if TYPE_CHECKING:
    from kernelcore.passes.reverse import Cotangents, Reverse


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
    arguments = snippet.arguments(eqn.inputs)
    for param, (_, atoms) in zip(snippet.params, arguments, strict=True):
        if not isinstance(param.type, ArrayType):
            values = [reverse.replay.value(a) for a in atoms]
            targets += atoms if is_float_value(param) else ()
            given.append(False)
        else:
            indices = [reverse.replay.value(a) for a in atoms[1:]]
            values = [atoms[0], *indices] if param.is_recalled else []
            adjoint = reverse.adjoint.get(atoms[0])
            given.append(adjoint is not None)
            adjoints += [] if adjoint is None else [adjoint, *indices]
        inputs += values
    seeds = [reverse.take(cotangents, v) if _is_float(v) else _zero_of(v) for v in eqn.outputs]
    form = snippet.adjoint_form(given)
    found = reverse.builder.emit_all(NATIVE, (*inputs, *adjoints, *seeds), snippet=form)
    for target, term in zip(targets, found, strict=True):
        reverse.add(cotangents, target, term)


def touches_memory(reverse: Reverse, eqn: Eqn) -> bool:
    """Whether a NATIVE Eqn writes an array that has cotangents."""
    return any(u.writes and u.array in reverse.adjoint for u in array_uses(eqn))


def _check(reverse: Reverse, eqn: Eqn, snippet: Snippet) -> None:
    if snippet.form is not Form.FORWARD:
        raise KernelGradError(
            f"{snippet.name}() is a native snippet: it has no second derivative",
            eqn.loc,
            "write the function in the kernel language to differentiate it twice",
        )
    if snippet.adjoint is None:
        raise KernelGradError(
            f"{snippet.name}() is a native snippet without an adjoint",
            eqn.loc,
            "give its derivative: @func_native(snippet, adj_snippet)",
        )
    for param, (_, atoms) in zip(snippet.params, snippet.arguments(eqn.inputs), strict=True):
        if param.is_recalled:
            _check_recalled(reverse, eqn, snippet, atoms[0])


def _check_recalled(reverse: Reverse, eqn: Eqn, snippet: Snippet, array: Atom) -> None:
    """Refuse an adjoint that reads an array whose elements the kernel has changed since."""
    accesses = reverse.replay.accesses
    others = [a for a in accesses.native.get(array, ()) if a.use.writes]
    if accesses.has_own(array, *WRITES) or any(a.eqn is not eqn or a.is_in_loop for a in others):
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


def _is_float(var: Var) -> bool:
    return isinstance(var.type, Scalar) and var.type.is_float


def _zero_of(var: Var) -> Atom:
    assert isinstance(var.type, Scalar)
    return zero(var.type)
