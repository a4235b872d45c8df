"""Loops carry elements that they read and write in every iteration, where nothing can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.analysis.carried_elements import carry_elements
from kernelcore.codegen.code_form import carried_form, code_form, running_form
from kernelcore.codegen.simd.strategy import panel_rows
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func
from kernelcore.ir.op import ACCESSES, LOOPS
from kernelcore.ir.walk import eqns_inside, walk_eqns
from kernelcore.passes.pipeline import optimize
from tests.bench.framework_kernels import product
from tests.helpers import interpreter
from tests.helpers.guarded_memory import ending_at_a_guard
from tests.helpers.kernel_harness import copies, launch

F32_1D = kc.array(dtype=kc.float32)
F32_2D = kc.array2d(dtype=kc.float32)
VEC3 = kc.array(dtype=kc.vec3)


@kc.kernel
def added(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[i, j] += a[i, k] * b[k, j]


@kc.kernel
def stored(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[i, j] = c[i, j] * kc.float32(0.5) + a[i, k] * b[k, j]


@kc.kernel
def of_vectors(x: VEC3, f: VEC3):
    i = kc.tid()
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        f[i] += d / (kc.dot(d, d) + 0.5)


@kc.kernel
def nested(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        for m in range(b.shape[0]):
            c[i, j] += a[i, k] * b[m, j]


@kc.kernel
def moving(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(2):
        c[i, j + k] += a[i, k] * b[k, j]


@kc.kernel
def by_branch(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        if b[k, j] > 0.0:
            c[i, j] += a[i, k]


@kc.kernel
def of_all_threads(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        c[0, 0] += a[i, k] * b[k, j]


@kc.kernel
def of_a_length_per_thread(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(j):
        c[i, j] += a[i, k] * b[k, j]


@kc.kernel
def checked(a: F32_2D, b: F32_2D, c: F32_2D):
    i, j = kc.tid()
    for k in range(a.shape[1]):
        assert b[k, j] < 9.0
        c[i, j] += a[i, k] * b[k, j]


@kc.kernel
def along_rows(x: F32_2D, y: F32_1D):
    i = kc.tid()
    for k in range(x.shape[1]):
        y[i] += x[i, k]


@pytest.mark.parametrize(
    ("kernel", "names"), [(added, "c"), (stored, "c"), (nested, "c"), (of_vectors, "f")]
)
def test_elements_are_carried(kernel: Any, names: str) -> None:
    form = code_form(optimize(kernel.func))
    found = carried_form(form)
    assert found is not None
    assert [array.name for array in found.arrays] == [names]
    loops = [eqn for eqn in walk_eqns(found.func.body) if eqn.op.kind in LOOPS]
    inside = [e for loop in loops for e in eqns_inside(loop) if e.op.kind in ACCESSES]
    assert not any(eqn.inputs[0] in found.arrays for eqn in inside)


@pytest.mark.parametrize(
    "kernel",
    [moving, by_branch, of_all_threads, of_a_length_per_thread, checked, along_rows],
    ids=lambda kernel: kernel.name,
)
def test_other_elements_are_not(kernel: Any) -> None:
    assert carried_form(code_form(optimize(kernel.func))) is None


def in_order(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What ``added`` makes of ``c``, in float32."""
    found = c.copy()
    for k in range(a.shape[1]):
        found += a[:, k : k + 1] * b[k]
    return found


@kc.kernel
def with_old_values(a: F32_2D, b: F32_2D, w: F32_2D, x: F32_2D, c: F32_2D, y: F32_2D):
    i, j = kc.tid()
    old = 0.0
    for k in range(a.shape[1]):
        old += kc.atomic_add(c, i, j, a[i, k] * b[k, j])
    total = 0.0
    for k in range(x.shape[1]):
        total += w[j, k] * x[i, k]
    y[i, j] = total + old


