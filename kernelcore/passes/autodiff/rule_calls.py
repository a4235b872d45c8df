"""Calls of functions with derivative rules: the rule runs in place of the derivative of the code.

Where a function has a rule for the other mode only, the transpose of that rule is taken.
"""

from __future__ import annotations

from kernelcore.base.errors import KernelGradError
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Absent, Argument, instantiate, rules_of
from kernelcore.ir.op import WRITES, OpKind
from kernelcore.ir.walk import rewrite, without
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.autodiff.forward import Forward
from kernelcore.passes.autodiff.reverse import Cotangents, Reverse
from kernelcore.passes.autodiff.rules import check_loads, float_arguments, written
from kernelcore.passes.autodiff.transpose import transposed


def forward(state: Forward, eqn: Eqn) -> None:
    """Emit a CUSTOM Eqn and the tangents of its float results.

    Raises:
        KernelGradError: It has no rule for tangents, and none follows from its adjoint.
    """

    def kept(inner: Eqn) -> Eqn | Region:
        """``inner``, unless it writes an array that is never loaded."""
        is_write = inner.op.kind in WRITES
        is_dead = is_write and not state.accesses.has(inner.inputs[0], OpKind.LOAD)
        return without(inner) if is_dead else inner

    body = rewrite(eqn.regions[0], kept)
    state.builder.append(Eqn(eqn.op, eqn.inputs, eqn.outputs, eqn.attrs, (body,), eqn.loc))
    rules = rules_of(eqn)
    scalars, arrays = _float_arguments(eqn)
    if not any(a[0] in state.active for a in (*scalars, *arrays)):
        return
    if rules.jvp is not None:
        check_loads(rules.jvp, eqn, state.accesses, is_reverse=False)
        given: list[Argument | Absent] = [*rules.arguments(eqn.inputs)]
        given += [(state.of(a[0]),) for a in scalars]
        given += [_array(state.tangent.get(a[0]), a) for a in arrays]
        tangents = _emit(state.builder, rules.jvp, given)
    else:
        assert rules.adjoint is not None
        if any(a in state.active for a in (*(a[0] for a in arrays), *written(eqn))):
            raise _no_transpose(eqn, "reverse", "@func_jvp")
        check_loads(rules.adjoint, eqn, state.accesses, is_reverse=False)
        seeds = [v.type for v in eqn.outputs if isinstance(v.type, Scalar)]
        arguments = rules.arguments(eqn.inputs)
        weights = [state.tangent.get(a[0]) for a in scalars]
        found = transposed(state.builder, eqn, rules.adjoint, arguments, seeds, weights)
        tangents = tuple(t for t, dtype in zip(found, seeds, strict=True) if dtype.is_float)
    floats = [v for v in eqn.outputs if isinstance(v.type, Scalar) and v.type.is_float]
    state.tangent.update(zip(floats, tangents, strict=True))


def reverse(state: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Emit the adjoint of a CUSTOM Eqn, if a cotangent reaches a result or an array it writes.

    Raises:
        KernelGradError: It has no adjoint, and none follows from its rule for tangents.
    """
    writes_active = any(array in state.adjoint for array in written(eqn))
    if not writes_active and not any(v in cotangents for v in eqn.outputs):
        return
    rules = rules_of(eqn)
    scalars, arrays = _float_arguments(eqn)
    arguments = [
        tuple(a if isinstance(a.type, ArrayType) else state.primal.value(a) for a in argument)
        for argument in rules.arguments(eqn.inputs)
    ]

    def cotangent(out: Var) -> Atom:
        assert isinstance(out.type, Scalar)
        return state.take(cotangents, out) if out.type.is_float else zero(out.type)

    if rules.adjoint is not None:
        check_loads(rules.adjoint, eqn, state.primal.accesses, is_reverse=True)
        given: list[Argument | Absent] = [*arguments, *((cotangent(v),) for v in eqn.outputs)]
        for array, *indices in arrays:
            view = (array, *(state.primal.value(a) for a in indices))
            given.append(_array(state.adjoint.get(array), view))
        terms = _emit(state.builder, rules.adjoint, given)
    else:
        assert rules.jvp is not None
        if any(a[0] in state.active for a in arrays):
            raise _no_transpose(eqn, "forward", "@func_grad")
        check_loads(rules.jvp, eqn, state.primal.accesses, is_reverse=True)
        weights = [
            cotangent(v) if v in cotangents else None
            for v in eqn.outputs
            if isinstance(v.type, Scalar) and v.type.is_float
        ]
        seeds = [a[0].type for a in scalars if isinstance(a[0].type, Scalar)]
        terms = transposed(state.builder, eqn, rules.jvp, arguments, seeds, weights)
    for target, term in zip(scalars, terms, strict=True):
        state.add(cotangents, target[0], term)


def _float_arguments(eqn: Eqn) -> tuple[list[Argument], list[Argument]]:
    """The scalars among the arguments that have derivatives, and the arrays."""
    found = float_arguments(rules_of(eqn), eqn.inputs)
    scalars = [a for a in found if isinstance(a[0].type, Scalar)]
    return scalars, [a for a in found if isinstance(a[0].type, ArrayType)]


def _array(derivative: Atom | None, primal: Argument) -> Argument | Absent:
    """The tangents or cotangents of an argument; absent where there are none."""
    return Absent(primal) if derivative is None else (derivative, *primal[1:])


def _emit(builder: Builder, rule: Func, given: list[Argument | Absent]) -> tuple[Atom, ...]:
    body = instantiate(rule, given)
    for inner in body.eqns:
        builder.append(inner)
    return body.yields


def _no_transpose(eqn: Eqn, mode: str, decorator: str) -> KernelGradError:
    name = rules_of(eqn).name
    return KernelGradError(
        f"{name}() takes arrays that vary, and has a derivative in {mode} mode only",
        eqn.loc,
        f"give the other one: {decorator}({name})",
    )
