"""Elements that lie anywhere, one per lane: accessed in place, or where that is rare by calls.

A call saves what its function takes again and again; its function is compiled once per kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen.llvm.emitter import Emitter


def load(e: Emitter, element: str, size_bytes: int, addresses: Sequence[str]) -> str:
    """The elements of type ``element`` at the addresses of the lanes."""
    found = "poison"
    for lane, source in enumerate(addresses):
        one = e.op(f"load {element}, ptr {source}, align {size_bytes}")
        wide = f"<{e.gang} x {element}> {found}"
        found = e.op(f"insertelement {wide}, {element} {one}, i64 {lane}")
    return found


def store(e: Emitter, element: str, size_bytes: int, addresses: Sequence[str], values: str) -> None:
    """Write the values of the lanes to their addresses, in the order of lanes."""
    for lane, target in enumerate(addresses):
        one = e.op(f"extractelement <{e.gang} x {element}> {values}, i64 {lane}")
        e.effect(f"store {element} {one}, ptr {target}, align {size_bytes}")


def call_load(e: Emitter, element: str, size_bytes: int, addresses: str) -> str:
    """As ``load``, by a call; ``addresses`` are in a vector."""
    inner, wide = Emitter(e.gang, {}), f"<{e.gang} x {element}>"
    found = load(inner, element, size_bytes, lanes_of(inner, "%addresses"))
    inner.effect(f"ret {wide} {found}")
    head = f"{wide} @kc.load.{element}.v{e.gang}"
    e.declare(inner.function(f"{head}(<{e.gang} x ptr> %addresses)"))
    return e.op(f"call {head}(<{e.gang} x ptr> {addresses})")


def call_store(e: Emitter, element: str, size_bytes: int, addresses: str, values: str) -> None:
    """As ``store``, by a call; ``addresses`` are in a vector."""
    inner, wide = Emitter(e.gang, {}), f"<{e.gang} x {element}>"
    store(inner, element, size_bytes, lanes_of(inner, "%addresses"), "%values")
    inner.effect("ret void")
    head = f"void @kc.store.{element}.v{e.gang}"
    e.declare(inner.function(f"{head}(<{e.gang} x ptr> %addresses, {wide} %values)"))
    e.effect(f"call {head}(<{e.gang} x ptr> {addresses}, {wide} {values})")


def lanes_of(e: Emitter, addresses: str) -> list[str]:
    """The addresses of the lanes, one by one."""
    wide = f"<{e.gang} x ptr>"
    return [e.op(f"extractelement {wide} {addresses}, i64 {k}") for k in range(e.gang)]
