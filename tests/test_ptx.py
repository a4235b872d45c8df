"""PTX of kernels: what it says, what is refused, and that NVIDIA's assembler takes it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import kernelcore as kc
from kernelcore.builtins import OPS
from kernelcore.codegen.ptx import DEFAULT_ARCHITECTURE, ptx_text
from kernelcore.errors import KernelCompileError
from kernelcore.inspection import all_derivatives
from kernelcore.ir.core import Func
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.pipeline import optimize
from kernelcore.types import SCALARS
from tests.bench.suite import CASES
from tests.kernel_harness import elementwise
from tests.patterns import PATTERNS
from tests.test_builtins import dtypes, one_call

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
# Refusals that are meant; anything else is an error of the code generator.
REFUSAL = r"^ptx: (.* has no code for GPUs yet|'.*' needs '\w+' of the C library)"
PARAMETERS = re.compile(r"\.param ")


@cache
def programs() -> dict[str, Func]:
    """Patterns, their adjoints, and the kernels that are timed."""
    found = {pattern.name: pattern.kernel.func for pattern in PATTERNS}
    found |= {f"{pattern.name}_adjoint": adjoint(pattern.kernel) for pattern in PATTERNS}
    found |= {case.make.__name__: case.make(kc).func for case in CASES}
    return {name: optimize(func) for name, func in found.items()}


def operations() -> Iterator[tuple[str, Func]]:
    """Every operation at every type."""
    for op in OPS.values():
        if op.kind is OpKind.PURE:
            for dtype in dtypes(op):
                yield f"{op.name}_{dtype.name}", elementwise(one_call(op, dtype))


def adjoint(kernel: kc.Kernel) -> Func:
    wrt, seeds = all_derivatives(kernel.func)
    return kernel.adjoint(tuple(wrt), tuple(seeds)).func


def compiled(kernels: Mapping[str, Func], architecture: str) -> dict[str, str]:
    """The PTX of ``kernels`` that have one; that others are refused is checked."""
    found: dict[str, str] = {}
    for name, func in kernels.items():
        try:
            found[name] = ptx_text(func, f"kc_{name}", architecture)
        except KernelCompileError as error:
            if not re.search(REFUSAL, error.message):
                raise
    return found


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return compiled({**programs(), **dict(operations())}, DEFAULT_ARCHITECTURE)


def test_kernels_are_entries_with_blocks_by_value(texts: dict[str, str]) -> None:
    assert len(texts) > 300
    for name, text in texts.items():
        assert f".visible .entry kc_{name}(" in text
        entry = text[text.index(".visible .entry") :]
        assert len(PARAMETERS.findall(entry[: entry.index("{")])) == 4
        # Nothing is called that would have to be linked, and no argument is copied to the stack.
        assert ".extern" not in text
        assert "__local_depot" not in entry
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


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_assembler_takes_everything(
    texts: dict[str, str], tmp_path: Path, architecture: str
) -> None:
    found = texts
    if architecture != DEFAULT_ARCHITECTURE:
        found = compiled(programs(), architecture)
        assert found.keys() == texts.keys() & programs().keys()
    head, body = joined(found)
    assert f".target {architecture}" in head
    if (assembler := shutil.which("ptxas")) is None:
        # Without NVIDIA's tools LLVM's word has to do.
        return
    path = tmp_path / "all.ptx"
    path.write_text(head + body)
    command = [assembler, f"-arch={architecture}", "-o", "/dev/null", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def joined(texts: dict[str, str]) -> tuple[str, str]:
    """The lines at the start that all have, and the rest of all, whose names differ."""
    parts = [
        re.split(r"(?<=\.address_size 64\n)", text.replace("kc_$_", f"kc_{number}_$_"))
        for number, text in enumerate(texts.values())
    ]
    (head,) = {re.sub(r"//.*\n", "", head) for head, _ in parts}
    return head, "".join(body for _, body in parts)


def test_what_has_no_code_is_refused_where_it_stands() -> None:
    @kc.kernel
    def shows(x: kc.array(dtype=float)):
        i = kc.tid()
        print(x[i])

    with pytest.raises(KernelCompileError, match="print has no code for GPUs yet") as caught:
        shows.inspect("ptx")
    assert caught.value.loc is not None
    loop = next(p for p in PATTERNS if _records(adjoint(p.kernel)))
    with pytest.raises(KernelCompileError, match="records values in loops"):
        ptx_text(optimize(adjoint(loop.kernel)), "kc_loop")


def _records(func: Func) -> bool:
    return any(e.op.kind is OpKind.STACK for e in walk_eqns(func.body))


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(KernelCompileError, match=r"expected one of sm_50.*found 'sm_74'"):
        ptx_text(optimize(PATTERNS[0].kernel.func), "kc_x", "sm_74")


def test_every_scalar_type_is_among_the_operations(texts: dict[str, str]) -> None:
    assert {s.name for s in SCALARS} <= {name.rsplit("_", 1)[-1] for name in texts}
