"""What two processes of torchrun run: a model on a part of the rows each, and sharded tensors."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

from tests.torch import torch_kernels as k
from torch_ext import torch_op

blend = torch_op(k.blend)
product = torch_op(k.product, launch_dims=("m.shape[0]",))
energy, quadratic = torch_op(k.energy, output_dims=1), torch_op(k.quadratic)


class Model(torch.nn.Module):
    """Two operators with parameters: a tensor, and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(torch.linspace(0.5, 1.5, 4, dtype=torch.float64))
        self.factor = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return blend(quadratic(x, self.factor), self.weights).square().sum()


def train(model: torch.nn.Module, rows: torch.Tensor, scale: float) -> None:
    """Three steps of gradient descent on the sum over ``rows``."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        for row in rows[:-1]:
            with model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext():
                (scale * model(row)).backward()
        (scale * model(rows[-1])).backward()
        optimizer.step()


def check_data_parallel() -> None:
    """Ranks that see half of the rows have the parameters of one process that sees all."""
    rows = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    one, model = Model(), Model()
    train(one, rows, 0.5)  # Ranks take the mean of their gradients.
    train(DistributedDataParallel(model), rows[2 * dist.get_rank() :][:2], 1.0)
    ways = zip(model.parameters(), one.parameters(), Model().parameters(), strict=True)
    for found, want, start in ways:
        torch.testing.assert_close(found.grad, want.grad)
        torch.testing.assert_close(found, want)
        assert not torch.equal(found, start)


def main() -> None:
    dist.init_process_group("gloo")
    check_data_parallel()
    mesh = init_device_mesh("cpu", (2,))
    generator = torch.manual_seed(1)
    x, y = (torch.randn(8, dtype=torch.float64, generator=generator) for _ in range(2))
    shards = [distribute_tensor(t, mesh, [Shard(0)]).requires_grad_() for t in (x, y)]
    with CommDebugMode() as communication:
        out = blend(quadratic(shards[0], 2.0), shards[1])
        assert isinstance(out, DTensor)
        assert out.placements == (Shard(0),)
        assert out.to_local().shape == (4,)
        found: Any = torch.autograd.grad(out, shards, torch.ones_like(out))
    assert communication.get_total_counts() == 0, communication.get_comm_counts()
    assert [g.placements for g in found] == [(Shard(0),)] * 2
    whole = [t.clone().requires_grad_() for t in (x, y)]
    expected = k.blend_torch(k.quadratic_torch(whole[0], 2.0), whole[1])
    torch.testing.assert_close(out.full_tensor(), expected)
    for one, want in zip(found, torch.autograd.grad(expected.sum(), whole), strict=True):
        torch.testing.assert_close(one.full_tensor(), want)

    total = energy(shards[0])
    assert isinstance(total, DTensor)
    assert total.placements[0].is_partial()
    torch.testing.assert_close(total.full_tensor(), k.energy_torch(x))

    # Rows are cut; the vector is needed whole, and its gradient is a sum over the rows.
    m, v = torch.rand(4, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    rows = distribute_tensor(m, mesh, [Shard(0)]).requires_grad_()
    vector = distribute_tensor(v, mesh, [Replicate()]).requires_grad_()
    with CommDebugMode() as communication:
        products = product(rows, vector)
        assert products.placements == (Shard(0),)
        found = torch.autograd.grad(products, (rows, vector), torch.ones_like(products))
    assert communication.get_total_counts() == 0, communication.get_comm_counts()
    assert found[0].placements == (Shard(0),)
    assert found[1].placements[0].is_partial()
    torch.testing.assert_close(products.full_tensor(), k.product_torch(m, v))
    torch.testing.assert_close(found[1].full_tensor(), 2.0 * v * m.sum(0))
    print(f"rank {dist.get_rank()} is done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # torch's device meshes keep the threads of gloo after destroy_process_group. One that releases
    # a tensor while Python finalizes would abort the process, so Python does not finalize.
    sys.stdout.flush()
    os._exit(0)
