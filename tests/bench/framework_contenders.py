"""The contenders of ``bench_frameworks``: an operator in torch, torch.compile, JAX and Warp."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
import torch
from jax import numpy as jnp

import kernelcore as kc
from tests.bench.framework_operators import Case, Random
from tests.bench.suite.contenders import quiet_warp

OURS, OURS_IN_JAX = "kernelcore", "kernelcore in JAX"
TORCH, COMPILED, JAX, WARP = "torch", "torch.compile", "jax.jit", "Warp"

FORWARD = "forward"
GRADIENT = "gradient"
# Gradients for the cotangent of ``.sum()``: one element, expanded.
EXPANDED = "gradient, expanded"
TRANSPOSED = "gradient, transposed"
TRANSPOSED_OPERANDS = "forward, transposed"

# Of a longer result only so many elements are compared with others, and kept in memory.
MOST_COMPARED = 1 << 22

# What is run, by kind: functions of no arguments that return arrays of a framework.
Runs = dict[str, Callable[[], Sequence[Any]]]


@dataclass(frozen=True)
class Problem:
    """The arrays of a case.

    Attributes:
        case: The case.
        args: Its operands: NumPy arrays, and integers.
        cotangent: The cotangent of the result.
    """

    case: Case
    args: tuple[Any, ...]
    cotangent: np.ndarray

    @property
    def varied(self) -> list[int]:
        """The operands by which it is differentiated."""
        return [k for k, a in enumerate(self.args) if _is_float(a)]

    @cached_property
    def in_jax(self) -> tuple[list[jax.Array], jax.Array]:
        """The operands that are arrays, and the cotangent; all contenders in JAX share them."""
        arrays = [_in_jax(a) for a in self.args if isinstance(a, np.ndarray)]
        return arrays, _in_jax(self.cotangent)


def problem_of(case: Case) -> Problem:
    """The operands of ``case``, and a cotangent."""
    random = Random(case.dtype)
    args = case.args(random)
    with torch.no_grad():
        shape = case.by_torch(*map(_as_tensor, args)).shape
    return Problem(case, args, random.floats(*shape))


def contenders_of(problem: Problem, *, is_quick: bool) -> dict[str, Runs]:
    """By name what runs the kinds; a quick run has fewer."""
    case = problem.case
    batch = tuple(0 if is_batched else None for is_batched in case.batched)
    op = kc.op(**case.options)(case.make(kc, getattr(kc, case.dtype)))
    ours = torch.vmap(op, batch) if batch else op
    found: dict[str, Runs] = {
        OURS: runs_in_torch(problem, ours),
        TORCH: runs_in_torch(problem, case.by_torch),
        JAX: runs_in_jax(problem, case.by_jax),
    }
    if not is_quick:
        found[COMPILED] = runs_in_torch(problem, torch.compile(case.by_torch))
        if not case.is_long:
            found[OURS_IN_JAX] = runs_in_jax(problem, jax.vmap(op, batch) if batch else op)
            if not batch:
                found[WARP] = runs_in_warp(problem)
    return found


def compile_in_torch(case: Case) -> None:
    """Let Inductor's cache know what ``contenders_of`` compiles with torch."""
    runs = runs_in_torch(problem_of(case), torch.compile(case.by_torch))
    for kind, run in runs.items():
        if kind != EXPANDED:
            run()


def runs_in_torch(problem: Problem, function: Callable[..., torch.Tensor]) -> Runs:
    """``function`` of tensors that share the memory of the problem."""
    args = [_as_tensor(a) for a in problem.args]
    dense = torch.from_numpy(problem.cotangent)
    runs: Runs = {
        FORWARD: _forward(function, args),
        GRADIENT: _gradient(problem, function, dense),
        EXPANDED: _gradient(problem, function, dense.new_ones(()).expand(dense.shape)),
    }
    return runs if problem.case.is_long else runs | _strided_runs(problem, function)


def _strided_runs(problem: Problem, function: Callable[..., torch.Tensor]) -> Runs:
    """``function`` of operands, or for a cotangent, whose columns are adjacent."""
    args = [_as_tensor(a) for a in problem.args]
    across = [_transposed(a) if isinstance(a, torch.Tensor) else a for a in args]
    cotangent = _transposed(torch.from_numpy(problem.cotangent))
    return {
        TRANSPOSED_OPERANDS: _forward(function, across),
        TRANSPOSED: _gradient(problem, function, cotangent),
    }


def _forward(
    function: Callable[..., torch.Tensor], args: Sequence[Any]
) -> Callable[[], Sequence[torch.Tensor]]:
    def run() -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return (function(*args),)

    return run


