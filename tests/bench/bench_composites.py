"""Kernels on vectors, matrices and quaternions, one thread: forward and adjoint, against Warp."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp  # pyright: ignore[reportMissingImports]

import kernelcore as kc
from tests.bench.timing import interleaved, report

SIZE = 100_000
BODIES = 1024


def normalize_kernel(m: Any) -> Callable[..., None]:
    """``y = normalize(x)``, in the language ``m``."""

    def normalize(x: m.array(dtype=m.vec3), y: m.array(dtype=m.vec3)):
        i = m.tid()
        y[i] = m.normalize(x[i])

    return normalize


def inverse_kernel(m: Any) -> Callable[..., None]:
    """``y = inverse(a) * x``, in the language ``m``."""

    def inverse(a: m.array(dtype=m.mat33), x: m.array(dtype=m.vec3), y: m.array(dtype=m.vec3)):
        i = m.tid()
        y[i] = m.inverse(a[i]) * x[i]

    return inverse


def rotate_kernel(m: Any) -> Callable[..., None]:
    """Rotation of points by quaternions, in the language ``m``."""

    def rotate(q: m.array(dtype=m.quat), x: m.array(dtype=m.vec3), y: m.array(dtype=m.vec3)):
        i = m.tid()
        y[i] = m.quat_rotate(q[i], x[i])

    return rotate


def gravity_kernel(m: Any) -> Callable[..., None]:
    """Forces of all bodies on each, in the language ``m``."""

    def gravity(x: m.array(dtype=m.vec3), f: m.array(dtype=m.vec3)):
        i = m.tid()
        here = x[i]
        total = m.vec3(0.0, 0.0, 0.0)
        for j in range(x.shape[0]):
            d = x[j] - here
            r2 = m.dot(d, d) + 0.01
            total = total + d / (r2 * m.sqrt(r2))
        f[i] = total

    return gravity


CASES = {
    "normalize": (normalize_kernel, SIZE, ((3,), (3,))),
    "inverse times vector": (inverse_kernel, SIZE, ((3, 3), (3,), (3,))),
    "quat_rotate": (rotate_kernel, SIZE, ((4,), (3,), (3,))),
    "gravity of 1024 bodies": (gravity_kernel, BODIES, ((3,), (3,))),
}
WARP_TYPES = {(3,): "vec3", (3, 3): "mat33", (4,): "quat"}


def main() -> None:
    wp.config.quiet = True  # pyright: ignore[reportAttributeAccessIssue]
    wp.init()
    kc.set_num_threads(1)
    rng = np.random.default_rng(0)
    ratios: dict[str, list[float]] = {"forward": [], "adjoint": []}
    for name, (make, size, shapes) in CASES.items():
        arrays = [rng.normal(size=(size, *s)).astype(np.float32) for s in shapes]
        cotangents = [np.zeros_like(a) for a in arrays[:-1]]
        seed = np.ones_like(arrays[-1])
        ours, peer = kc.kernel(make(kc)), wp.Kernel(make(wp))
        types = [getattr(wp, WARP_TYPES[s]) for s in shapes]
        pairs = list(zip(arrays, types, strict=True))
        theirs = [wp.array(a, dtype=t, device="cpu") for a, t in pairs]
        grads = [wp.zeros(size, dtype=t, device="cpu") for t in types[:-1]]
        seeds = [wp.array(seed, dtype=types[-1], device="cpu")]

        def forward(ours: Any = ours, size: int = size, arrays: Any = arrays) -> None:
            kc.launch(ours, size, arrays)

        def forward_warp(peer: Any = peer, size: int = size, theirs: Any = theirs) -> None:
            wp.launch(peer, size, theirs, device="cpu")

        def adjoint(
            ours: Any = ours,
            size: int = size,
            arrays: Any = arrays,
            ct: Any = cotangents,
            seed: Any = seed,
        ) -> None:
            kc.launch(
                ours,
                size,
                arrays[:-1],
                arrays[-1:],
                adj_inputs=ct,
                adj_outputs=[seed],
                adjoint=True,
            )

        def adjoint_warp(
            peer: Any = peer,
            size: int = size,
            theirs: Any = theirs,
            grads: Any = grads,
            seeds: Any = seeds,
        ) -> None:
            wp.launch(
                peer,
                size,
                theirs[:-1],
                theirs[-1:],
                adj_inputs=grads,
                adj_outputs=seeds,
                adjoint=True,
                device="cpu",
            )

        for kind, mine, other in (
            ("forward", forward, forward_warp),
            ("adjoint", adjoint, adjoint_warp),
        ):
            medians = interleaved({"kernelcore": mine, "Warp": other})
            report(f"{name}, {kind}", medians, "kernelcore")
            ratios[kind].append(medians["Warp"] / medians["kernelcore"])
    for kind, found in ratios.items():
        print(
            f"\n{kind}: geometric mean of Warp / kernelcore {statistics.geometric_mean(found):.2f}"
        )


if __name__ == "__main__":
    main()
