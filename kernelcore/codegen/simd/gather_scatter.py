"""Elements anywhere in memory, one per lane: loaded and stored one by one (docs/decisions/082)."""

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


def store(e: Emitter, element: str, size_bytes: int, addresses: Sequence[str], values: str) -> None:
    """Write the values of the lanes to their addresses, in the order of lanes."""
    for lane, target in enumerate(addresses):
        one = e.op(f"extractelement <{e.gang} x {element}> {values}, i64 {lane}")
        e.effect(f"store {element} {one}, ptr {target}, align {size_bytes}")
