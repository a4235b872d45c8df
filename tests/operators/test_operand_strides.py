"""Operands of any strides: the bits are those of dense ones, and what is read often is packed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore.codegen.code_form import code_form
from kernelcore.codegen.simd.gathering import choose_detours
from kernelcore.operators.operation import Operation
from kernelcore.operators.shape_rules import kernel_operation


@kc.op
@kc.kernel
def scaled(x: kc.array(dtype=float), b: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * b[i] + 0.1 * x[i]


@kc.op
@kc.kernel
def biased(x: kc.array2d(dtype=float), b: kc.array(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = kc.sin(x[i, j] + b[j]) * x[i, j]


@kc.op(launch_dims=("a.shape[0]", "b.shape[1]"))
@kc.kernel
def product(a: kc.array2d(dtype=float), b: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    total = 0.0
    for k in range(a.shape[1]):
        total += a[i, k] * b[k, j]
    y[i, j] = total


@kc.op(launch_dims="x.shape[0]", output_dims="x.shape[0]")
@kc.kernel
def norms(x: kc.array2d(dtype=kc.vec3), y: kc.array(dtype=float)):
    i = kc.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += kc.length(x[i, j])
    y[i] = total


@kc.op(launch_dims="x")
@kc.kernel
def cubed(x: kc.array3d(dtype=float), y: kc.array3d(dtype=float)):
    i, j, k = kc.tid()
    y[i, j, k] = x[i, j, k] * x[i, j, k] * x[i, j, k]


@kc.op(launch_dims="at", output_dims="at")
@kc.kernel
def gathered(x: kc.array(dtype=float), at: kc.array(dtype=kc.int32), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[at[i]] * 2.0


@kc.op(launch_dims="x.shape[0]", output_dims=("x.shape[0]", 3))
@kc.kernel
def turned(x: kc.array2d(dtype=float), angle: kc.array(dtype=float), y: kc.array2d(dtype=float)):
    i = kc.tid()
    c, s = kc.cos(angle[i]), kc.sin(angle[i])
    y[i, 0] = c * x[i, 0] - s * x[i, 1]
    y[i, 1] = s * x[i, 0] + c * x[i, 1]
    y[i, 2] = x[i, 2]


@kc.op(launch_dims="x.shape[0]", output_dims="x")
@kc.kernel
def multiplied(r: kc.array3d(dtype=float), x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i = kc.tid()
    a, b, c = x[i, 0], x[i, 1], x[i, 2]
    y[i, 0] = r[i, 0, 0] * a + r[i, 0, 1] * b + r[i, 0, 2] * c
    y[i, 1] = r[i, 1, 0] * a + r[i, 1, 1] * b + r[i, 1, 2] * c
    y[i, 2] = r[i, 2, 0] * a + r[i, 2, 1] * b + r[i, 2, 2] * c


@kc.op(launch_dims=("x.shape[0]", "x.shape[1]"), output_dims=("x.shape[0]", "x.shape[1]"))
@kc.kernel
def around(x: kc.array3d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    total = 0.0
    for k in range(x.shape[2]):
        total += x[i, j, k]
        if i >= 2:
            total -= 0.25 * x[i - 2, j, k]
        if i + 1 < x.shape[0] and j + 1 < x.shape[1]:
            total += 0.5 * x[i + 1, j + 1, k]
    y[i, j] = total


# Prints how many KiB the sums of the rows of 128 MiB take.
LARGE_OPERAND = """
import resource

import numpy as np

import kernelcore as kc


