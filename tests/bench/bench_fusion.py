"""A chain of five elementwise operators in compiled programs, against the same chain of theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import kernelcore as kc
from tests.bench.results import Goal, show
from tests.bench.timing import Contender, timed

COUNT, LINKS, GOAL = 1 << 22, 5, 1.1
AnyRank = kc.arraynd[float]


@kc.kernel
def leaky_kernel(x: AnyRank, a: float, b: float, y: AnyRank):
    i = kc.tid()
    v = a * x[i] + b
    y[i] = v if v > 0.0 else 0.125 * v


@kc.kernel
def gate_kernel(x: AnyRank, y: AnyRank):
    i = kc.tid()
    y[i] = x[i] / (1.0 + kc.exp(-x[i]))


leaky, launched = kc.op(leaky_kernel), kc.op(leaky_kernel, fuse=False)
gate, gate_launched = kc.op(gate_kernel), kc.op(gate_kernel, fuse=False)
gate_fused = kc.op(gate_kernel, fuse=True)


def leaky_of_torch(x: Any, a: float, b: float) -> Any:
    v = a * x + b
    return torch.where(v > 0.0, v, 0.125 * v)


def leaky_of_jax(x: Any, a: float, b: float) -> Any:
    v = a * x + b
    return jnp.where(v > 0.0, v, 0.125 * v)


def gate_of_torch(x: Any) -> Any:
    return x / (1.0 + torch.exp(-x))


def gate_of_jax(x: Any) -> Any:
    return x / (1.0 + jnp.exp(-x))


def chain(link: Callable[..., Any], numbers: bool) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for k in range(LINKS):
            x = link(x, 1.0 + 0.125 * k, 0.5 - 0.25 * k) if numbers else link(x)
        return x

    return run


def in_torch(link: Callable[..., Any], numbers: bool, x: Any) -> dict[str, Contender]:
    run = torch.compile(chain(link, numbers), fullgraph=True)
    ct = torch.ones_like(x)
    given = x.clone().requires_grad_()

    def forward() -> Any:
        with torch.no_grad():
            return run(x)

    def gradient() -> Any:
        return torch.autograd.grad(run(given), given, ct)

    return {"forward": Contender(forward), "forward and gradient": Contender(gradient)}


def in_jax(link: Callable[..., Any], numbers: bool, x: Any) -> dict[str, Contender]:
    run = jax.jit(chain(link, numbers))
    both = jax.jit(lambda x, ct: jax.vjp(run, x)[1](ct))
    ct = jnp.ones_like(x)
    return {
        "forward": Contender(lambda: run(x).block_until_ready()),
        "forward and gradient": Contender(lambda: both(x, ct)[0].block_until_ready()),
    }


def main() -> None:
    torch._dynamo.config.recompile_limit = 64  # All chains have one code object.
    numbers = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    tensor, array = torch.from_numpy(numbers), jnp.asarray(numbers)
    rows: list[tuple[str, bool, Any, Any, dict[str, Any]]] = [
        ("torch, a * x + b", True, in_torch, tensor, {"kc.op": leaky, "torch": leaky_of_torch}),
        ("torch, exp", False, in_torch, tensor, {"kc.op": gate, "torch": gate_of_torch}),
        ("jax, a * x + b", True, in_jax, array, {"kc.op": leaky, "jnp": leaky_of_jax}),
        ("jax, exp", False, in_jax, array, {"kc.op": gate, "jnp": gate_of_jax}),
    ]
    for title, has_numbers, make, x, links in rows:
        links["kc.op, fuse=False"] = launched if has_numbers else gate_launched
        links["kc.op, fuse=True"] = leaky if has_numbers else gate_fused
        made = {name: make(link, has_numbers, x) for name, link in links.items()}
        peer = list(links)[1]
        for part in ("forward", "forward and gradient"):
            found = timed({name: one[part] for name, one in made.items()})
            ratio = found["kc.op"].median / found[peer].median
            name = f"chain of {LINKS}, {COUNT >> 20} Mi float32, {title}, {part}"
            show(name, found, "kc.op", [Goal(f"{name}, kc.op to {peer}", ratio, "times", GOAL)])


if __name__ == "__main__":
    main()
