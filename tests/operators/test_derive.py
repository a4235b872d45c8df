"""Derived operations: batches of a kernel."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportGeneralTypeIssues=false, reportArgumentType=false

from __future__ import annotations

import numpy as np

import kernelcore as kc
from kernelcore.operators import derive
from tests.operators.test_fusion import Floats, operation_of


@kc.op(launch_dims=1, output_dims=1)
@kc.kernel
def likelihood(x: Floats, a: float, y: Floats):
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * x[j]
    y[0] = kc.exp(-a * total)


def test_instances_of_a_kernel_of_one_point_are_neighbours_of_one_row() -> None:
    operation = operation_of(likelihood)
    batch = derive.batch(operation, (True, True))
    assert (len(batch.grid), batch.func.grid_rank) == (1, 1)
    x = np.random.default_rng(1).normal(size=(70, 5)).astype(np.float32)
    a = np.linspace(0.1, 1.0, 70, dtype=np.float32)
    wanted = np.zeros((70, 1), np.float32)
    for instance in range(70):
        operation.native.run((x[instance], a[instance]), [wanted[instance]])
    found = np.zeros_like(wanted)
    batch.native.run((x, a), [found])
    np.testing.assert_array_equal(found, wanted)
    assert len(derive.batch(batch, (True, True)).grid) == 2
    # A kernel of several points, which does not ask which one it runs, keeps their axis.
    twice = operation_of(kc.op(launch_dims=2, output_dims=1)(likelihood.kernel))
    assert len(derive.batch(twice, (True, True)).grid) == 2
