"""Forward mode of functions with their own derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.core import Atom, Eqn, Func, Region
from kernelcore.ir.derivative_rules import Absent, Argument, Rules, instantiate, rules_of
from kernelcore.ir.op import WRITES, OpKind
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.autodiff.custom_rules import check_loads, float_arguments, written
from kernelcore.passes.autodiff.transpose import transposed

if TYPE_CHECKING:
    from kernelcore.passes.autodiff.forward import Forward


def call(forward: Forward, eqn: Eqn) -> None:
    """Emit a CUSTOM Eqn and the tangents of what it makes.

    Raises:
        KernelGradError: It has no rule for tangents, and none follows from its adjoint.
    """
    body = _without_dead_writes(forward, eqn.regions[0])
    forward.builder.append(Eqn(eqn.op, eqn.inputs, eqn.outputs, eqn.attrs, (body,), eqn.loc))
    rules = rules_of(eqn)
    targets = float_arguments(rules, eqn.inputs)
    if not any(a[0] in forward.varied for a in targets):
        return
    if rules.jvp is not None:
        tangents = _own(forward, eqn, rules, rules.jvp)
    else:
        assert rules.adjoint is not None
        tangents = _transposed(forward, eqn, rules, rules.adjoint)
    floats = [v for v in eqn.outputs if isinstance(v.type, Scalar) and v.type.is_float]
    forward.tangent.update(zip(floats, tangents, strict=True))


def _own(forward: Forward, eqn: Eqn, rules: Rules, rule: Func) -> tuple[Atom, ...]:
    check_loads(rule, eqn, forward.accesses, is_reverse=False)
    scalars: list[Argument] = []
    arrays: list[Argument | Absent] = []
    for argument in float_arguments(rules, eqn.inputs):
        if not isinstance(argument[0].type, ArrayType):
            scalars.append((forward.of(argument[0]),))
            continue
        tangent = forward.tangent.get(argument[0])
        arrays.append(Absent(argument) if tangent is None else (tangent, *argument[1:]))
    body = instantiate(rule, [*rules.arguments(eqn.inputs), *scalars, *arrays])
    for inner in body.eqns:
        forward.builder.append(inner)
    return body.yields


def _transposed(forward: Forward, eqn: Eqn, rules: Rules, rule: Func) -> list[Atom]:
    """The tangents that follow from an adjoint."""
    targets = float_arguments(rules, eqn.inputs)
    arrays = [a[0] for a in targets if isinstance(a[0].type, ArrayType)]
    if any(a in forward.varied for a in (*arrays, *written(eqn))):
        raise KernelGradError(
            f"{rules.name}() takes arrays that vary, and has a derivative in reverse mode only",
            eqn.loc,
            f"give the other one: @func_jvp({rules.name})",
        )
    check_loads(rule, eqn, forward.accesses, is_reverse=False)
    weights = [forward.tangent.get(a[0]) for a in targets if isinstance(a[0].type, Scalar)]
    arguments = rules.arguments(eqn.inputs)
    seeds = [v.type for v in eqn.outputs if isinstance(v.type, Scalar)]
    found = transposed(forward.builder, eqn, rule, arguments, seeds, weights)
    return [t for t, dtype in zip(found, seeds, strict=True) if dtype.is_float]


def _without_dead_writes(forward: Forward, region: Region) -> Region:
    """``region`` without what it writes to arrays that are never loaded."""
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        if eqn.op.kind in WRITES and not forward.accesses.has(eqn.inputs[0], OpKind.LOAD):
            continue
        regions = tuple(_without_dead_writes(forward, r) for r in eqn.regions)
        eqns.append(Eqn(eqn.op, eqn.inputs, eqn.outputs, eqn.attrs, regions, eqn.loc))
    return Region(region.params, tuple(eqns), region.yields)
