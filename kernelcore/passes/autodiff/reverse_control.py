"""Reverse mode of control flow: branches are taken again, loops run backwards.

A loop whose iterations meet in sums alone runs forwards: rows are read in the order of addresses.
"""

from __future__ import annotations

from kernelcore.builtins.arithmetic import add, mul, range_len, sub
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import ANY_ORDER, CAST, ENDS_TOGETHER, FEW_TRIPS, REPEATABLE, OpKind
from kernelcore.ir.walk import LEADING, bound_vars, captured_vars, walk_eqns
from kernelcore.language.types import Scalar, int32, int64, uint64
from kernelcore.passes.access.collected_values import CollectedValues
from kernelcore.passes.autodiff import snippet_calls
from kernelcore.passes.autodiff.primal_recomputation import RegionState
from kernelcore.passes.autodiff.reverse import Cotangents, Reverse
from kernelcore.passes.autodiff.running_extrema import attained

_ONLY_ADDS = REPEATABLE | {OpKind.LOAD, OpKind.ATOMIC_ADD, OpKind.IF, OpKind.FOR}
_SOURCES = frozenset({OpKind.STORE, OpKind.ATOMIC_ADD, OpKind.PUSH, OpKind.POP})


def branch(state: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Reverse an ``if``: the same condition, the reverse sweep of the branch that was taken."""
    outs = [v for v in eqn.outputs if v in cotangents]
    if not outs and not _enters_by_memory(state, eqn):
        return
    incoming = {v: state.take(cotangents, v) for v in outs}
    found: list[tuple[RegionState, Cotangents]] = []
    for region in eqn.regions:
        body_state = state.primal.open(region)
        inner = Cotangents(state.builder)
        with state.builder.into(body_state.eqns):
            for out, yielded in zip(eqn.outputs, region.yields, strict=True):
                if out in incoming:
                    state.add(inner, yielded, incoming[out])
            state.region(region, inner)
        found.append((body_state, inner))
    bound = {v for region in eqn.regions for v in bound_vars(region)}
    targets = list(dict.fromkeys(v for _, inner in found for v in inner if v not in bound))
    branches: list[Region] = []
    for body_state, inner in found:
        with state.builder.into(body_state.eqns):
            yields = tuple(state.take(inner, v) for v in targets)
        branches.append(Region((), tuple(body_state.eqns), yields))
    cond = state.primal.value(eqn.inputs[0])
    # Primal values that the branches asked for are emitted before the ``if``.
    names = [f"ct_{v.name}" for v in targets]
    for target, out in zip(
        targets, state.builder.emit_if(cond, *branches, names=names), strict=True
    ):
        state.add(cotangents, target, out)


def loop(state: Reverse, eqn: Eqn, cotangents: Cotangents) -> None:
    """Reverse a loop: the same iterations, last first, carrying the cotangents.

    The order is that of the primal where only the rounding of sums depends on it.

    It carries the cotangents of the active values that the primal carries, and the sums for
    values from outside that its body uses.
    """
    slots = [i for i, v in enumerate(eqn.outputs) if v in state.active]
    if not any(v in cotangents for v in eqn.outputs) and not _enters_by_memory(state, eqn):
        return
    body = eqn.regions[-1]
    lead, first = LEADING[eqn.op.kind]
    captured = [v for v in captured_vars(eqn) if v in state.active and isinstance(v.type, Scalar)]
    init = [state.take(cotangents, eqn.outputs[i]) for i in slots]
    init += [state.take(cotangents, v) for v in captured]
    carried = tuple(Var(a.type, "ct") for a in init)
    trips, counter = _trips(state, eqn)
    extremum = attained(state, eqn, trips, lambda k: _index(state, eqn, k))
    body_state = state.primal.open(body)
    inner = Cotangents(state.builder, dict(zip(captured, carried[len(slots) :], strict=True)))
    with state.builder.into(body_state.eqns):
        if eqn.op.kind is OpKind.FOR:
            body_state.values[body.params[0]] = _index(state, eqn, counter)
        if extremum is not None:
            body_state.values[body.params[1]] = extremum.before(state, counter)
        for slot, cotangent in zip(slots, carried, strict=False):
            state.add(inner, body.yields[slot], cotangent)
        state.region(body, inner)
        params = [body.params[first + i] for i in slots]
        yields = tuple(state.take(inner, v) for v in (*params, *captured))
    backwards = Region((counter, *carried), tuple(body_state.eqns), yields)
    assert isinstance(counter.type, Scalar)
    nothing, one, down = (Const(counter.type, value) for value in (0, 1, -1))
    names = [f"ct_{v.name}" for v in (*params, *captured)]
    if extremum is not None:
        bounds = extremum.last, state.builder.emit(sub.op, extremum.first, one), down
        attrs = {FEW_TRIPS: True}
    elif _only_adds(backwards):
        bounds, attrs = (nothing, trips, one), {ANY_ORDER: True}
    else:
        bounds = state.builder.emit(sub.op, trips, one), down, down
        attrs = {} if ENDS_TOGETHER in eqn.attrs else {ENDS_TOGETHER: True}
    outs = state.builder.emit_for(*bounds, init, backwards, names, **attrs)
    if extremum is not None:
        outs = (extremum.entering(state, outs[0]), *outs[1:])
    for slot, out in zip(slots, outs, strict=False):
        state.add(cotangents, eqn.inputs[lead + slot], out)
    for var, out in zip(captured, outs[len(slots) :], strict=True):
        state.add(cotangents, var, out)


def _only_adds(body: Region) -> bool:
    """Whether iterations of a loop with ``body`` do nothing but add, to elements and to sums."""
    eqns = list(walk_eqns(body))
    if any(eqn.op.kind not in _ONLY_ADDS for eqn in eqns):
        return False
    added = {eqn.inputs[0] for eqn in eqns if eqn.op.kind is OpKind.ATOMIC_ADD}
    if any(eqn.op.kind is OpKind.LOAD and eqn.inputs[0] in added for eqn in eqns):
        return False
    collected = CollectedValues(body)
    carried = zip(body.params[1:], body.yields, strict=True)
    return all(collected.operation(p, y) is add.op or _stays(body, p, y) for p, y in carried)


def _stays(body: Region, param: Var, result: Atom) -> bool:
    """Whether ``result`` is what ``param`` was, handed through loops that do not change it."""
    value = param
    skipped, leading = LEADING[OpKind.FOR]
    for eqn in body.eqns:
        if value is result:
            break
        if eqn.op.kind is OpKind.FOR and value in eqn.inputs[skipped:]:
            (inner,), slot = eqn.regions, eqn.inputs.index(value, skipped) - skipped
            if not _stays(inner, inner.params[leading + slot], inner.yields[slot]):
                return False
            value = eqn.outputs[slot]
    return value is result


def _trips(state: Reverse, eqn: Eqn) -> tuple[Atom, Var]:
    """How often the primal body ran, and a counter to run over it."""
    if eqn.op.kind is OpKind.WHILE:
        return state.primal.trips(eqn), Var(int64, "k")
    emit, bounds = state.builder.emit, [state.primal.value(a) for a in eqn.inputs[:3]]
    dtype = bounds[0].type
    if _is_extent(state, eqn.inputs[1]) and [*eqn.inputs[:3:2]] == [
        Const(int32, 0),
        Const(int32, 1),
    ]:
        return bounds[1], Var(dtype, "k")
    if dtype in (int32, int64):
        return emit(range_len.op, *bounds), Var(dtype, "k")
    # A narrow index can take more iterations than it can count; an unsigned one cannot count down.
    if dtype != uint64:
        return emit(range_len.op, *(emit(CAST, b, dtype=int64) for b in bounds)), Var(int64, "k")
    return emit(CAST, emit(range_len.op, *bounds), dtype=int64), Var(int64, "k")


def _is_extent(state: Reverse, atom: Atom) -> bool:
    """Whether the primal value ``atom`` is an extent of an array, which is not negative."""
    maker = state.primal.maker.get(atom) if isinstance(atom, Var) else None
    return maker is not None and maker.op.kind is OpKind.DIM


def _index(state: Reverse, eqn: Eqn, counter: Var) -> Atom:
    """The loop index of the primal at iteration ``counter``."""
    start, _, step = (state.primal.value(a) for a in eqn.inputs[:3])
    if counter.type != start.type:
        counter = state.builder.emit(CAST, counter, dtype=start.type)
    # Access analysis recognises the index only without a needless multiplication or addition.
    is_unit = isinstance(step, Const) and step.value == 1
    offset = counter if is_unit else state.builder.emit(mul.op, counter, step)
    starts_at_zero = isinstance(start, Const) and start.value == 0
    return offset if starts_at_zero else state.builder.emit(add.op, start, offset)


def _enters_by_memory(state: Reverse, eqn: Eqn) -> bool:
    """Whether cotangents enter ``eqn`` other than through its outputs."""

    def enters(e: Eqn) -> bool:
        if e.op.kind is OpKind.SNIPPET:
            return snippet_calls.writes_active(state, e)
        known = e.op.kind in _SOURCES
        return known and (e.inputs[0] in state.adjoint or e.inputs[0] in state.active)

    return any(enters(e) for e in walk_eqns(Region((), (eqn,))))
