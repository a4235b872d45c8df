"""Cost of one call of a torch operator on one element, against the documented Warp pattern."""

from __future__ import annotations

from collections.abc import Callable

import torch
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from tests.bench.timing import interleaved, report
from torch_ext import overload, torch_op

OURS = "kernelcore torch_op"


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


def main() -> None:
    torch.set_num_threads(1)
    op = torch_op(square)
    registered = overload(op)
    x, leaf = torch.ones(1), torch.ones(1, requires_grad=True)
    calls: dict[str, Callable[[], object]] = {
        OURS: lambda: op(x, 2.0),
        "the same through torch's dispatcher": lambda: registered(x, 2.0),
        "torch.neg": lambda: torch.neg(x),
    }
    passes = {
        OURS: training(lambda x: op(x, 2.0), leaf),
        "torch.neg": training(torch.neg, leaf),
        "an empty autograd.Function": training(Nothing.apply, leaf),
    }
    warp = warp_operator()
    expected = training(lambda x: op(x, 2.0), leaf)()
    torch.testing.assert_close(training(lambda x: warp(x, 2.0), leaf)(), expected)
    calls["Warp, documented custom_op pattern"] = lambda: warp(x, 2.0)
    passes["Warp, documented custom_op pattern"] = training(lambda x: warp(x, 2.0), leaf)
    report("call without gradient", interleaved(calls), OURS, goal_us=3.0)
    report("forward and backward", interleaved(passes), OURS)


if __name__ == "__main__":
    main()
