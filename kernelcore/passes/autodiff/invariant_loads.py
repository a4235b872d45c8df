"""Loads that give the same in every iteration of a loop are made before it.

                                          if n > 0:
    for k in range(n):                        w = weight[i]
        y[i, k] = x[i, k] * weight[i]     for k in range(n):
                                              y[i, k] = x[i, k] * w

The reverse sweep adds to the cotangent of an element where the element is loaded: once behind the
loop then, rather than in every iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernelcore.base.dataclass import replace
from kernelcore.builtins.logic import greater, less
from kernelcore.builtins.reference import is_narrow
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import IF, READS, REPEATABLE, WRITES, OpKind
from kernelcore.ir.walk import array_type, eqns_inside, replace_body
from kernelcore.language.types import Scalar, boolean
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
    repeated = _repeated(loop)
    loads = [eqn for eqn in repeated if eqn.op.kind is OpKind.LOAD]
    if not loads:
        yield loop
        return
    (body,) = loop.regions
    if (known_trips(loop) or 0) > 0:
        yield from repeated
    else:
        start, stop, step = loop.inputs[:3]
        assert isinstance(step, Const)
        has_iterations = Var(boolean)
        is_before = less if step.value > 0 else greater
        yield Eqn(is_before.op, (start, stop), (has_iterations,), loc=loop.loc)
        yield from (eqn for eqn in repeated if eqn not in loads)
        inner = [replace(load, outputs=(Var(load.out.type, load.out.name),)) for load in loads]
        yield Eqn(
            IF,
            (has_iterations,),
            tuple(load.out for load in loads),
            regions=(
                Region((), tuple(inner), tuple(load.out for load in inner)),
                Region((), (), tuple(zero(_scalar(load.out)) for load in loads)),
            ),
            loc=loads[0].loc,
        )
    rest = tuple(eqn for eqn in body.eqns if eqn not in repeated)
    yield replace(loop, regions=(replace(body, eqns=rest),))


def _repeated(loop: Eqn) -> list[Eqn]:
    """What loads wide floats alike in all iterations of ``loop``, and computes their indices."""
    (body,), inside = loop.regions, list(eqns_inside(loop))
    if not isinstance(loop.inputs[2], Const) or any(e.op.kind not in _PLAIN for e in inside):
        return []
    written = {eqn.inputs[0] for eqn in inside if eqn.op.kind in WRITES}
    own: set[Atom] = {*body.params, *(v for eqn in inside for v in eqn.outputs)}
    alike: dict[Var, Eqn] = {}
    needed: dict[Eqn, None] = {}

    def need(eqn: Eqn) -> None:
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom in alike:
                need(alike[atom])
        needed[eqn] = None

    for eqn in body.eqns:
        if any(a in own and a not in alike for a in eqn.inputs):
            continue
        if eqn.op.kind in REPEATABLE:
            alike[eqn.out] = eqn
        elif eqn.op.kind is OpKind.LOAD and eqn.inputs[0] not in written and _has_wide_floats(eqn):
            need(eqn)
    return list(needed)


def _has_wide_floats(load: Eqn) -> bool:
    """Whether a thread may sum up cotangents of what ``load`` gives.

    Elements of 16 bits are summed up in float32 where they are added to.
    """
    dtype = array_type(load).dtype
    return dtype.is_float and not is_narrow(dtype)


def _scalar(value: Var) -> Scalar:
    assert isinstance(value.type, Scalar)
    return value.type
