"""Elements anywhere in memory, one per lane: most are accessed one by one (docs/decisions/082)."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen.llvm.emitter import Emitter


def load(e: Emitter, element: str, size_bytes: int, addresses: Sequence[str]) -> str:
    """The elements of LLVM type ``element`` at the addresses of the lanes."""
    found = "poison"
    for lane, source in enumerate(addresses):
        one = e.op(f"load {element}, ptr {source}, align {size_bytes}")
        wide = f"<{e.gang} x {element}> {found}"
        found = e.op(f"insertelement {wide}, {element} {one}, i64 {lane}")
    return found


def gather(e: Emitter, element: str, size_bytes: int, pointers: str) -> str:
    """The elements of LLVM type ``element`` of the active lanes, by one instruction."""
    wide, masks, suffix = f"<{e.gang} x {element}>", f"<{e.gang} x i1>", suffix_of(element)
    name = f"@llvm.masked.gather.v{e.gang}{suffix}.v{e.gang}p0"
    e.declare(f"declare {wide} {name}(<{e.gang} x ptr>, i32 immarg, {masks}, {wide})")
    active, others = (e.mask, "zeroinitializer") if e.mask else ("splat (i1 true)", "poison")
    place = f"<{e.gang} x ptr> {pointers}, i32 {size_bytes}"
    return e.op(f"call {wide} {name}({place}, {masks} {active}, {wide} {others})")


def suffix_of(element: str) -> str:
    """The LLVM type ``element`` in the name of an intrinsic."""
    return {"float": "f32", "double": "f64"}.get(element, element)


def store(e: Emitter, element: str, size_bytes: int, addresses: Sequence[str], values: str) -> None:
    """Write the values of the lanes to their addresses, in the order of lanes."""
    for lane, target in enumerate(addresses):
        one = e.op(f"extractelement <{e.gang} x {element}> {values}, i64 {lane}")
        e.effect(f"store {element} {one}, ptr {target}, align {size_bytes}")
