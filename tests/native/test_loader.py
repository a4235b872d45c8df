"""The loader of objects: relocations, what it refuses, and loading without LLVM."""

from __future__ import annotations

import ctypes
import os
import random
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelcore.base import native
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.target import cpu
from kernelcore.compiler.native_code import compile_func
from kernelcore.passes.pipeline import optimize
from tests.helpers.patterns.memory import tv_stencil

SHT_RELA, SHT_INIT_ARRAY = 4, 14
MAP_PRIVATE_ANONYMOUS = 0x22
PROT_ALL = 7

# Per relocation: its number, and a function `probe` that returns 42 if it was applied.
PROBES = {
    "NONE": (0, "probe: movl $42, %eax; ret; .reloc ., R_X86_64_NONE, answer"),
    "64": (1, "probe: movq where(%rip), %rax; movq (%rax), %rax; ret; .data; where: .quad answer"),
    "PC32": (2, "probe: movq answer(%rip), %rax; ret"),
    "PC32 to zeros": (2, "probe: movq zero(%rip), %rax; addq $42, %rax; ret; .bss; zero: .quad 0"),
    "PLT32": (4, "probe: call helper@PLT; ret; .globl helper; helper: movl $42, %eax; ret"),
    "PLT32 to the C library": (
        4,
        "probe: subq $8, %rsp; movl $-42, %edi; call abs@PLT; addq $8, %rsp; ret",
    ),
    "GOTPCREL": (
        9,
        "probe: leaq slot(%rip), %rcx; movslq (%rcx), %rax; addq %rcx, %rax; movq (%rax), %rax;"
        " movq (%rax), %rax; ret; .section .rodata; slot: .long answer@GOTPCREL",
    ),
    "32": (10, ".weak missing; probe: movl $missing+42, %eax; ret"),
    "32S": (11, ".weak missing; probe: movq $missing+42, %rax; ret"),
    "PC64": (
        24,
        "probe: leaq slot(%rip), %rcx; movq (%rcx), %rax; movq (%rax, %rcx), %rax; ret;"
        " slot: .quad answer - .",
    ),
    "GOTPCRELX": (
        41,
        "probe: call *helper@GOTPCREL(%rip); ret; .globl helper; helper: movl $42, %eax; ret",
    ),
    "REX_GOTPCRELX": (42, "probe: movq answer@GOTPCREL(%rip), %rax; movq (%rax), %rax; ret"),
}
ANSWER = ".section .rodata; .balign 16; .globl answer; answer: .quad 42; .quad 0"


def assembled(text: str) -> bytes:
    """The object of an assembly text; statements are separated by semicolons."""
    lines = [".text", ".globl probe", *text.split(";"), *ANSWER.split(";")]
    return cpu.object_code("\n".join(f'module asm "{line.strip()}"' for line in lines))


def relocation_kinds(code: bytes) -> Iterator[int]:
    """The numbers of the relocations in an object."""
    (first,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    for at in range(first, first + 64 * count, 64):
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", code, at)
        if kind == SHT_RELA:
            for row in range(offset, offset + size, 24):
                yield struct.unpack_from("<QII", code, row)[1]


def load(code: bytes, symbol: str = "probe") -> int:
    assert native.load_object is not None
    return native.load_object(code, symbol)


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64)(address)()


def stencil() -> tuple[bytes, str]:
    compiled = compile_func(optimize(tv_stencil.func))
    return compiled.image, compiled.symbol


@pytest.mark.parametrize("name", PROBES)
def test_relocations_are_applied(name: str) -> None:
    number, text = PROBES[name]
    code = assembled(text)
    assert number in set(relocation_kinds(code))
    assert call(load(code)) == 42


def test_kernels_need_no_other_relocations() -> None:
    known = {number for number, _ in PROBES.values()}
    assert set(relocation_kinds(stencil()[0])) <= known


def far_function() -> int:
    """The address of a function that returns 42, more than 2 GiB from where code is loaded."""
    code = bytes.fromhex("b82a000000c3")
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    found = libc.mmap(1 << 41, 4096, PROT_ALL, MAP_PRIVATE_ANONYMOUS, -1, 0)
    ctypes.memmove(found, code, len(code))
    return found


