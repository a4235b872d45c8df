"""Device modules run on this processor: blocks are threads that meet where warps do.

What the code generator writes for GPUs is compiled for the host. Only what names the hardware is
replaced, by functions of ``block.cc``: special registers, shuffles, barriers, ``vprintf``, and
instructions of PTX (``test_assembly.py`` has what these mean).
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kernelcore.codegen import abi
from kernelcore.codegen.gpu import gpu_ops, ptx
from kernelcore.codegen.snippet import toolchain, translation_unit
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.ir.snippet import Snippet
from kernelcore.language.types import MAX_GRID_DIMS
from kernelcore.passes.access.accumulation_plan import Order
from tests.helpers.argument_block import pack
from tests.helpers.shared_library import build_library

SOURCE = Path(__file__).with_name("block.cc")
REPLACED = (
    (re.compile(r"\bptx_kernel "), ""),
    (re.compile(r"byval\(\[\d+ x i8\]\) align \d+ "), ""),
    (re.compile(re.escape(ptx.ADVANCE)), "i64 @emulated_advance"),
    (re.compile(re.escape(ptx.LOW_HALF)), "i32 @emulated_low_half"),
    (re.compile(re.escape(gpu_ops.SIGNED)), "i64 @emulated_signed_product"),
    (re.compile(re.escape(gpu_ops.UNSIGNED)), "i64 @emulated_unsigned_product"),
    (re.compile(r'asm "cvt\.rzi\.(\w+)\.(\w+) [^"]*", "[^"]*"'), r"@emulated_\1_of_\2"),
    (re.compile(r"@vprintf\b"), "@emulated_vprintf"),
    (re.compile(r"@llvm\.nvvm\.([\w.]+)"), lambda m: f"@emulated_{m.group(1).replace('.', '_')}"),
)
CONVERSIONS = "".join(
    f"declare i{bits} @emulated_{sign}{bits}_of_{source}({ty})\n"
    for bits in (32, 64)
    for sign in "su"
    for source, ty in (("f32", "float"), ("f64", "double"))
)
DECLARED = f"""
declare i64 @emulated_advance(i64)
declare i32 @emulated_low_half(i64)
declare i64 @emulated_signed_product(i32, i64)
declare i64 @emulated_unsigned_product(i32, i64)
{CONVERSIONS}"""
# A pair is returned in other registers than C++ has it.
MATCH = """
declare i32 @emulated_are_equal(i32, i64)
define internal { i32, i1 } @emulated_match_all_sync_i64p(i32 %mask, i64 %value) {
  %all = call i32 @emulated_are_equal(i32 %mask, i64 %value)
  %same = trunc i32 %all to i1
  %pair = insertvalue { i32, i1 } poison, i32 %mask, 0
  %result = insertvalue { i32, i1 } %pair, i1 %same, 1
  ret { i32, i1 } %result
}
"""
DECLARED_MATCH = re.compile(r"declare .*@emulated_match_all_sync_i64p\(.*\n")


class Outcome(NamedTuple):
    """The status of a launch, what it printed, and the words after the status."""

    status: int
    printed: str
    words: tuple[int, ...] = ()


def run(
    func: Func,
    args: Sequence[Any],
    dims: Sequence[int] | int,
    blocks: int = 2,
    threads: int = 32,
    is_converged: bool = False,
    order: Order = Order.ANY,
) -> Outcome:
    """Run the device code of ``func``, as it is planned, over the grid.

    Args:
        func: A kernel with a plan of accumulations.
        args: NumPy arrays and numbers, one per parameter.
        dims: The grid.
        blocks: Blocks of the launch.
        threads: Threads per block.
        is_converged: Whether lanes of a warp always take the same path, so that they may meet
            inside of branches and loops.
        order: Which threads run points.
    """
    extents = [dims] if isinstance(dims, int) else list(dims)
    assert len(extents) == func.rank
    status = (ctypes.c_int64 * abi.STATUS_WORDS)()
    words = [*extents, *[1] * (MAX_GRID_DIMS - len(extents)), ctypes.addressof(status), 0, 0, 0]
    grid = (ctypes.c_int64 * len(words))(*words)
    assert ctypes.sizeof(grid) == abi.GRID_BYTES
    fields, size = abi.layout(func.params)
    block = pack(fields, size, args)
    data = (ctypes.c_char * max(len(block), 1)).from_buffer(block or bytearray(1))
    where = [ctypes.addressof(data), ctypes.addressof(grid)]
    misuses = _library().run_grid(
        _address(func, order), *where, math.prod(extents), blocks, threads, int(is_converged)
    )
    assert misuses == 0, f"lanes disagreed {misuses} times"
    printed = ctypes.string_at(_library().printed_text(), _library().printed_bytes())
    return Outcome(status[0], printed.decode(), tuple(status[1:]))


def host_text(func: Func, symbol: str, order: Order = Order.ANY) -> str:
    """The device module of ``func`` for this processor."""
    text = ptx.llvm_text(func, symbol, order)
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return DECLARED_MATCH.sub(MATCH, text, count=1) + DECLARED


def _address(func: Func, order: Order) -> int:
    digest = hashlib.sha256(f"{canonical(func)}{order.name}".encode()).hexdigest()
    symbol = f"emulated_{digest[:16]}"
    return _loaded(host_text(func, symbol, order), symbol, tuple(translation_unit.snippets(func)))


@cache
def _loaded(text: str, symbol: str, snippets: tuple[Snippet, ...]) -> int:
    # The functions that the module calls must be in the process before.
    _library()
    code = cpu.object_code(text)
    if snippets:
        code = toolchain.combine([code, *map(toolchain.compile_snippet, snippets)])
    return cpu.load(code, symbol)


@cache
def _library() -> Any:
    """``block.cc``, with its arguments."""
    path = build_library([SOURCE], ["-Wall", "-Wextra"])
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    where = [ctypes.c_void_p] * 3
    library.run_grid.argtypes = [*where, ctypes.c_int64, *[ctypes.c_int] * 3]
    library.printed_text.restype = ctypes.c_void_p
    library.printed_bytes.restype = ctypes.c_int64
    return library
