"""Reverse mode of control flow: branches are taken again, loops run backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernelcore.builtins.arithmetic import add, mul, range_len, sub
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import CAST, ENDS_TOGETHER, OpKind
from kernelcore.ir.walk import LEADING, bound_vars, captured_vars, walk_eqns
from kernelcore.language.types import Scalar, int32, int64, uint64
from kernelcore.passes.autodiff import reverse_snippet

if TYPE_CHECKING:
    from kernelcore.passes.autodiff.reverse import Cotangents, Reverse

_SOURCES = frozenset({OpKind.STORE, OpKind.ATOMIC_ADD, OpKind.PUSH, OpKind.POP})


def branch(reverse: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Reverse an ``if``: the same condition, the reverse sweep of the branch that was taken."""
    outs = [v for v in eqn.outputs if v in cotangents]
    if not outs and not _touches_memory(reverse, eqn):
        return
    incoming = {v: cotangents.pop(v) for v in outs}
    found: list[tuple[Region, Cotangents]] = []
    for region in eqn.regions:
        frame = reverse.replay.open(region)
        inner: Cotangents = {}
        with reverse.builder.into(frame.eqns):
            for out, yielded in zip(eqn.outputs, region.yields, strict=True):
                if out in incoming:
                    reverse.add(inner, yielded, incoming[out])
            reverse.region(region, inner)
        found.append((Region((), tuple(frame.eqns)), inner))
    bound = {v for region in eqn.regions for v in bound_vars(region)}
    targets = list(dict.fromkeys(v for _, inner in found for v in inner if v not in bound))
    branches = [
        Region((), region.eqns, tuple(reverse.take(inner, v) for v in targets))
        for region, inner in found
    ]
    cond = reverse.replay.value(eqn.inputs[0])
    # The branches may have asked for values of this region: they are in place before the ``if``.
    names = [f"ct_{v.name}" for v in targets]
    for target, out in zip(
        targets, reverse.builder.emit_if(cond, *branches, names=names), strict=True
    ):
        reverse.add(cotangents, target, out)


def loop(reverse: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Reverse a loop: as many iterations, last first, carrying the cotangents.

    What is carried: the cotangents of the values that the primal carries and that vary, and the
    sums for values from outside that its body uses.
    """
    slots = [i for i, v in enumerate(eqn.outputs) if v in reverse.varied]
    if not any(v in cotangents for v in eqn.outputs) and not _touches_memory(reverse, eqn):
        return
    body = eqn.regions[-1]
    lead, first = LEADING[eqn.op.kind]
    captured = [v for v in captured_vars(eqn) if v in reverse.varied and isinstance(v.type, Scalar)]
    init = [reverse.take(cotangents, eqn.outputs[i]) for i in slots]
    init += [reverse.take(cotangents, v) for v in captured]
    carried = tuple(Var(a.type, "ct") for a in init)
    frame = reverse.replay.open(body)
    trips, counter = _trips(reverse, eqn)
    inner: Cotangents = dict(zip(captured, carried[len(slots) :], strict=True))
    with reverse.builder.into(frame.eqns):
        if eqn.op.kind is OpKind.FOR:
            frame.values[body.params[0]] = _index(reverse, eqn, counter)
        for slot, cotangent in zip(slots, carried, strict=False):
            reverse.add(inner, body.yields[slot], cotangent)
        reverse.region(body, inner)
    params = [body.params[first + i] for i in slots]
    yields = tuple(reverse.take(inner, v) for v in (*params, *captured))
    backwards = Region((counter, *carried), tuple(frame.eqns), yields)
    assert isinstance(counter.type, Scalar)
    last = reverse.builder.emit(sub.op, trips, Const(counter.type, 1))
    down = Const(counter.type, -1)
    names = [f"ct_{v.name}" for v in (*params, *captured)]
    attrs = {} if ENDS_TOGETHER in eqn.attrs else {ENDS_TOGETHER: True}
    outs = reverse.builder.emit_for(last, down, down, init, backwards, names, **attrs)
    for slot, out in zip(slots, outs, strict=False):
        reverse.add(cotangents, eqn.inputs[lead + slot], out)
    for var, out in zip(captured, outs[len(slots) :], strict=True):
        reverse.add(cotangents, var, out)


def _trips(reverse: Reverse, eqn: Eqn) -> tuple[Atom, Var]:
    """How often the primal body ran, and a counter to run over it."""
    if eqn.op.kind is OpKind.WHILE:
        return reverse.replay.trips(eqn), Var(int64, "k")
    emit, bounds = reverse.builder.emit, [reverse.replay.value(a) for a in eqn.inputs[:3]]
    dtype = bounds[0].type
    if dtype in (int32, int64):
        return emit(range_len.op, *bounds), Var(dtype, "k")
    # A narrow index can take more turns than it can count; an unsigned one cannot count down.
    if dtype != uint64:
        return emit(range_len.op, *(emit(CAST, b, dtype=int64) for b in bounds)), Var(int64, "k")
    return emit(CAST, emit(range_len.op, *bounds), dtype=int64), Var(int64, "k")


def _index(reverse: Reverse, eqn: Eqn, counter: Var) -> Atom:
    """The loop index of the primal at iteration ``counter``."""
    start, _, step = (reverse.replay.value(a) for a in eqn.inputs[:3])
    if counter.type != start.type:
        counter = reverse.builder.emit(CAST, counter, dtype=start.type)
    # What is plain here is known to analyses as the index of the loop.
    is_unit = isinstance(step, Const) and step.value == 1
    offset = counter if is_unit else reverse.builder.emit(mul.op, counter, step)
    starts_at_zero = isinstance(start, Const) and start.value == 0
    return offset if starts_at_zero else reverse.builder.emit(add.op, start, offset)


def _touches_memory(reverse: Reverse, eqn: Eqn) -> bool:
    """Whether cotangents enter ``eqn`` other than through its outputs."""

    def touches(e: Eqn) -> bool:
        if e.op.kind is OpKind.NATIVE:
            return reverse_snippet.touches_memory(reverse, e)
        known = e.op.kind in _SOURCES
        return known and (e.inputs[0] in reverse.adjoint or e.inputs[0] in reverse.varied)

    return any(touches(e) for e in walk_eqns(Region((), (eqn,))))
