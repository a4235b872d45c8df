"""Loads that give the same in every iteration of a loop are made before it.

                                          if n > 0:
    for k in range(n):                        w = weight[i]
        y[i, k] = x[i, k] * weight[i]     for k in range(n):
                                              y[i, k] = x[i, k] * w

The reverse sweep adds to the cotangent of an element where the element is loaded: once behind the
loop then, rather than in every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.builtins.logic import greater, less
from kernelcore.builtins.reference import is_narrow
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Const, Eqn, Func, Region, Var
from kernelcore.ir.op import IF, READS, REPEATABLE, WRITES, OpKind
from kernelcore.ir.walk import array_type, eqns_inside, replace_body
from kernelcore.language.types import Scalar, boolean
from kernelcore.passes.access.repeated_loads import repeated_loads
from kernelcore.passes.access.trips import known_trips

# A loop with other operations may write, or end the launch, before an iteration loads.
_PLAIN = REPEATABLE | READS | WRITES | {OpKind.IF, OpKind.FOR}


def load_before_loops(func: Func) -> Func:
    """``func``, whose arrays share no memory, that loads before a loop what iterations repeat."""
    return replace_body(func, _region(func.body))


def _region(region: Region) -> Region:
    eqns: list[Eqn] = []
    for eqn in region.eqns:
        changed = replace(eqn, regions=tuple(map(_region, eqn.regions))) if eqn.regions else eqn
        eqns += _apart(changed) if changed.op.kind is OpKind.FOR else [changed]
    return replace(region, eqns=tuple(eqns))


def _apart(loop: Eqn) -> Iterator[Eqn]:
    """``loop``, behind what its iterations repeat."""
    found = {e: n for e, n in repeated_loads(loop).items() if _has_wide_floats(e)}
    is_plain = all(eqn.op.kind in _PLAIN for eqn in eqns_inside(loop))
    if not found or not is_plain or not isinstance(loop.inputs[2], Const):
        yield loop
        return
    indices = dict.fromkeys(eqn for needed in found.values() for eqn in needed)
    yield from indices
    yield from _loaded(loop, list(found))
    (body,) = loop.regions
    rest = tuple(eqn for eqn in body.eqns if eqn not in found and eqn not in indices)
    yield replace(loop, regions=(replace(body, eqns=rest),))


def _loaded(loop: Eqn, loads: Sequence[Eqn]) -> Iterator[Eqn]:
    """``loads``, if ``loop`` has iterations; else zeros in their place, which nothing uses."""
    if (known_trips(loop) or 0) > 0:
        yield from loads
        return
    start, stop, step = loop.inputs[:3]
    assert isinstance(step, Const)
    has_iterations = Var(boolean)
    is_before = less if step.value > 0 else greater
    yield Eqn(is_before.op, (start, stop), (has_iterations,), loc=loop.loc)
    inner = [replace(load, outputs=(Var(load.out.type, load.out.name),)) for load in loads]
    arms = (
        Region((), tuple(inner), tuple(load.out for load in inner)),
        Region((), (), tuple(zero(_scalar(load.out)) for load in loads)),
    )
    yield Eqn(IF, (has_iterations,), tuple(e.out for e in loads), regions=arms, loc=loads[0].loc)


def _has_wide_floats(load: Eqn) -> bool:
    """Whether a thread may sum up cotangents of what ``load`` gives.

    Elements of 16 bits are summed up in float32 where they are added to.
    """
    dtype = array_type(load).dtype
    return dtype.is_float and not is_narrow(dtype)


def _scalar(value: Var) -> Scalar:
    assert isinstance(value.type, Scalar)
    return value.type
