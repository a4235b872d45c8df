"""Random kernels that name elements of small rows: rows as elements have the bits of others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelGradError
from kernelcore.base.host import NO_MASKS
from kernelcore.codegen.analysis.component_groups import whole_elements
from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.analysis.uniformity import lane_strides
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.codegen.simd.gang_work import scattered_rows
from kernelcore.codegen.simd.strategy import has_vector_form
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import walk_eqns
from kernelcore.passes.access.accumulation_plan import form_of
from kernelcore.passes.pipeline import optimize
from tests.fuzz.small_row_programs import FITTING, FORTRAN, LONGER, POINTS, SmallRowProgram
from tests.fuzz.typed_programs import define
from tests.helpers.kernel_harness import adjoint_func, assert_same_arrays, launched_in_two

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "8"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4


@pytest.fixture(autouse=True)
def _rows_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")
    monkeypatch.setattr(cpu, "code_form", contract_sums)


def run(func: Func, given: Sequence[Any], number: int, *, alone: bool = False) -> list[Any]:
    """The arguments after a launch in two parts, in gangs or by single threads."""
    gang, least = (8, 16, 32)[number % 3], (1, 4, NO_MASKS)[number // 3 % 3]
    gathers = number % 2 == 0
    return launched_in_two(
        *(func, given, POINTS, number % POINTS, 1 if alone else gang),
        least_masked_bytes=least,
        gathers=gathers,
    )


def adjoint_of(kernel: kc.Kernel) -> Func | None:
    try:
        return adjoint_func(kernel)
    except KernelGradError:
        return None


@pytest.mark.parametrize("shard", range(SHARDS))
def test_rows_as_elements_have_the_bits_of_others(shard: int) -> None:
    changed = grouped = 0
    apart: set[OpKind] = set()
    for number in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program = SmallRowProgram(number)
        dtype = getattr(kc, program.dtype)
        kernel = define(program.text, {"kc": kc, "D": dtype})["kernel"]
        rng, form = np.random.default_rng(number), (FITTING, LONGER, FORTRAN, FITTING)[number % 4]
        args = program.arguments(rng, form)
        cases = [(optimize(kernel.func), args)]
        # Where loads share an index, the two forms group the additions of adjoints in other ways.
        adjoint = None if program.has_one_index else adjoint_of(kernel)
        if adjoint is not None:
            names = [f"{start}{p.name}" for start in ("", "ct_") for p in kernel.func.params]
            known = dict(zip(names, [*args, *program.arguments(rng, form)], strict=True))
            cases.append((adjoint, [known[p.name] for p in adjoint.params]))
        for func, given in cases:
            other = verify(rows_as_elements(func))
            changed += other is not func
            grouped += has_vector_form(func) and bool(whole_elements(other))
            apart.update(e.op.kind for e in scattered_rows(other, lane_strides(other)))
            # Several additions to what threads share have the order of gangs.
            forms = [form_of(e) for e in walk_eqns(func.body) if e.op.kind is OpKind.ATOMIC_ADD]
            alone = all(form is AddForm.OWNED for form in forms)
            wanted = run(func, given, number, alone=alone)
            found = run(other, given, number)
            assert_same_arrays(func, wanted, found, f"program {number}\n{program.text}")
    if FIRST == 0:
        assert changed
        assert grouped
        assert apart
