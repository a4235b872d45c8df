"""What has no form for several lanes: it is done for one active lane after the other."""

from __future__ import annotations

from collections.abc import Callable

from kernelcore.builtins.lowering import LLVM_TYPES
from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.codegen.simd.masked_control import ALL_LANES, first_lane
from kernelcore.ir.core import Eqn, Var
from kernelcore.language.types import Scalar

# Emits an Eqn whose outputs are scalars.
ScalarHandler = Callable[[Emitter, Eqn], list[str]]


def by_lane(handler: ScalarHandler) -> ScalarHandler:
    """A handler that calls ``handler``, which knows one lane only, in a loop over the lanes."""

    def emit(e: Emitter, eqn: Eqn) -> list[str]:
        return handler(e, eqn) if e.gang == 1 else _each_lane(e, eqn, handler)

    return emit


def _each_lane(e: Emitter, eqn: Eqn, handler: ScalarHandler) -> list[str]:
    varying = [
        a
        for a in dict.fromkeys(eqn.inputs)
        if isinstance(a, Var) and isinstance(a.type, Scalar) and not e.is_uniform(a)
    ]
    given = [_spilled(e, a) for a in varying]
    taken = [e.slot(f"[{e.gang} x {_kept_as(v)}]") for v in eqn.outputs]
    bits, before, turn, done = f"i{e.gang}", e.block, e.label("lane"), e.label("lanes_done")
    active = e.op(f"bitcast <{e.gang} x i1> {e.mask or ALL_LANES} to {bits}")
    e.jump(turn)
    e.place(turn)
    left = e.phi(bits)
    e.add_edge(left, active, before)
    lane = first_lane(e, left)
    with e.gangs_of(1):
        saved = {a: e.bound(a) for a in varying}
        e.bind_all({a: _reload(e, a, s, lane) for a, s in zip(varying, given, strict=True)})
        values = handler(e, eqn)
        e.bind_all(saved)
        for out, slot, value in zip(eqn.outputs, taken, values, strict=True):
            _keep(e, out, value, slot, lane)
    rest = e.op(f"and {bits} {left}, {e.op(f'sub {bits} {left}, 1')}")
    e.add_edge(left, rest, e.block)
    e.branch(e.op(f"icmp ne {bits} {rest}, 0"), turn, done)
    e.place(done)
    return [_collected(e, out, slot) for out, slot in zip(eqn.outputs, taken, strict=True)]


def _kept_as(var: Var) -> str:
    """The LLVM type of a scalar in a frame: bits would be packed."""
    ty = LLVM_TYPES[scalar_type(var).name]
    return "i8" if ty == "i1" else ty


def _spilled(e: Emitter, var: Var) -> str:
    value, ty, kept = e.value_at(var, e.gang), LLVM_TYPES[scalar_type(var).name], _kept_as(var)
    if ty != kept:
        value = e.op(f"zext <{e.gang} x {ty}> {value} to <{e.gang} x {kept}>")
    slot = e.slot(f"<{e.gang} x {kept}>")
    e.effect(f"store <{e.gang} x {kept}> {value}, ptr {slot}")
    return slot


def _reload(e: Emitter, var: Var, slot: str, lane: str) -> str:
    ty, kept = LLVM_TYPES[scalar_type(var).name], _kept_as(var)
    found = e.op(f"load {kept}, ptr {e.op(f'getelementptr {kept}, ptr {slot}, i64 {lane}')}")
    return found if ty == kept else e.op(f"trunc {kept} {found} to {ty}")


def _keep(e: Emitter, var: Var, value: str, slot: str, lane: str) -> None:
    ty, kept = LLVM_TYPES[scalar_type(var).name], _kept_as(var)
    if ty != kept:
        value = e.op(f"zext {ty} {value} to {kept}")
    e.effect(f"store {kept} {value}, ptr {e.op(f'getelementptr {kept}, ptr {slot}, i64 {lane}')}")


def _collected(e: Emitter, var: Var, slot: str) -> str:
    ty, kept = LLVM_TYPES[scalar_type(var).name], _kept_as(var)
    align = scalar_type(var).size_bytes
    found = e.op(f"load <{e.gang} x {kept}>, ptr {slot}, align {align}")
    return found if ty == kept else e.op(f"trunc <{e.gang} x {kept}> {found} to <{e.gang} x {ty}>")