@kc.op(launch_dims="x.shape[0]", output_dims="x.shape[0]")
@kc.kernel
def sums(x: kc.array2d(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    for j in range(x.shape[1]):
        y[i] += x[i, j]


kc.set_num_threads(2)
sums(np.ones((500, 1000)).T)
x = np.ones((512, 32_768)).T
assert x.nbytes == 1 << 27
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert (sums(x) == 512).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def random(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.movedim(0, -1).contiguous().movedim(-1, 0)


def sliced(x: torch.Tensor) -> torch.Tensor:
    base = torch.full((*x.shape[:-1], 3 * x.shape[-1]), torch.nan)
    base[..., 1::3] = x
    return base[..., 1::3]


def padded(x: torch.Tensor) -> torch.Tensor:
    base = torch.full((*x.shape[:-1], x.shape[-1] + 5), torch.nan)
    base[..., : x.shape[-1]] = x
    return base[..., : x.shape[-1]]


def expanded(x: torch.Tensor) -> torch.Tensor:
    return x[(0,) * x.ndim].expand(x.shape)


def expanded_rows(x: torch.Tensor) -> torch.Tensor:
    return x[..., :1].expand(x.shape)


FORMS = [transposed, sliced, padded, expanded, expanded_rows]
OPERANDS: list[tuple[Any, list[torch.Tensor]]] = [
    (scaled, [random(1000), random(1000)]),
    (scaled, [random(200_000), random(200_000)]),
    (scaled, [random(1), random(1)]),
    (scaled, [random(0), random(0)]),
    (biased, [random(40, 70), random(70)]),
    (biased, [random(1, 300), random(300)]),
    (biased, [random(700, 600), random(600)]),
    (biased, [random(300, 3), random(3)]),
    (product, [random(33, 50), random(50, 67)]),
    (norms, [random(20, 30, 3)]),
    (cubed, [random(5, 20, 70)]),
    (turned, [random(1000, 3), random(1000)]),
    (turned, [random(50, 5), random(50)]),
    (turned, [random(1, 3), random(1)]),
    (multiplied, [random(200, 3, 3), random(200, 3)]),
    (multiplied, [random(20, 3, 4), random(20, 3)]),
    (cubed, [random(7, 1, 1)]),
    # Large ones are copied part by part: whole rows, parts of rows, one long row.
    (norms, [random(700, 80, 3)]),
    (multiplied, [random(20_000, 3, 3), random(20_000, 3)]),
    (around, [random(300, 50, 12)]),
    (around, [random(20, 400, 12)]),
    (around, [random(1, 6000, 12)]),
    # Copied rows of a multiple of 1024 bytes have a gap behind them.
    (biased, [random(30, 256), random(256)]),
    (biased, [random(300, 1024), random(1024)]),
    (cubed, [random(3, 20, 512)]),
    (cubed, [random(40, 9, 256)]),
    (norms, [random(4, 256, 3)]),
    (norms, [random(90, 1024, 3)]),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("op", "args"), OPERANDS)
def test_results_and_gradients_have_the_bits_of_dense_operands(
    op: Any, args: list[torch.Tensor], form: Callable[[torch.Tensor], torch.Tensor], threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        others = [form(a) if a.numel() else a for a in args]
        dense = [a.contiguous() for a in others]
        found, wanted = op(*others), op(*dense)
        assert torch.equal(found, wanted)
        leaves = [a.clone().requires_grad_() for a in dense]
        strided = [form(a).detach().requires_grad_() if a.numel() else a for a in dense]
        for ct in (torch.ones(()).expand(wanted.shape), form(wanted) if wanted.numel() else wanted):
            of_dense = torch.autograd.grad(op(*leaves), leaves, ct.contiguous())
            same = all(torch.equal(a, b) for a, b in zip(strided, leaves, strict=True))
            for inputs in [leaves, strided] if same else [leaves]:
                if all(a.requires_grad for a in inputs):
                    of_strided = torch.autograd.grad(op(*inputs), inputs, ct)
                    assert all(map(torch.equal, of_strided, of_dense))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("op", "args"), OPERANDS)
def test_numpy_arrays_may_run_backwards(op: Any, args: list[torch.Tensor]) -> None:
    backwards = [a.numpy()[::-1] for a in args]
    np.testing.assert_array_equal(op(*backwards), op(*(a.copy() for a in backwards)))


def test_batches_and_graphs_take_strided_operands() -> None:
    x, b = random(6, 40, 70), random(70)
    wanted = torch.stack([biased(row, b) for row in x])
    assert torch.equal(torch.vmap(biased, (0, None))(transposed(x), b), wanted)
    assert torch.equal(torch.vmap(biased, (2, None))(x.movedim(0, 2), b), wanted)
    graph = torch.compile(biased, backend="aot_eager")
    assert torch.equal(graph(x[0].T.contiguous().T, b), wanted[0])


def test_a_few_elements_of_a_large_table_are_read_where_they_are() -> None:
    # A copy would need more memory than there is.
    table = torch.ones(1).expand(1 << 30)
    at = torch.tensor([0, 5, (1 << 30) - 1], dtype=torch.int32)
    for _ in range(1000):
        assert gathered(table, at).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (scaled, [(1, 0, (0, 0)), (1, 0, (0, 0))]),
        (biased, [(1, 0, (0, 0)), (1, 0, (0, 0))]),
        # Every thread loops over a row of one matrix and a column of the other.
        (product, [(1, 0b10, (0, 0)), (1, 0b01, (0, 0))]),
        (norms, [(1, 0b10, (0, 0))]),
        (gathered, [(1, 0, (0, 0)), (1, 0, (0, 0))]),
        # Rows of three are elements, and matrices.
        (multiplied, [(9, 0, (3, 3)), (3, 0, (3, 0))]),
        (turned, [(3, 0, (3, 0)), (1, 0, (0, 0))]),
    ],
)
def test_reads_of_a_thread_are_counted(op: Any, wanted: list[Any]) -> None:
    assert [tuple(reads)[:3] for reads in operation_of(op).reads()] == wanted


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        (biased, [[(0, 0, 0, 0), (1, 1, 0, 0)], [(1, 0, 0, 0)]]),
        (product, [[(0, 0, 0, 0)], [(1, 1, 0, 0)]]),
        (gathered, [[], [(0, 0, 0, 0)]]),
        (around, [[(0, 0, -2, 1), (1, 1, 0, 1)]]),
    ],
)
def test_reads_at_launch_indices_are_windows(op: Any, wanted: list[Any]) -> None:
    assert [[*map(tuple, reads.windows)] for reads in operation_of(op).reads()] == wanted


