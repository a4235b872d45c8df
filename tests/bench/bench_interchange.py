"""Costs of taking other libraries' arrays, and of a Tape, beside Warp in the same process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import paddle
import torch
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from tests.bench.timing import interleaved, report

ELEMENTS = 8


@kc.kernel
def ours(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def theirs(x: wp.array(dtype=float), y: wp.array(dtype=float)):  # pyright: ignore
    i = wp.tid()
    y[i] = x[i] * x[i]


def tape_of(module: Any, kernel: Any) -> Callable[[], None]:
    """Recording, backward and zero of one launch over one element."""
    x, loss = module.ones(1, requires_grad=True), module.zeros(1, requires_grad=True)
    extra = {} if module is kc else {"device": "cpu"}

    def step() -> None:
        tape = module.Tape()
        with tape:
            module.launch(kernel, dim=1, inputs=[x], outputs=[loss], **extra)
        tape.backward(loss)
        tape.zero()

    return step


def main() -> None:
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    values = np.ones(ELEMENTS, np.float32)
    tensor, array, paddle_tensor = torch.ones(ELEMENTS), jnp.ones(ELEMENTS), paddle.ones([ELEMENTS])
    rows: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
        "from_torch": (tensor, lambda m, a: m.from_torch(a)),
        "from_torch, return_ctype": (tensor, lambda m, a: m.from_torch(a, return_ctype=True)),
        "from_jax": (array, lambda m, a: m.from_jax(a)),
        "from_paddle": (paddle_tensor, lambda m, a: m.from_paddle(a)),
        "from_dlpack": (tensor, lambda m, a: m.from_dlpack(a)),
        "from_numpy": (values, lambda m, a: m.from_numpy(a)),
    }
    for name, (given, take) in rows.items():
        medians = interleaved(
            {"kernelcore": partial(take, kc, given), "warp": partial(take, wp, given)}
        )
        goal_us = None if "ctype" in name else medians["warp"] / 5
        report(name, medians, "kernelcore", goal_us=goal_us)
    medians = interleaved({"kernelcore": tape_of(kc, ours), "warp": tape_of(wp, theirs)})
    report("Tape: record, backward, zero of one launch", medians, "kernelcore", goal_us=10.0)


if __name__ == "__main__":
    main()
