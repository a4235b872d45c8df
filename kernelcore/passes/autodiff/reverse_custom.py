"""Reverse mode of functions with their own derivatives: the rule runs in place of the code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Eqn, Func, Var
from kernelcore.ir.derivative_rules import Absent, Argument, Rules, instantiate, rules_of
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.autodiff.custom_rules import check_loads, float_arguments, written
from kernelcore.passes.autodiff.transpose import transposed

if TYPE_CHECKING:
    from kernelcore.passes.autodiff.reverse import Cotangents, Reverse


def call(reverse: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Emit the adjoint of a CUSTOM Eqn, if a cotangent reaches what it makes.

    Raises:
        KernelGradError: It has no adjoint, and none follows from its rules.
    """
    if not any(v in cotangents for v in eqn.outputs) and not _touches_memory(reverse, eqn):
        return
    rules = rules_of(eqn)
    if rules.adjoint is not None:
        terms = _adjoint(reverse, eqn, rules.adjoint, cotangents)
    else:
        assert rules.jvp is not None
        terms = _transposed(reverse, eqn, rules.jvp, cotangents)
    scalars = [a[0] for a in float_arguments(rules, eqn.inputs) if isinstance(a[0].type, Scalar)]
    for target, term in zip(scalars, terms, strict=True):
        reverse.add(cotangents, target, term)


def _adjoint(reverse: Reverse, eqn: Eqn, rule: Func, cotangents: Cotangents) -> tuple[Atom, ...]:
    rules = rules_of(eqn)
    check_loads(rule, eqn, reverse.replay.accesses, is_reverse=True)
    given: list[Argument | Absent] = list(_arguments(reverse, rules, eqn))
    for out in eqn.outputs:
        given.append((_cotangent(reverse, cotangents, out),))
    for original in float_arguments(rules, eqn.inputs):
        if not isinstance(original[0].type, ArrayType):
            continue
        leading = tuple(reverse.replay.value(a) for a in original[1:])
        adjoint = reverse.adjoint.get(original[0])
        like = (original[0], *leading)
        given.append(Absent(like) if adjoint is None else (adjoint, *leading))
    body = instantiate(rule, given)
    for inner in body.eqns:
        reverse.builder.append(inner)
    return body.yields


def _transposed(reverse: Reverse, eqn: Eqn, rule: Func, cotangents: Cotangents) -> list[Atom]:
    """The adjoint that follows from a rule for tangents."""
    rules = rules_of(eqn)
    targets = float_arguments(rules, eqn.inputs)
    arrays = [a[0] for a in targets if isinstance(a[0].type, ArrayType)]
    if any(a in reverse.varied for a in arrays):
        raise KernelGradError(
            f"{rules.name}() takes arrays that vary, and has a derivative in forward mode only",
            eqn.loc,
            f"give the other one: @func_grad({rules.name})",
        )
    check_loads(rule, eqn, reverse.replay.accesses, is_reverse=True)
    weights = [
        _cotangent(reverse, cotangents, v) if v in cotangents else None
        for v in eqn.outputs
        if isinstance(v.type, Scalar) and v.type.is_float
    ]
    arguments = _arguments(reverse, rules, eqn)
    types = [a[0].type for a in targets if isinstance(a[0].type, Scalar)]
    return transposed(reverse.builder, eqn, rule, arguments, types, weights)


def _arguments(reverse: Reverse, rules: Rules, eqn: Eqn) -> list[Argument]:
    """The arguments in the reverse sweep."""
    return [
        tuple(a if isinstance(a.type, ArrayType) else reverse.replay.value(a) for a in argument)
        for argument in rules.arguments(eqn.inputs)
    ]


def _cotangent(reverse: Reverse, cotangents: Cotangents, out: Var) -> Atom:
    assert isinstance(out.type, Scalar)
    return reverse.take(cotangents, out) if out.type.is_float else zero(out.type)


def _touches_memory(reverse: Reverse, eqn: Eqn) -> bool:
    """Whether the function writes an array that has cotangents."""
    return any(array in reverse.adjoint for array in written(eqn))
