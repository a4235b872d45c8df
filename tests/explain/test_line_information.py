"""Assembly with the lines of its source has the same instructions as without."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from kernelcore.codegen.target import cpu
from kernelcore.explain.html import instructions
from kernelcore.passes.pipeline import optimize
from tests.explain.test_explain import chained, line_of, row_sums, saxpy, squared
from tests.helpers.patterns.loops import dynamic_product, loop_with_break
from tests.helpers.patterns.memory import in_place_in_loop, tv_stencil


def spelt(text: str) -> str:
    """``text`` with additions in one spelling: LLVM chooses it by marks of lines nearby, too."""
    found = re.fullmatch(r"\s*leaq\s+\((%\w+),\s*(%\w+)\), (%\w+)", text)
    if found is None or found[3] not in found.groups()[:2]:
        return " ".join(text.split())
    (other,) = [r for r in found.groups()[:2] if r != found[3]] or [found[3]]
    return f"addq {other}, {found[3]}"


@pytest.mark.parametrize(
    "kernel",
    [tv_stencil, dynamic_product, loop_with_break, in_place_in_loop, saxpy, row_sums, chained],
    ids=lambda k: k.name,
)
def test_line_information_changes_no_instruction(kernel: Any) -> None:
    func = optimize(kernel.func)
    plain, marked = (
        list(instructions(cpu.assembly(cpu.llvm_text(func, "k", with_lines=with_lines))))
        for with_lines in (False, True)
    )
    assert [spelt(text) for text, _ in plain] == [spelt(text) for text, _ in marked]
    assert all(loc is None for _, loc in plain)
    file = inspect.getsourcefile(kernel.pyfunc)
    of_kernel = {loc.line for _, loc in marked if loc and loc.file == file}
    lines, first = inspect.getsourcelines(kernel.pyfunc)
    assert of_kernel
    assert of_kernel - {line_of(squared.overloads[0], "return")} <= set(
        range(first, first + len(lines))
    )
