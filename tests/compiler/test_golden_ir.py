"""What the compiler makes of the demo's stencil: IR, tangent and adjoint IR, LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

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
