"""Cost of one call of a torch operator on one element, against the documented Warp pattern.

Limits that are no peer's multiples count the samples at the processor's quickest (``pace.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from tests.bench.pace import paced
from tests.bench.timing import Contender, interleaved, report
from torch_ext import overload, torch_op

OURS, NEG, NOTHING = "kernelcore torch_op", "torch.neg", "an empty autograd.Function"
WARP = "Warp, documented custom_op pattern"
FEW, MANY = 4, 36


@kc.kernel
def square(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i] * x[i]


def warp_operator() -> Callable[..., torch.Tensor]:
    """The pattern that Warp documents: custom operators around its launches."""
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()

    @wp.kernel
    def square_warp(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = a * x[i] * x[i]

    @torch.library.custom_op("kernelcore_bench::square", mutates_args=())
    def forward(x: torch.Tensor, a: float) -> torch.Tensor:
        wx = wp.from_torch(x)
        wy = wp.zeros(x.shape[0], dtype=float, device="cpu")
        wp.launch(square_warp, x.shape[0], [wx, a], [wy], device="cpu")
        return wp.to_torch(wy)

    @forward.register_fake
    def shapes(x: torch.Tensor, a: float) -> torch.Tensor:
        return torch.empty_like(x)

    @torch.library.custom_op("kernelcore_bench::square_backward", mutates_args=())
    def backward(x: torch.Tensor, a: float, y: torch.Tensor, ct: torch.Tensor) -> torch.Tensor:
        wx, wy = wp.from_torch(x), wp.from_torch(y, requires_grad=False)
        adj_y = wp.from_torch(ct.contiguous(), requires_grad=False)
        adj_x = wp.zeros(x.shape[0], dtype=float, device="cpu")
        wp.launch(
            square_warp,
            x.shape[0],
            inputs=[wx, a],
            outputs=[wy],
            adj_inputs=[adj_x, None],
            adj_outputs=[adj_y],
            adjoint=True,
            device="cpu",
        )
        return wp.to_torch(adj_x)

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)
        ctx.a = inputs[1]

    def rule(ctx, ct):
        x, y = ctx.saved_tensors
        return backward(x, ctx.a, y, ct), None

    forward.register_autograd(rule, setup_context=setup_context)
    return forward


class Nothing(torch.autograd.Function):
    """What autograd itself costs."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, ct):
        return ct.clone()


def training(op: Callable[..., torch.Tensor], x: torch.Tensor) -> Callable[[], object]:
    """A forward and a backward pass."""
    ones = torch.ones(1)
    return lambda: torch.autograd.grad(op(x), x, ones)


def compiled_call(op: Callable[..., torch.Tensor], calls: int, cpp_wrapper: bool) -> Contender:
    """One compiled graph of so many calls, each of the result of the one before."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(calls):
            x = op(x, 0.5)
        return x

    torch._dynamo.reset()
    graph = torch.compile(chain, fullgraph=True, options={"cpp_wrapper": cpp_wrapper})
    x = torch.ones(1)
    torch.testing.assert_close(graph(x), chain(x))
    return Contender(lambda: graph(x))


def compiled_calls(
    operators: Mapping[str, Callable[..., torch.Tensor]], cpp_wrapper: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds that one more call in a compiled graph takes, for each operator.

    Returns:
        Those of all samples, and those of the samples at the quickest pace.
    """
    found = paced(
        {
            f"{name} {calls}": compiled_call(op, calls, cpp_wrapper)
            for name, op in operators.items()
            for calls in (FEW, MANY)
        }
    )
    print(f"\n{found}")
    every = {name: timing.median for name, timing in found.timings.items()}

    def slopes(medians: Mapping[str, float]) -> dict[str, float]:
        return {
            name: (medians[f"{name} {MANY}"] - medians[f"{name} {FEW}"]) / (MANY - FEW)
            for name in operators
        }

    return slopes(every), slopes(found.quick)


def main() -> None:
    torch.set_num_threads(1)
    op, warp = torch_op(square), warp_operator()
    registered = overload(op)
    x, leaf = torch.ones(1), torch.ones(1, requires_grad=True)
    calls: dict[str, Callable[[], object]] = {
        OURS: lambda: op(x, 2.0),
        "the same through torch's dispatcher": lambda: registered(x, 2.0),
        NEG: lambda: torch.neg(x),
        WARP: lambda: warp(x, 2.0),
    }
    passes = {
        OURS: training(lambda x: op(x, 2.0), leaf),
        NEG: training(torch.neg, leaf),
        NOTHING: training(Nothing.apply, leaf),
        WARP: training(lambda x: warp(x, 2.0), leaf),
    }
    torch.testing.assert_close(passes[WARP](), passes[OURS]())
    found = interleaved(calls)
    report("call without gradient", found, OURS, 1.5 * found[NEG] + 0.5, (WARP, 30.0))
    found = interleaved(passes)
    report("forward and backward", found, OURS, 1.25 * found[NOTHING])
    for cpp_wrapper, goal_us in ((False, 3.2), (True, 1.4)):
        found, counted = compiled_calls({OURS: op, WARP: warp}, cpp_wrapper)
        wrapper = "C++" if cpp_wrapper else "Python"
        title = f"call in a compiled graph, {wrapper} wrapper"
        report(title, found, OURS, goal_us, counted=counted)


if __name__ == "__main__":
    main()
