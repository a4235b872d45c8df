"""PTX of kernels: what it says, what is refused, and that NVIDIA's assembler takes it."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.gpu import gpu_ops, ptx
from kernelcore.codegen.gpu.architectures import (
    ARCHITECTURES,
    DEFAULT_ARCHITECTURE,
    FORWARD_COMPATIBLE,
)
from kernelcore.codegen.gpu.ptx import ptx_text
from kernelcore.codegen.snippet import translation_unit
from kernelcore.codegen.target import cpu
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Func, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import SCALARS, ArrayType, float32
from kernelcore.passes.pipeline import optimize
from tests.device import corpus
from tests.device.assembler import assembler
from tests.helpers.kernel_harness import make
from tests.helpers.patterns import PATTERNS

CHECKED = ("sm_75", "sm_80", "sm_90", FORWARD_COMPATIBLE[-1])
# Of the kernels, the part that is assembled for more than one architecture.
PART = 1 if corpus.IS_WHOLE else 10
# As many as the assembler takes at once in a short time.
BATCH = 100
# Refusals that are meant; anything else is an error of the code generator.
REFUSAL = r"^ptx: '.*' needs '\w+' of the C library"
# What the driver links.
PROVIDED = {"vprintf", "malloc", "free"}
# Names of constants and functions inside a module are its own.
OWN = re.compile(r"\b(kc_\$_|text_\$_|kc_frem_|aligned_alloc\b)")
EXTERNAL = re.compile(r"\.extern \.func[^;]*?(\w+)\s*\([^;]*;\n")
FLOATS = {"float32": (np.float32, "float", "f32"), "float64": (np.float64, "double", "f64")}
PARAMETERS = re.compile(r"\.param ")


@cache
def programs() -> dict[str, Func]:
    return dict(corpus.programs())


def compiled(kernels: Mapping[str, Func], architecture: str) -> dict[str, str]:
    """The PTX of ``kernels`` that have one; that others are refused is checked."""
    found: dict[str, str] = {}
    for name, func in kernels.items():
        if translation_unit.snippets(func):
            continue  # see tests/device/test_snippets.py
        try:
            found[name] = ptx_text(func, f"kc_{name}", architecture)
        except KernelCompileError as error:
            if not re.search(REFUSAL, error.message):
                raise
    return found


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return compiled({**programs(), **dict(corpus.operations())}, DEFAULT_ARCHITECTURE)


def test_kernels_are_entries_with_blocks_by_value(texts: dict[str, str]) -> None:
    assert len(texts) > 250
    for name, text in texts.items():
        assert f".visible .entry kc_{name}(" in text
        entry = text[text.index(".visible .entry") :]
        assert len(PARAMETERS.findall(entry[: entry.index("{")])) == 4
        assert set(EXTERNAL.findall(text)) <= PROVIDED
        # Quotients, roots and small numbers are exact; estimates of reciprocals are corrected.
        rest = re.sub(r"rcp\.approx\.ftz", "", text)
        assert not re.search(r"\.(approx|ftz)\b", rest), name
        # No argument is copied to the stack.
        assert ".local" not in entry or "malloc" in text
        assert f".target {DEFAULT_ARCHITECTURE}" in text


def test_the_grid_is_shared_by_all_blocks(texts: dict[str, str]) -> None:
    text = texts["saxpy"]
    for register in ("%tid.x", "%ctaid.x", "%ntid.x", "%nctaid.x"):
        assert register in text
    # Products and sums are not contracted, as on the CPU.
    assert re.search(r"mul\.rn\.f32.*?add\.rn\.f32", text, re.DOTALL)
    assert "fma" not in text


def test_atomics_and_assertions_have_code() -> None:
    @kc.kernel
    def count(x: kc.array(dtype=int), total: kc.array(dtype=int)):
        i = kc.tid()
        assert x[i] >= 0
        kc.atomic_add(total, 0, x[i])

    text = count.inspect("ptx")
    assert re.search(r"(atom|red)\S*\.add", text)
    assert re.search(r"atom\S*\.cas\.b64", text)


@pytest.mark.parametrize("architecture", CHECKED)
def test_the_assembler_takes_everything(
    texts: dict[str, str], tmp_path: Path, architecture: str
) -> None:
    found = texts
    if architecture != DEFAULT_ARCHITECTURE:
        kernels = {**programs(), **dict(corpus.operations())} if corpus.IS_WHOLE else programs()
        chosen = dict(islice(kernels.items(), 0, None, PART))
        found = compiled(chosen, architecture)
        assert found.keys() == texts.keys() & chosen.keys()
    print(f"{architecture}: {len(found)} kernels")
    for at in range(0, len(found), BATCH):
        head, body = joined(dict(islice(found.items(), at, at + BATCH)))
        assert f".target {architecture}" in head
        assemble(head + body, architecture, tmp_path)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_code(architecture: str, tmp_path: Path) -> None:
    assemble(reports.inspect("ptx", architecture), architecture, tmp_path)


def test_names_that_llvm_does_not_know_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx, "ARCHITECTURES", (*ARCHITECTURES, "sm_99"))
    with pytest.raises(KernelCompileError, match=r"LLVM [\d.]+ does not know sm_99"):
        reports.inspect("ptx", "sm_99")


def assemble(text: str, architecture: str, folder: Path) -> None:
    """Refuse ``text`` if the assembler does."""
    path = folder / "all.ptx"
    path.write_text(text)
    command = [assembler(), f"-arch={architecture}", "-o", "/dev/null", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def joined(texts: dict[str, str]) -> tuple[str, str]:
    """The lines at the start that all have, and the rest of all, whose names differ."""
    parts = [
        re.split(r"(?<=\.address_size 64\n)", OWN.sub(rf"m{number}_\g<0>", text))
        for number, text in enumerate(texts.values())
    ]
    (head,) = {re.sub(r"//.*\n", "", head) for head, _ in parts}
    external = {m.group(1): m.group() for _, body in parts for m in EXTERNAL.finditer(body)}
    return head + "".join(external.values()), "".join(EXTERNAL.sub("", body) for _, body in parts)


@kc.kernel
def reports(x: kc.array(dtype=float), n: kc.int64, s: kc.array(dtype=int)):
    i = kc.tid()
    assert x[i] > 0.0, "positive"
    print("x is", x[i], n, s[i] > 0)


def test_printing_goes_through_the_driver() -> None:
    text = reports.inspect("ptx")
    assert set(EXTERNAL.findall(text)) == {"vprintf"}


def test_stacks_come_from_the_heap_of_the_device(texts: dict[str, str]) -> None:
    with_stacks = [name for name, func in programs().items() if _records(func)]
    assert len(with_stacks) > 10
    for name in with_stacks:
        assert {"malloc", "free"} <= set(EXTERNAL.findall(texts[name]))


def _records(func: Func) -> bool:
    return any(e.op.kind is OpKind.STACK for e in walk_eqns(func.body))


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(KernelCompileError, match=r"expected one of sm_75.*found 'sm_74'"):
        ptx_text(optimize(PATTERNS[0].kernel.func), "kc_x", "sm_74")


def test_every_scalar_type_is_among_the_operations(texts: dict[str, str]) -> None:
    assert {s.name for s in SCALARS} <= {name.rsplit("_", 1)[-1] for name in texts}


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_remainder_of_devices_is_exact(dtype: str) -> None:
    """The same text, run on this processor, against the C library."""
    numpy_type, ty, suffix = FLOATS[dtype]
    loop = f"""
