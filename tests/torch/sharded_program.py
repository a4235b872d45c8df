"""What ranks of torchrun run: launches cut along axes with borders, the launch index and sums."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import kernelcore as kc
from torch_ext import torch_op

F64 = kc.array(dtype=kc.float64)
F64_2D = kc.array2d(dtype=kc.float64)
VECTORS = kc.array(dtype=kc.vec3d)


@kc.kernel
def periodic(x: F64, weight: F64, o: F64):
    i = kc.tid()
    n = x.shape[0]
    o[i] = x[i] * weight[i] + x[(i + 1) % n] - 3.0 * x[(i + n - 1) % n]


@kc.kernel
def springs(x: VECTORS, v: VECTORS, dt: kc.float64, o: VECTORS):
    i = kc.tid()
    force = kc.vec3d(0.0, -9.8, 0.0)
    if i > 0:
        force += x[i - 1] - x[i]
    if i < x.shape[0] - 1:
        force += (x[i + 1] - x[i]) * kc.dot(x[i], x[i])
    o[i] = x[i] + dt * (v[i] + dt * force)


@kc.kernel
def numbered(x: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i] * kc.float64(i + x.shape[0])


@kc.kernel
def scattered(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i, x[i] * x[i])
    if i + 2 < x.shape[0]:
        kc.atomic_add(o, i + 2, 2.0 * x[i])


@kc.kernel
def scattered_onto(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i, x[i] * x[i])
    if i > 0:
        kc.atomic_add(o, i - 1, 2.0 * x[i])


@kc.kernel
def corners(x: F64_2D, o: F64_2D):
    i, j = kc.tid()
    n, m = x.shape[0], x.shape[1]
    total = x[i, j] * kc.float64(i - j)
    total += x[(i + 1) % n, (j + 1) % m] * x[(i + n - 1) % n, (j + m - 1) % m]
    o[i, j] = total


@kc.kernel
def totals(x: F64, o: F64):
    i = kc.tid()
    kc.atomic_add(o, i % 3, x[i] * x[i])


@kc.kernel
def extremes(x: F64_2D, largest: F64, least: F64):
    i, j = kc.tid()
    kc.atomic_max(largest, j, x[i, j])
    kc.atomic_min(least, 0, x[i, j])


@kc.kernel
def numbered_beside(x: F64, never_read: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * kc.float64(i)


@kc.kernel
def squared_beside(x: F64, never_read: F64, o: F64):
    i = kc.tid()
    o[i] = x[i] * x[i]


class Case(NamedTuple):
    """An operator, the shapes of its operands, and what it costs on ranks in a row.

    Attributes:
        op: It.
        shapes: Per operand a shape; a number stands for itself.
        cut: How many of them, from the first on, are cut along their first axes.
        border: Whether its parts have borders; else they exchange nothing, or sums.
    """

    op: Callable[..., Any]
    shapes: Sequence[tuple[int, ...] | float]
    cut: int
    border: bool


CASES = {
    "periodic": Case(torch_op(periodic), [(14,), (14,)], 1, True),
    "springs": Case(torch_op(springs), [(16, 3), (16, 3), 0.25], 2, True),
    "numbered": Case(torch_op(numbered), [(13,)], 1, False),
    "scattered": Case(torch_op(scattered, output_dims="x"), [(14,)], 1, True),
    # Its gradient has a result that the adjoint reads with a border and leaves as it is.
    "scattered_onto": Case(torch_op(scattered_onto, in_out="o"), [(14,), (14,)], 2, True),
    "corners": Case(torch_op(corners), [(8, 12)], 1, True),
    "totals": Case(torch_op(totals, in_out="o"), [(16,), (3,)], 1, False),
    "extremes": Case(
        torch_op(extremes, in_out=("largest", "least")), [(8, 4), (4,), (1,)], 1, False
    ),
}


def placed(tensor: torch.Tensor, mesh: DeviceMesh, cut: bool) -> Any:
    """``tensor`` cut along its first axes, one a mesh dimension, or on all ranks."""
    axes = range(mesh.ndim)
    found = [Shard(a) if cut and a < tensor.ndim else Replicate() for a in axes]
    return distribute_tensor(tensor, mesh, found).requires_grad_(tensor.requires_grad)


def check(name: str, mesh: DeviceMesh) -> None:
    """Values and gradients of a case are those of one process; no rank gathers an operand."""
    case = CASES[name]
    generator = torch.Generator().manual_seed(3)
    whole: list[Any] = [
        torch.randn(s, dtype=torch.float64, generator=generator).requires_grad_()
        if isinstance(s, tuple)
        else s
        for s in case.shapes
    ]
    given = [
        placed(x.detach().requires_grad_(), mesh, k < case.cut)
        if isinstance(x, torch.Tensor)
        else x
        for k, x in enumerate(whole)
    ]
    with CommDebugMode() as communication:
        found = as_tuple(case.op(*given))
    exchanges = {str(k).rsplit(".", 1)[-1]: n for k, n in communication.get_comm_counts().items()}
    if name != "extremes":
        assert exchanges == ({"all_to_all_single": mesh.ndim} if case.border else {}), exchanges
    want = as_tuple(case.op(*whole))
    for one, expected in zip(found, want, strict=True):
        is_sum = any(p.is_partial() for p in one.placements)
        torch.testing.assert_close(
            one.full_tensor(), expected, rtol=1e-13 if is_sum else 0, atol=1e-13 if is_sum else 0
        )
        assert is_sum or name == "extremes" or any(p.is_shard() for p in one.placements)
    cotangents = [torch.rand(w.shape, dtype=w.dtype, generator=generator) for w in want]
    inputs = [x for x in whole if isinstance(x, torch.Tensor)]
    wanted = torch.autograd.grad(want, inputs, cotangents)
    inputs = [x for x in given if isinstance(x, torch.Tensor)]
    seeds = [
        distribute_tensor(c, mesh, [p if p.is_shard() else Replicate() for p in one.placements])
        for c, one in zip(cotangents, found, strict=True)
    ]
    with CommDebugMode() as communication:
        made: Any = torch.autograd.grad(found, inputs, seeds)
    gathers = [k for k in communication.get_comm_counts() if "gather" in str(k)]
    assert name == "extremes" or not gathers, (name, gathers)
    for one, expected in zip(made, wanted, strict=True):
        torch.testing.assert_close(one.full_tensor(), expected, rtol=1e-13, atol=1e-13)


def as_tuple(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def check_compiled(mesh: DeviceMesh, backend: str) -> None:
    """A compiled graph serves every rank: it holds nothing of where a rank is."""
    op = CASES["periodic"].op
    x, w = (torch.linspace(a, 2.0, 14, dtype=torch.float64) for a in (0.0, 1.0))
    given = [placed(t.requires_grad_(), mesh, True) for t in (x.clone(), w.clone())]
    run = torch.compile(lambda *a: op(*a) * 2.0, fullgraph=True, backend=backend)
    found: Any = run(*given)
    want = op(x, w) * 2.0
    assert torch.equal(found.full_tensor(), want)
    made: Any = torch.autograd.grad(found, given, placed(x.detach(), mesh, True))
    wanted = torch.autograd.grad(op(x.requires_grad_(), w) * 2.0, [x], x.detach())
    torch.testing.assert_close(made[0].full_tensor(), wanted[0])


def check_gathered(mesh: DeviceMesh) -> None:
    """Parts thinner than the border run whole, with a warning."""
    size = mesh.size()
    x = torch.arange(float(size), dtype=torch.float64)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        made: Any = CASES["scattered"].op(placed(x, mesh, True))
    assert torch.equal(made.full_tensor(), CASES["scattered"].op(x))
    found = [str(w.message) for w in warned if "every rank gathers it" in str(w.message)]
    assert len(found) == 1, [str(w.message) for w in warned]
    assert "redistribute(placements=[Replicate()])" in found[0]


def check_unread(mesh: DeviceMesh) -> None:
    """Of an operand that the kernel never reads, nothing is sent."""
    x = torch.linspace(0.0, 2.0, 16, dtype=torch.float64)
    for kernel in (numbered_beside, squared_beside):
        op, given = torch_op(kernel), (placed(x, mesh, True), placed(x + 1.0, mesh, True))
        with CommDebugMode() as communication:
            made: Any = op(*given)
        assert not communication.get_total_counts(), communication.get_comm_counts()
        assert torch.equal(made.full_tensor(), op(x, x))


def check_nan(mesh: DeviceMesh) -> None:
    """Maxima and minima over ranks keep NaNs and negative numbers, as one process does."""
    x = -torch.rand(8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    x[5, 2] = float("nan")
    low, high = (torch.full((n,), v, dtype=torch.float64) for n, v in ((4, -9.0), (1, 9.0)))
    op = CASES["extremes"].op
    found = op(placed(x, mesh, True), placed(low, mesh, False), placed(high, mesh, False))
    for one, want in zip(found, op(x, low, high), strict=True):
        torch.testing.assert_close(one.full_tensor(), want, rtol=0, atol=0, equal_nan=True)


def main() -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    if "inductor" in sys.argv:
        check_compiled(mesh, "inductor")
        hits = counters["inductor"]["fxgraph_cache_hit"]
        print(f"rank {dist.get_rank()} took {hits} graphs from the cache")
        dist.destroy_process_group()
        return
    for name in CASES:
        check(name, mesh)
    check_gathered(mesh)
    check_nan(mesh)
    check_unread(mesh)
    if dist.get_world_size() == 2:
        check_compiled(mesh, "aot_eager")
    else:
        square = init_device_mesh("cpu", (2, dist.get_world_size() // 2))
        check("corners", square)
        check("extremes", square)
    print(f"rank {dist.get_rank()} is done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # As in distributed_program.py: the threads of device meshes outlive Python.
    sys.stdout.flush()
    os._exit(0)
