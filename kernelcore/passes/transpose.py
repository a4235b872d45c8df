"""Rules of one mode made of those of the other: a derivative is linear, so it has a transpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelcore.builtins.arithmetic import add, mul
from kernelcore.errors import KernelGradError
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Const, Eqn, Func, Var
from kernelcore.ir.custom import Argument, instantiate, rules_of
from kernelcore.ir.op import CAST
from kernelcore.passes.linear import nonlinear_place
from kernelcore.types import ArrayType, Scalar


@dataclass(frozen=True, slots=True)
class Seeds:
    """Parameters of a rule in which it is linear.

    Attributes:
        first: Position of the first of them.
        types: Their types, all scalars.
    """

    first: int
    types: tuple[Scalar, ...]


def transposed(
    builder: Builder,
    eqn: Eqn,
    rule: Func,
    arguments: Sequence[Argument],
    seeds: Seeds,
    weights: Sequence[Atom | None],
) -> list[Atom]:
    """Emit the transpose of ``rule``: per seed, the weighted sum of the results for it alone.

    Args:
        builder: Where the code goes.
        eqn: The call of the function that has the rule.
        rule: A Func of ``arguments``, then seeds.
        arguments: Those of the call.
        seeds: The parameters in which the rule is linear.
        weights: One per result of the rule; None stands for zero.

    Raises:
        KernelGradError: The rule is not linear.
    """
    last = seeds.first + len(seeds.types)
    place = nonlinear_place(rule, rule.params[seeds.first : last])
    if place is not None:
        name = rules_of(eqn).name
        raise KernelGradError(
            f"the derivative of {name}() in the other mode is not seen to be linear, "
            "so this one does not follow from it",
            place.loc or eqn.loc,
            f"give both: @func_grad({name}) and @func_jvp({name})",
        )
    found: list[Atom] = []
    for k, dtype in enumerate(seeds.types):
        units = [Const(t, 1.0) if n == k else zero(t) for n, t in enumerate(seeds.types)]
        if not dtype.is_float:
            found.append(zero(dtype))
            continue
        body = instantiate(rule, [*arguments, *((u,) for u in units)])
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


def scalar_types(atoms: Sequence[Var]) -> tuple[Scalar, ...]:
    """The types of ``atoms``, which are scalars."""
    return tuple(a.type for a in atoms if isinstance(a.type, Scalar))


def has_arrays(params: Sequence[Var]) -> bool:
    """Whether one of ``params`` is an array of floats."""
    return any(isinstance(p.type, ArrayType) and p.type.dtype.is_float for p in params)