@pytest.mark.parametrize("points", [(3000, 40), (40, 3000)])
def test_lanes_along_another_axis_take_strided_operands(points: tuple[int, int]) -> None:
    # Such launches number their points in another order: a chunk has no range of launch indices.
    @kc.op(launch_dims=("x.shape[0]", "w.shape[0]"), output_dims=("x.shape[0]", "w.shape[0]"))
    @kc.kernel
    def gates(
        x: kc.array2d(dtype=float),
        w: kc.array2d(dtype=float),
        v: kc.array2d(dtype=float),
        u: kc.array2d(dtype=float),
        y: kc.array2d(dtype=float),
    ):
        i, k = kc.tid()
        total = 0.0
        for b in range(x.shape[1]):
            total += (w[k, b] + v[k, b] * u[k, b]) * x[i, b]
        y[i, k] = total

    made = operation_of(gates)
    assert choose_detours(code_form(made.optimized))[1] is not None
    assert all(reads.windows for reads in made.reads())
    n, parts = points
    given = [random(n, 70), *(random(parts, 70) for _ in range(3))]
    wanted = gates(*given)
    for threads in (1, 2, 5):
        kc.set_num_threads(threads)
        assert torch.equal(gates(*(a.t().contiguous().t() for a in given)), wanted)


def test_windows_of_a_large_operand_take_little_memory(tmp_path: Path) -> None:
    program = tmp_path / "sums.py"
    program.write_text(LARGE_OPERAND)
    used = subprocess.run([sys.executable, program], check=True, capture_output=True, text=True)
    assert int(used.stdout) < 20_000


def operation_of(op: Any) -> Operation:
    spec = op.spec
    return kernel_operation(op.kernel, launch_dims=spec.launch_dims, output_dims=spec.output_dims)


def test_reads_of_neighbours_in_loops_of_fixed_length_are_counted() -> None:
    @kc.kernel
    def smooth(x: kc.array2d(dtype=float), w: kc.array(dtype=float), y: kc.array2d(dtype=float)):
        i, j = kc.tid()
        total = w[0] * x[i, j] + w[1] * x[i, j + 1]
        for a in range(3):
            for b in range(3):
                total += w[a] * x[i + a, j + b]
        y[i, j] = total

    x, w = kernel_operation(smooth, launch_dims=(8, 8), output_dims="x").reads()
    assert x.elements >= 11
    assert w.elements >= 3


@kc.op(launch_dims="x", outputs="y")
@kc.kernel
def same(x: kc.array3d(dtype=Any), y: kc.array3d(dtype=Any)):
    i, j, k = kc.tid()
    y[i, j, k] = x[i, j, k]


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32, np.int32, np.float64, np.int64])
@pytest.mark.parametrize(
    "shape", [(1, 16, 16), (2, 17, 33), (3, 15, 40), (1, 40, 600), (1, 531, 1030), (64, 2, 48)]
)
def test_copies_of_transposed_operands_have_every_element(
    dtype: Any, shape: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)
    for axes in ((0, 1, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0)):
        view = x.transpose(axes).copy().transpose(np.argsort(axes))
        for given in (view, view[:, ::-1], view[..., 1:], view[..., ::-2]):
            np.testing.assert_array_equal(same(given), given)
