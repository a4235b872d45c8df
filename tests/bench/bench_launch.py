"""Cost of one launch with three arrays of one element, against Warp.

What is printed are the medians of all rounds, with a Python function that does nothing of the same
arguments beside them. The limits, which are in microseconds, count the samples for which the
processor was at its quickest, as that function tells just before and after (``pace.py``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from tests.bench.pace import paced
from tests.bench.results import Goal, show
from tests.bench.timing import Contender


@kc.kernel
def axpy(x: kc.array(dtype=float), y: kc.array(dtype=float), a: float, z: kc.array(dtype=float)):
    i = kc.tid()
    z[i] = a * x[i] + y[i]


@wp.kernel
def axpy_warp(
    x: wp.array(dtype=float), y: wp.array(dtype=float), a: float, z: wp.array(dtype=float)
):
    i = wp.tid()
    z[i] = a * x[i] + y[i]


NOTHING = "a Python function that does nothing"
KC, NUMPY, TORCH = (
    f"kernelcore.launch, {a}" for a in ("kernelcore arrays", "NumPy arrays", "torch")
)
NAMED = "kernelcore.launch, device='cpu'"
RECORDED, RECORDED_TORCH = "a recorded launch", "a recorded launch, torch"
GOALS_US = {KC: 0.5, NUMPY: 0.7, TORCH: 0.8, NAMED: 0.7, RECORDED: 0.2, RECORDED_TORCH: 0.2}


def launch_ours(x: Any, y: Any, z: Any) -> Contender:
    return Contender(lambda: kc.launch(axpy, 1, [x, y, 2.0], [z]))


def launch_warp(x: Any, y: Any, z: Any) -> Contender:
    return Contender(lambda: wp.launch(axpy_warp, 1, [x, y, 2.0], [z], device="cpu"))


def recorded(x: Any, y: Any, z: Any) -> Contender:
    command = kc.launch(axpy, 1, [x, y, 2.0], [z], record_cmd=True)
    assert command is not None
    return Contender(command.launch)


def nothing(kernel: Any, dim: int, inputs: list[Any], outputs: list[Any]) -> None:
    """Take the arguments of a launch."""


def main() -> None:
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    arrays = [np.ones(1, np.float32) for _ in range(3)]
    tensors = [torch.ones(1) for _ in range(3)]
    own = [wp.array(v, dtype=float, device="cpu", copy=False) for v in arrays]
    x, y, z = (kc.array(v) for v in arrays)
    theirs = wp.launch(axpy_warp, 1, [*own[:2], 2.0], [own[2]], device="cpu", record_cmd=True)
    assert theirs is not None
    found = paced(
        {
            KC: launch_ours(x, y, z),
            NUMPY: launch_ours(*arrays),
            TORCH: launch_ours(*tensors),
            NAMED: Contender(lambda: kc.launch(axpy, 1, [x, y, 2.0], [z], device="cpu")),
            RECORDED: recorded(x, y, z),
            RECORDED_TORCH: recorded(*tensors),
            "warp.launch, Warp arrays": launch_warp(*own),
            "warp.launch, NumPy arrays": launch_warp(*arrays),
            "warp.launch, torch": launch_warp(*tensors),
            "a recorded launch of Warp": Contender(theirs.launch),
        },
        lambda: nothing(axpy, 1, [x, y, 2.0], [z]),
    )
    goals = [Goal(name, found.quick[name], "us", us) for name, us in GOALS_US.items()]
    show("launch with three arrays", {**found.timings, NOTHING: found.floor}, NUMPY, goals)
    print(f"  {found}")


if __name__ == "__main__":
    main()