def test_calls_reach_functions_that_are_far_away() -> None:
    far = far_function()
    call_far = "probe: subq $8, %rsp; call far@PLT; addq $8, %rsp; ret"
    address = load(assembled(f".globl far; .set far, {far}; {call_far}"))
    assert abs(address - far) > 1 << 31
    assert call(address) == 42


def test_code_is_never_writable_and_data_is_never_executable() -> None:
    text = PROBES["64"][1]
    address = load(assembled(text))
    rows = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    ranges = [([int(x, 16) for x in span.split("-")], rights) for span, rights in rows]
    (rights,) = [r for (begin, end), r in ranges if begin <= address < end]
    assert rights == "r-xp"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("probe: .quad nobody_defines_this", "refers to 'nobody_defines_this'"),
        ("probe: .quad 0; .section .init_array; .quad probe", "runs when it is loaded"),
        ('probe: .quad 0; .section .tdata,\\"awT\\"; .quad 1', "variables of a thread"),
        (".data; probe: .quad 0", "'probe' is no function"),
        (".weak probe; other: .quad 0", "does not define 'probe'"),
        ("probe: .long answer", "out of range|is not known"),
    ],
)
def test_invalid_objects_are_refused(text: str, message: str) -> None:
    code = assembled(text.replace('\\"', "\\22"))
    with pytest.raises(KernelCompileError, match=message):
        load(code)


def test_objects_of_other_machines_are_refused() -> None:
    code = bytearray(assembled("probe: .quad 0"))
    code[18:20] = struct.pack("<H", 8)
    with pytest.raises(KernelCompileError, match="another machine"):
        load(bytes(code))


def test_truncated_objects_are_refused() -> None:
    code, symbol = stencil()
    for size in range(0, len(code), 7):
        with pytest.raises(KernelCompileError, match="object code"):
            load(code[:size], symbol)


def test_corrupted_objects_load_or_are_refused() -> None:
    code, symbol = stencil()
    choose = random.Random(1)
    refused = 0
    for _ in range(5000):
        damaged = bytearray(code)
        for _ in range(choose.randint(1, 4)):
            damaged[choose.randrange(len(code))] = choose.randrange(256)
        try:
            load(bytes(damaged), symbol)
        except KernelCompileError:
            refused += 1
    assert 0 < refused < 5000


def test_thousands_of_kernels_are_loaded() -> None:
    code = assembled(PROBES["PC32"][1])
    found = [load(code) for _ in range(5000)]
    assert len(set(found)) == len(found)
    assert {call(address) for address in found} == {42}


def test_threads_load_at_the_same_time() -> None:
    code = assembled(PROBES["PC32"][1])
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.extend(load(code) for _ in range(100)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 800
    assert {call(address) for address in found} == {42}


SCRIPT = """\
import os, sys
import numpy as np
import kernelcore as kc

@kc.kernel
def scale(x: kc.array(dtype=float), factor: float):
    i = kc.tid()
    x[i] = kc.sin(x[i]) * factor

x = np.ones(4, np.float32)
kc.launch(scale, dim=4, inputs=[x, 2.0])
child = os.fork()
if child == 0:
    kc.launch(scale, dim=4, inputs=[x, 2.0])
    os._exit(0 if abs(x[0] - 2 * np.sin(2 * np.sin(1.0))) < 1e-5 else 1)
_, status = os.waitpid(child, 0)
assert status == 0
print(x[0], "llvmlite" in sys.modules, "kernelcore.frontend.expressions.expression" in sys.modules)
"""


def test_a_warm_cache_needs_no_llvm(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "KC_CACHE_DIR": str(tmp_path / "cache"), "KC_CACHE": "1"}

    def run() -> list[str]:
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, check=True)
        return done.stdout.decode().split()

    cold, warm = run(), run()
    assert warm[0] == cold[0]
    assert (cold[1], warm[1]) == ("True", "False")


def test_importing_and_declaring_need_no_compiler(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    lines = SCRIPT.splitlines()
    script.write_text("\n".join([*lines[:8], "import sys", lines[-1].replace("x[0]", "0")]))
    done = subprocess.run([sys.executable, script], capture_output=True, check=True)
    assert done.stdout.decode().split() == ["0", "False", "False"]
