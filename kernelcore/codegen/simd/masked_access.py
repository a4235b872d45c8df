"""Adjacent elements under a mask: by the processor's instructions, or by calls where it has none.

LLVM would write a branch per element at every place, which takes it long and runs no faster.
"""

from __future__ import annotations

from kernelcore.codegen.llvm.emitter import Emitter

CACHE_LINE_BYTES = 64
_SUFFIXES = {"float": "f32", "double": "f64"}


def load(e: Emitter, element: str, size_bytes: int, count: int, start: str, mask: str) -> str:
    """``count`` elements from ``start`` on, 0 where ``mask`` does not hold: these are not read."""
    wide = f"<{count} x {element}>"
    if size_bytes < e.least_masked_bytes:
        place = stored(e, wide, "zeroinitializer", wide)
        _call_copy(e, element, size_bytes, count, (place, start), mask)
        return e.op(f"load {wide}, ptr {place}, align {CACHE_LINE_BYTES}")
    name = f"@llvm.masked.load.v{count}{_suffix(element)}.p0"
    e.declare(f"declare {wide} {name}(ptr, i32 immarg, <{count} x i1>, {wide})")
    active = f"<{count} x i1> {mask}, {wide} zeroinitializer"
    return e.op(f"call {wide} {name}(ptr {start}, i32 {size_bytes}, {active})")


def store(
    e: Emitter, element: str, size_bytes: int, count: int, bits: str, start: str, mask: str
) -> None:
    """Write ``count`` elements from ``start`` on, but for those where ``mask`` does not hold."""
    wide = f"<{count} x {element}>"
    if size_bytes < e.least_masked_bytes:
        _call_copy(e, element, size_bytes, count, (start, stored(e, wide, bits, wide)), mask)
        return
    name = f"@llvm.masked.store.v{count}{_suffix(element)}.p0"
    e.declare(f"declare void {name}({wide}, ptr, i32 immarg, <{count} x i1>)")
    target = f"ptr {start}, i32 {size_bytes}, <{count} x i1> {mask}"
    e.effect(f"call void {name}({wide} {bits}, {target})")


def _call_copy(
    e: Emitter, element: str, size_bytes: int, count: int, places: tuple[str, str], mask: str
) -> None:
    """Copy the elements of ``mask`` to the first of ``places`` from the second."""
    flags = e.op(f"zext <{count} x i1> {mask} to <{count} x i8>")
    # Elements of one byte lie elsewhere.
    active = stored(e, f"<{count} x i8>", flags, f"[{count} x i8]")
    target, source = places
    symbol = f"kc.copy_active.{element}"
    e.declare(_copy(symbol, element, size_bytes))
    e.effect(f"call void @{symbol}(ptr {target}, ptr {source}, ptr {active}, i64 {count})")


def _copy(symbol: str, element: str, size_bytes: int) -> str:
    """The function that copies, for any number of elements but none."""
    e = Emitter(1, {})
    turn, one, following, done = (e.label(x) for x in ("turn", "one", "following", "done"))
    e.jump(turn)
    e.place(turn)
    k = e.phi("i64")
    e.add_edge(k, "0", "entry")
    flag = e.op(f"load i8, ptr {e.op(f'getelementptr i8, ptr %active, i64 {k}')}")
    e.branch(e.op(f"icmp ne i8 {flag}, 0"), one, following)
    e.place(one)
    source = e.op(f"getelementptr {element}, ptr %source, i64 {k}")
    found = e.op(f"load {element}, ptr {source}, align {size_bytes}")
    target = e.op(f"getelementptr {element}, ptr %target, i64 {k}")
    e.effect(f"store {element} {found}, ptr {target}, align {size_bytes}")
    e.jump(following)
    e.place(following)
    next_k = e.op(f"add nuw nsw i64 {k}, 1")
    e.add_edge(k, next_k, following)
    e.branch(e.op(f"icmp ult i64 {next_k}, %count"), turn, done)
    e.place(done)
    e.effect("ret void")
    params = "ptr %target, ptr %source, ptr %active, i64 %count"
    return e.function(f"void @{symbol}({params})")


def stored(e: Emitter, wide: str, value: str, room: str) -> str:
    """Where ``value`` of type ``wide`` lies until the next one in room of the same type."""
    # A frame that is aligned for registers keeps those that LLVM spills within one line each.
    place = e.scratch(f"{room}, align {CACHE_LINE_BYTES}")
    e.effect(f"store {wide} {value}, ptr {place}, align {CACHE_LINE_BYTES}")
    return place


def _suffix(element: str) -> str:
    return _SUFFIXES.get(element, element)
