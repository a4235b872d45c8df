"""Cost of one launch with three arrays of one element, against Warp."""

from __future__ import annotations

import numpy as np
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from tests.bench.timing import interleaved, report


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


def main() -> None:
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    x, y, z = (np.ones(1, np.float32) for _ in range(3))
    wx, wy, wz = (wp.array(v, dtype=float, device="cpu", copy=False) for v in (x, y, z))
    kx, ky, kz = (kc.array(v) for v in (x, y, z))
    medians = interleaved(
        {
            "kernelcore.launch, kernelcore arrays": lambda: kc.launch(axpy, 1, [kx, ky, 2.0], [kz]),
            "kernelcore.launch, NumPy arrays": lambda: kc.launch(axpy, 1, [x, y, 2.0], [z]),
            "warp.launch, Warp arrays": lambda: wp.launch(
                axpy_warp, 1, [wx, wy, 2.0], [wz], device="cpu"
            ),
            "warp.launch, NumPy arrays": lambda: wp.launch(
                axpy_warp, 1, [x, y, 2.0], [z], device="cpu"
            ),
        }
    )
    report("launch with three arrays", medians, "kernelcore.launch, NumPy arrays", goal_us=1.0)


if __name__ == "__main__":
    main()
