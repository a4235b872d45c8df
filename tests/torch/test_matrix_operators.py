"""Torch's own checks of every operator of the matrix, and one graph for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.library import opcheck

from tests.torch import matrix
from tests.torch import torch_kernels as k
from torch_ext import overload, torch_op

Arguments = Callable[[int], tuple[Any, ...]]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


# Each operator with its arguments for a size.
OPERATORS: dict[str, tuple[Callable[..., Any], Arguments]] = {
    "elementwise": (torch_op(k.quadratic), lambda n: (random(n), 1.5)),
    "matmul": (torch_op(k.product, launch_dims=3), lambda n: (random(3, n), random(n))),
    "neighbour": (torch_op(k.neighbours), lambda n: (random(n),)),
    "gather_scatter": (
        torch_op(matrix.scatter, output_dims="x"),
        lambda n: (random(n), torch.arange(n, dtype=torch.int32).flip(0)),
    ),
    "atomic_sum": (torch_op(k.energy, output_dims=1), lambda n: (random(n),)),
    "multi_output": (torch_op(k.polar), lambda n: (random(n), random(n))),
    "in_place": (torch_op(k.grow), lambda n: (random(n), random(n))),
    "struct": (torch_op(matrix.force), lambda n: (random(3), 0.5, random(n, 3))),
    "vec3": (torch_op(matrix.turned), lambda n: (random(n, 3),)),
    "func_grad": (torch_op(matrix.ruled), lambda n: (random(n),)),
    "first_of_two_launches": (torch_op(matrix.squared), lambda n: (random(n), 0.5)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck_is_clean(name: str) -> None:
    op, arguments = OPERATORS[name]
    found = opcheck(overload(op), arguments(5))
    assert set(found.values()) == {"SUCCESS"}
    assert len(found) == 4


@pytest.mark.parametrize("case", matrix.CASES)
def test_one_graph_serves_five_sizes(case: str) -> None:
    torch._dynamo.reset()
    op, arguments = GROWING[case]
    compiled = torch.compile(op, fullgraph=True, dynamic=True, backend="aot_eager")
    for size in (4, 5, 7, 8, 11):
        args = arguments(size)
        leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        with torch._dynamo.config.patch(error_on_recompile=True):
            found = compiled(*args)
        expected = op(*args)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(gradients(found, leaves), gradients(expected, leaves))


GROWING = {
    **{name: OPERATORS[name] for name in matrix.CASES if name in OPERATORS},
    "struct": (
        lambda rest, x: OPERATORS["struct"][0]({"rest": rest, "stiffness": 0.5}, x),
        lambda n: (random(3), random(n, 3)),
    ),
    "callable": (matrix.two_op, lambda n: (random(n), random())),
}


def gradients(results: Any, leaves: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Of a scalar that is nonlinear in the results."""
    results = results if isinstance(results, tuple) else (results,)
    return torch.autograd.grad(torch.stack([(r**3).sum() for r in results]).sum(), leaves)
