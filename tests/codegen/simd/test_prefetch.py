"""Gangs ask for the memory of later ones where processors do not do so by themselves."""

from __future__ import annotations

import pytest

import kernelcore as kc
from kernelcore.codegen.analysis.prefetch import first_accesses
from kernelcore.codegen.simd.strategy import Form
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Eqn, Var
from kernelcore.passes.access.index_offsets import definitions, position_of
from kernelcore.passes.pipeline import optimize

F32, F32_2D, VEC3 = kc.array(kc.float32, 1), kc.array(kc.float32, 2), kc.array(kc.vec3, 1)
LINES_OF_32_FLOATS = 2


@kc.kernel
def rows(u: F32_2D, w: F32_2D, v: F32_2D):
    i, j = kc.tid()
    v[i, j] = u[i, j] + u[i + 2, j + 1] + u[i + 1, j] + u[i + 2, j] + w[i, j]


@kc.kernel
def single_rows(u: F32_2D, v: F32_2D):
    i, j = kc.tid()
    v[i, j] = u[i, j] + u[i, j + 1]


@kc.kernel
def units(m: kc.mat33, x: VEC3, y: VEC3):
    i = kc.tid()
    y[i] = y[i] + m @ x[i]


@kc.kernel
def by_value(m: kc.mat33, x: F32, y: F32):
    i = kc.tid()
    y[i] = x[i] * m[0, 0]


@kc.kernel
def in_loops(x: VEC3, y: F32):
    i = kc.tid()
    for k in range(x.shape[0]):
        y[i] += x[k].x


def array_name(eqn: Eqn) -> str:
    array = eqn.inputs[0]
    assert isinstance(array, Var)
    return array.name


@pytest.mark.parametrize(
    ("kernel", "names"),
    [(rows, "uw"), (single_rows, ""), (units, "xy"), (by_value, ""), (in_loops, "")],
    ids=lambda x: getattr(x, "key", str(x)),
)
def test_what_is_new_to_the_cache(kernel: kc.Kernel, names: str) -> None:
    found = first_accesses(optimize(kernel.func))
    assert sorted(array_name(eqn) for eqn in found) == list(names)


def test_the_last_of_several_rows_is_fetched() -> None:
    func = optimize(rows.func)
    defined = definitions(func)
    offsets = {
        array_name(eqn): [offset for _, offset in position_of(eqn, defined)]
        for eqn in first_accesses(func)
    }
    assert offsets == {"u": [2, 1], "w": [0, 0]}


def test_gangs_fetch_whole_lines_and_single_threads_none() -> None:
    func = optimize(rows.func)
    calls = "call void @llvm.prefetch"
    assert cpu.llvm_text(func, form=Form(32)).count(calls) == 2 * LINES_OF_32_FLOATS
    assert calls not in cpu.llvm_text(func, form=Form())