def test_other_sums_keep_their_order() -> None:
    func = optimize(with_old_values.func)
    rng = np.random.default_rng(7)
    shapes = ((16, 7), (7, 33), (33, 40), (16, 40), (16, 33), (16, 33))
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    expected, found = copies(given), copies(given)
    interpreter.run(func, expected, (16, 33))
    assert launch(func, found, (16, 33)) == abi.STATUS_OK
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(1, 3, 5), (9, 40, 70), (65, 33, 4)])
def test_bits_are_those_of_the_kernel_as_written(shape: tuple[int, int, int]) -> None:
    rows, length, columns = shape
    rng = np.random.default_rng(sum(shape))
    a, b, c = (
        rng.standard_normal(s).astype(np.float32)
        for s in ((rows, length), (length, columns), (rows, columns))
    )
    expected = in_order(a, b, c)
    wide = np.zeros((rows, 2 * columns), np.float32)
    for given in (c.copy(), np.asfortranarray(c.copy()), wide[:, ::2]):
        given[:] = c
        kc.launch(added, dim=given.shape, inputs=[a, b], outputs=[given])
        np.testing.assert_array_equal(given, expected)


def test_launches_know_the_tiles_of_carried_sums() -> None:
    in_variable: Any = product(kc, kc.float32)
    rows = [panel_rows(running_form(optimize(k.func))) for k in (added, in_variable)]
    assert rows[0] == rows[1] > 0


def test_vectors_are_carried_component_by_component() -> None:
    rng = np.random.default_rng(4)
    x, f = (rng.standard_normal((40, 3)).astype(np.float32) for _ in range(2))
    expected = f.astype(float)
    apart = x[None].astype(float) - x[:, None]
    expected += (apart / ((apart**2).sum(-1, keepdims=True) + 0.5)).sum(1)
    kc.launch(of_vectors, dim=len(x), inputs=[x], outputs=[f])
    np.testing.assert_allclose(f, expected, 1e-5, 1e-5)


def test_arrays_that_share_memory_run_as_written() -> None:
    rng = np.random.default_rng(5)
    memory = rng.standard_normal((1, 30)).astype(np.float32)
    b = rng.standard_normal((30, 1)).astype(np.float32)
    expected = memory[0].copy()
    for k in range(30):
        expected[7] = expected[7] * np.float32(0.5) + expected[k] * b[k, 0]
    kc.launch(stored, dim=(1, 1), inputs=[memory, b], outputs=[memory[:, 7:8]])
    np.testing.assert_array_equal(memory[0], expected)


@kc.kernel
def counted(x: VEC3, f: VEC3):
    i = kc.tid()
    for _ in range(x.shape[0]):
        f[i] += kc.vec3(1.0, 1.0, 1.0)
        f[i] += 0.0 * x[0]


@pytest.mark.parametrize(
    ("names", "carries"),
    [
        ("x f", True),
        ("f x", True),
        ("x x", False),
        ("x shifted", False),
        ("shifted x", False),
        ("x behind", True),
        ("x wider", False),
        ("x turned", False),
    ],
)
def test_interleaved_rows_are_told_from_those_that_overlap(
    names: str, carries: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The code as written is another kernel, which stores zeros: the result says which code ran.
    monkeypatch.setenv("KC_CACHE", "0")
    found = carry_elements(optimize(counted.func))
    monkeypatch.setattr(cpu, "carried_form", lambda _: found)
    memory = np.ones((80, 7), np.float32)
    views = {
        "x": memory[:20, :3],
        "f": memory[:20, 3:6],
        "shifted": memory[:20, 2:5],
        "behind": memory[20:40, 1:4],
        "wider": memory[:40:2, 3:6],
        "turned": memory[19::-1, 3:6],
    }
    x, f = (views[name] for name in names.split())
    assert launch(_emptied(), [x, f], 20) == abi.STATUS_OK
    np.testing.assert_array_equal(f, 21.0 if carries else 0.0)


def _emptied() -> Func:
    """A kernel of its own, so that no cache holds code that was compiled without the patch."""

    @kc.kernel
    def emptied(x: VEC3, f: VEC3):
        i = kc.tid()
        f[i] = 0.0 * x[i]

    return optimize(emptied.func)


def test_loops_without_iterations_touch_no_element() -> None:
    func = optimize(added.func)
    a, b = np.zeros((40, 0), np.float32), np.zeros((0, 40), np.float32)
    c = ending_at_a_guard(np.ones((2, 2), np.float32))
    assert launch(func, [a, b, c], (40, 40)) == abi.STATUS_OK
    np.testing.assert_array_equal(c, 1.0)


def test_the_report_names_them() -> None:
    a = np.ones((8, 8), np.float32)
    text = str(kc.explain(added, a, a, np.zeros_like(a)))
    assert "loops keep elements of c in registers; launches whose arrays share memory" in text
    assert "keep elements" not in str(kc.explain(moving))