define void @remainders_{suffix}(ptr %x, ptr %y, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %px = getelementptr {ty}, ptr %x, i64 %i
  %py = getelementptr {ty}, ptr %y, i64 %i
  %po = getelementptr {ty}, ptr %out, i64 %i
  %a = load {ty}, ptr %px
  %b = load {ty}, ptr %py
  %r = frem {ty} %a, %b
  store {ty} %r, ptr %po
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    address = cpu.load(cpu.object_code(gpu_ops.link(loop, "")), f"remainders_{suffix}")
    run = ctypes.CFUNCTYPE(None, *(ctypes.c_void_p,) * 3, ctypes.c_int64)(address)
    rng = np.random.default_rng(1)
    bits = np.uint32 if numpy_type is np.float32 else np.uint64
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -3.0, 5e-324, 1e38], numpy_type)
    pairs = [np.repeat(special, len(special)), np.tile(special, len(special))]
    for scale in (1.0, 1e-3, 1e30):
        pairs[0] = np.append(pairs[0], rng.normal(size=2000).astype(numpy_type) * 10)
        pairs[1] = np.append(pairs[1], (rng.normal(size=2000) * scale).astype(numpy_type))
    limits = np.iinfo(bits)
    for k in range(2):
        raw = rng.integers(limits.min, limits.max, 2000, bits)
        pairs[k] = np.append(pairs[k], raw.view(numpy_type)).astype(numpy_type)
    out = np.zeros_like(pairs[0])
    run(pairs[0].ctypes.data, pairs[1].ctypes.data, out.ctypes.data, len(out))
    with np.errstate(all="ignore"):
        expected = np.fmod(*pairs)
    same = (out.view(bits) == expected.view(bits)) | (np.isnan(out) & np.isnan(expected))
    assert same.all(), [(p[~same][:3]) for p in (*pairs, out, expected)]


def summed(count: int) -> Func:
    """A kernel that adds the elements of some arrays of four dimensions to the first."""

    def write(b: Builder, *arrays: Var) -> None:
        index = (b.emit(ops.TID, axis=0),) * 4
        for array in arrays[1:]:
            b.emit(ops.ATOMIC_ADD, arrays[0], *index, b.emit(ops.LOAD, array, *index))

    return make("summed", [ArrayType(float32, 4)] * count, write, grid_rank=1)


def test_kernels_of_many_arguments_are_newer_ptx_or_refused(tmp_path: Path) -> None:
    versions: list[str] = []
    for count in (50, 70, 450):
        text = ptx_text(optimize(summed(count)), "summed")
        assemble(text, DEFAULT_ARCHITECTURE, tmp_path)
        versions += re.findall(r"^\.version (.*)$", text, re.MULTILINE)
    assert versions == ["6.3", "8.1", "8.1"]
    with pytest.raises(KernelCompileError, match="bytes of arguments, a GPU at most 32764"):
        ptx_text(optimize(summed(460)), "summed")
