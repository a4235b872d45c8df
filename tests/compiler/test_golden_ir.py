"""What the compiler makes of kernels: IR, derived IR, LLVM IR, and what inspect adds to it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import kernelcore as kc
from kernelcore.codegen.llvm.kernel import emit_kernel
from kernelcore.passes.pipeline import optimize
from tests.helpers.golden import GOLDEN
from tests.helpers.patterns.loops import dynamic_product, loop_with_break
from tests.helpers.patterns.memory import in_place_in_loop, tv_stencil

KERNELS = [tv_stencil, dynamic_product, loop_with_break, in_place_in_loop]
STAGES = ["ir", "jvp", "vjp"]


def test_every_golden_ir_is_compared() -> None:
    names = {f"{kernel.name}.txt" for kernel in KERNELS}
    assert {path.name for path in (GOLDEN / "ir").iterdir()} == names
    assert [path.name for path in (GOLDEN / "llvm").iterdir()] == ["dynamic_product.txt"]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_ir(kernel, golden: Callable[[str, str], None]) -> None:
    text = "\n".join(f"== {stage} ==\n{kernel.inspect(stage).rstrip()}\n" for stage in STAGES)
    # The lines of the patterns in their file do not matter.
    golden(f"ir/{kernel.name}.txt", re.sub(r"\(line \d+\)", "(line ...)", text))


def test_llvm_text_does_not_depend_on_the_machine(golden: Callable[[str, str], None]) -> None:
    text = emit_kernel(optimize(dynamic_product.func), "dynamic_product", {})
    golden("llvm/dynamic_product.txt", text)


F64 = kc.array(dtype=kc.float64)


@kc.kernel
def nested(x: F64, n: int, y: F64):
    i = kc.tid()
    v = x[i]
    for _ in range(n):
        k = 0
        while v < 2.0:
            v = v * v + 0.5
            k += 1
        v = kc.sin(v)
    y[i] = v


@kc.kernel
def straight(x: F64, y: F64):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * x[i]


def line_of(text: str) -> int:
    lines, first = inspect.getsourcelines(nested.pyfunc)
    return first + next(k for k, line in enumerate(lines) if text in line)


def test_the_adjoint_prints_its_records_and_their_places() -> None:
    text = nested.inspect("vjp")
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert head[0] == "# records, per thread:"
    outer, inner = f"(line {line_of('for _')})", f"while (line {line_of('while')})"
    assert any("float64, 8 bytes per value" in h and h.endswith(inner) for h in head)
    assert any("int64, 8 bytes per value" in h and h.endswith(outer) for h in head)
    for line in head[1:]:
        name = line.split(":")[0].removeprefix("#").strip()
        assert f"{name}: stack" in text
        assert f"push({name}, " in text


def test_an_adjoint_that_records_nothing_says_so() -> None:
    assert straight.inspect("vjp").startswith("# records nothing\nstraight_vjp(")