def _gradient(
    problem: Problem, function: Callable[..., torch.Tensor], cotangent: torch.Tensor
) -> Callable[[], Sequence[torch.Tensor]]:
    """A forward and a backward pass; results, then gradients."""
    leaves = [_as_tensor(a) for a in problem.args]
    varied = [leaves[k].requires_grad_() for k in problem.varied]

    def run() -> Sequence[torch.Tensor]:
        found = function(*leaves)
        return found.detach(), *torch.autograd.grad(found, varied, cotangent)

    return run


def runs_in_jax(problem: Problem, function: Callable[..., Any]) -> Runs:
    """``function`` of JAX arrays, under ``jax.jit``; integers are literals of the program."""
    arrays, cotangent = problem.in_jax
    places = [k for k, a in enumerate(problem.args) if isinstance(a, np.ndarray)]

    def with_arrays(*given: Any) -> Any:
        args = list(problem.args)
        for k, array in zip(places, given, strict=True):
            args[k] = array
        return function(*args)

    def gradient(ct: Any, *given: Any) -> Any:
        varied = [given[places.index(k)] for k in problem.varied]

        def of_varied(*values: Any) -> Any:
            args = list(given)
            for k, value in zip(problem.varied, values, strict=True):
                args[places.index(k)] = value
            return with_arrays(*args)

        found, pull = jax.vjp(of_varied, *varied)
        return found, *pull(ct)

    def expanded(*given: Any) -> Any:
        return gradient(jnp.ones(cotangent.shape, cotangent.dtype), *given)

    forward_jit, gradient_jit, expanded_jit = map(jax.jit, (with_arrays, gradient, expanded))
    return {
        FORWARD: lambda: (jax.block_until_ready(forward_jit(*arrays)),),
        GRADIENT: lambda: jax.block_until_ready(gradient_jit(cotangent, *arrays)),
        EXPANDED: lambda: jax.block_until_ready(expanded_jit(*arrays)),
    }


def runs_in_warp(problem: Problem) -> Runs:
    """The kernel in Warp, on its one thread; it has no arrays of stride zero."""
    warp, case = quiet_warp(), problem.case
    kernel = case.make(warp, getattr(warp, case.dtype))
    types = [argument.type for argument in kernel.adj.args]

    def wrapped(at: int, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return warp.array(value, dtype=types[at].dtype, device="cpu")

    args = [wrapped(k, a) for k, a in enumerate(problem.args)]
    result = wrapped(len(args), np.zeros_like(problem.cotangent))
    cotangent = wrapped(len(args), problem.cotangent)
    varied = {k: wrapped(k, np.zeros_like(problem.args[k])) for k in problem.varied}
    cotangents = [varied.get(k) for k in range(len(args))]
    grid = tuple(case.grid(problem.args, problem.cotangent))

    def forward() -> Sequence[Any]:
        if case.adds:
            result.zero_()
        warp.launch(kernel, grid, args, [result], device="cpu")
        return (result,)

    def gradient() -> Sequence[Any]:
        forward()
        for array in varied.values():
            array.zero_()
        warp.launch(
            kernel,
            grid,
            args,
            [result],
            adj_inputs=cotangents,
            adj_outputs=[cotangent],
            adjoint=True,
            device="cpu",
        )
        return result, *varied.values()

    return {FORWARD: forward, GRADIENT: gradient}


def differences(
    problem: Problem, found: Mapping[str, Runs], kind: str, least_scales: Sequence[float] = ()
) -> tuple[dict[str, float], list[float]]:
    """How far the results of every contender are from those of torch, in units of the tolerance.

    Args:
        problem: The operator.
        found: Its contenders.
        kind: What they run.
        least_scales: Per result, the least size of an element that counts as the largest one. The
            gradient for a constant cotangent may be zero, which no contender meets exactly.

    Returns:
        The differences by contender, and the size of the largest element of each result.
    """
    wanted = _results(found[TORCH][kind])
    scales = [float(max(-a.min(), a.max())) for a in wanted]
    if least_scales:
        scales = [max(pair) for pair in zip(scales, least_scales, strict=True)]
    errors: dict[str, float] = {}
    for name, runs in found.items():
        if kind in runs and name != TORCH:
            triples = zip(_results(runs[kind]), wanted, scales, strict=True)
            error = max(_distance(a, b) / scale for a, b, scale in triples)
            errors[name] = error / problem.case.tolerance
    return errors, scales


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


def _results(run: Callable[[], Sequence[Any]]) -> list[np.ndarray]:
    """Results; of long ones the first rows."""
    found = [a.numpy() if hasattr(a, "numpy") else np.asarray(a) for a in run()]
    return [a if a.size <= MOST_COMPARED else a[: MOST_COMPARED // a[0].size].copy() for a in found]


def _as_tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _in_jax(array: np.ndarray) -> jax.Array:
    return jax.device_put(array, may_alias=True)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same elements, columns adjacent in memory."""
    return tensor.mT.contiguous().mT if tensor.ndim > 1 else tensor


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
