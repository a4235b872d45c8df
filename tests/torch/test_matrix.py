"""Every kernel of the matrix under every transform equals plain torch, in every mode.

CI runs all of it eagerly and a slice of the compiled modes; KC_TORCH_MATRIX=1 runs all.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck

from tests.torch import matrix
from tests.torch import torch_kernels as k
from tests.torch.matrix import (
    BACKWARD,
    CASES,
    MODES,
    REFUSED,
    ROUNDING,
    TRANSFORMS,
    Function,
    argument,
    outcome,
    outcomes,
)
from torch_ext import overload, torch_op

WHOLE = bool(os.environ.get("KC_TORCH_MATRIX"))
CELLS = [(case, name) for case in CASES for name in (*TRANSFORMS, *BACKWARD)]
TRANSFORMED = [name for name in TRANSFORMS if name not in REFUSED]
SLICE = {
    "aot_eager": [
        ("struct", "vmap_grad"),
        ("callable", "hessian"),
        ("vec3", "backward"),
        ("atomic_sum", "double_backward"),
    ],
    "inductor": [("multi_output", "backward")],
    "inductor_dynamic": [("callable", "grad")],
}
# To compile all that goes into one graph takes a third of the time of a graph for each.
APART = [(case, name) for case, name in CELLS if name not in TRANSFORMED]
COMPILED = [(mode, *cell) for mode in SLICE for cell in (APART if WHOLE else SLICE[mode])]
TOGETHER = [(m, c) for m in SLICE for c in CASES] if WHOLE else [("aot_eager", "gather_scatter")]


def check(mode: str, case: str, name: str) -> None:
    given = CASES[case]
    x = argument(given)
    if mode != "eager" and name in REFUSED:
        for function in (given.op, given.reference):
            check_refused(mode, name, function, x)
        return
    expected = outcome(name, given.reference, x, MODES["eager"])
    torch.testing.assert_close(outcome(name, given.op, x, MODES[mode]), expected)


def check_refused(mode: str, name: str, function: Function, x: torch.Tensor) -> None:
    # What torch leaves of a trace that it gives up below a transform sets the dispatch keys of
    # the thread whenever it is collected: that shall happen here.
    with torch._C._PreserveDispatchKeyGuard():
        with pytest.raises(RuntimeError, match=REFUSED[name]):
            outcome(name, function, x, MODES[mode])
        gc.collect()


@pytest.mark.parametrize(("case", "name"), CELLS)
def test_eager(case: str, name: str) -> None:
    check("eager", case, name)


@pytest.mark.parametrize(("mode", "case", "name"), COMPILED)
def test_compiled(mode: str, case: str, name: str) -> None:
    check(mode, case, name)


@pytest.mark.parametrize(("mode", "case"), TOGETHER)
def test_compiled_in_one_graph(mode: str, case: str) -> None:
    given = CASES[case]
    x = argument(given)
    found = outcomes(TRANSFORMED, given.op, x, MODES[mode])
    for name in TRANSFORMED:
        expected = outcome(name, given.reference, x, MODES["eager"])
        torch.testing.assert_close(found[name], expected, msg=partial("{}: {}".format, name))


@pytest.mark.parametrize("case", CASES)
def test_derivatives_match_differences(case: str) -> None:
    op, x = CASES[case].op, argument(CASES[case]).requires_grad_()
    assert gradcheck(op, (x,), check_forward_ad=True, check_batched_grad=True, nondet_tol=ROUNDING)
    assert gradgradcheck(op, (x,), nondet_tol=ROUNDING)


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
