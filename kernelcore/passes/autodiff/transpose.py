"""Rules of one mode made of those of the other: a derivative is linear, so it has a transpose."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.base.errors import KernelGradError
from kernelcore.builtins.arithmetic import add, mul
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Const, Eqn, Func
from kernelcore.ir.derivative_rules import Absent, Argument, instantiate, rules_of
from kernelcore.ir.op import CAST
from kernelcore.ir.walk import replace_body
from kernelcore.language.types import ArrayType, Scalar
from kernelcore.passes.autodiff.linearity import nonlinear_place
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.fold import simplify


def transposed(
    builder: Builder,
    eqn: Eqn,
    rule: Func,
    arguments: Sequence[Argument],
    seeds: Sequence[Scalar],
    weights: Sequence[Atom | None],
) -> list[Atom]:
    """Emit the transpose of ``rule``: per seed, the weighted sum of the results for it alone.

    Args:
        builder: Where the code goes.
        eqn: The call of the function that has the rule.
        rule: A Func of arguments, then of seeds, then of arrays that are zero.
        arguments: Those of the call.
        seeds: The types of the parameters in which the rule is linear.
        weights: One per result of the rule; None stands for zero.

    Raises:
        KernelGradError: The rule is not linear.
    """
    count = len(arguments) + len(seeds)
    rest = [Absent(a) for a in arguments if _is_float_array(a[0])]
    # Updates of absent arrays are dropped.
    alone = instantiate(rule, [*((p,) for p in rule.params[:count]), *rest])
    alone_func = dce(simplify(replace_body(rule, alone)))
    place = nonlinear_place(alone_func, rule.params[len(arguments) : count])
    if place is not None:
        name = rules_of(eqn).name
        raise KernelGradError(
            f"the derivative of {name}() in the other mode is not seen to be linear, "
            "so this one does not follow from it",
            place.loc or eqn.loc,
            f"give both: @func_grad({name}) and @func_jvp({name})",
        )
    found: list[Atom] = []
    for k, dtype in enumerate(seeds):
        units = [Const(t, 1.0) if n == k else zero(t) for n, t in enumerate(seeds)]
        if not dtype.is_float:
            found.append(zero(dtype))
            continue
        body = instantiate(rule, [*arguments, *((u,) for u in units), *rest])
        for inner in body.eqns:
            builder.append(inner)
        total: Atom | None = None
        for weight, result in zip(weights, body.yields, strict=True):
            if weight is None:
                continue
            term: Atom = builder.emit(mul.op, weight, result)
            term = term if term.type == dtype else builder.emit(CAST, term, dtype=dtype)
            total = term if total is None else builder.emit(add.op, total, term)
        found.append(zero(dtype) if total is None else total)
    return found


def _is_float_array(atom: Atom) -> bool:
    return isinstance(atom.type, ArrayType) and atom.type.dtype.is_float
