"""Random accesses of operands in other strides: parts of them are copied, and the bits stay."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from tests.fuzz.typed_programs import define

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "16"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
# Smaller operands are copied whole.
_LEAST_BYTES = 1 << 18
_GRIDS = [(300,), (1100,), (20, 300), (300, 20), (1, 500), (500, 1), (7, 9, 40), (4, 90, 3)]
_OFFSETS = (0, 0, 0, 1, -1, 2, -7)


class Program:
    """A kernel that reads two arrays at launch indices, beside them, and along loops.

    Attributes:
        grid: The extents of its launch.
        outputs: Their shapes by name.
        shapes: Those of ``x`` and ``w``.
        text: The source.
    """

    def __init__(self, number: int) -> None:
        self.rng = rng = Random(number)
        self.grid = rng.choice(_GRIDS)
        self.real = rng.choice(("float32", "float64"))
        self._ids = ["i", "j", "k"][: len(self.grid)]
        self.shapes: list[tuple[int, ...]] = []
        body = [line for name in "xw" for line in self._reads_of(name)]
        index = ", ".join(self._ids)
        self.outputs: dict[str, tuple[int, ...]] = {"y": self.grid}
        if rng.random() < 0.5:
            self.outputs["z"] = (11,)
        ndims = {"x": len(self.shapes[0]), "w": len(self.shapes[1])}
        ndims |= {name: len(shape) for name, shape in self.outputs.items()}
        params = [f"{name}: kc.array(kc.{self.real}, {ndim})" for name, ndim in ndims.items()]
        lines = [
            "@kc.kernel",
            f"def kernel(at: kc.array(kc.int32), {', '.join(params)}):",
            f"    {index} = kc.tid()",
            f"    total = kc.{self.real}(0)",
            *(f"    {line}" for line in body),
            f"    y[{index}] = total",
        ]
        if "z" in self.outputs:
            lines.append(f"    kc.atomic_add(z, {self._ids[-1]} % z.shape[0], total * total)")
        self.text = "\n".join(lines) + "\n"

    def _reads_of(self, name: str) -> list[str]:
        """Lines that read ``name``, whose shape becomes one of ``shapes``."""
        rng = self.rng
        order = rng.sample(range(len(self.grid)), rng.randint(1, len(self.grid)))
        # Per axis the launch axis at whose index it is read; None: a loop or a table.
        axes: list[int | None] = [*order]
        for _ in range(rng.randint(len(axes) < 2, 3 - len(axes))):
            axes.insert(rng.randint(0, len(axes)), None)
        shape = [rng.randint(2, 9) if a is None else self.grid[a] for a in axes]
        itemsize = np.dtype(self.real).itemsize
        while np.prod(shape) * itemsize < 1.2 * _LEAST_BYTES:
            # Axes of the launch may be longer than it.
            shape[rng.randrange(len(shape))] *= 2
        self.shapes.append(tuple(shape))
        return [
            line for number in range(rng.randint(1, 3)) for line in self._sum(name, axes, number)
        ]

    def _sum(self, name: str, axes: list[int | None], number: int) -> list[str]:
        """Lines that add up elements of ``name``, in loops where these are sums over axes."""
        rng = self.rng
        heads, indices, guards = [], [], []
        for axis, launch_axis in enumerate(axes):
            last = f"{name}.shape[{axis}] - 1"
            index = rng.choice((last, f"at[{self._ids[0]} % at.shape[0]] % {name}.shape[{axis}]"))
            if launch_axis is not None and rng.random() < 0.9:
                offset = rng.choice(_OFFSETS)
                index = f"{self._ids[launch_axis]} + {offset}" if offset else self._ids[launch_axis]
                if offset:
                    guards.append(f"0 <= {index} and {index} < {name}.shape[{axis}]")
            elif launch_axis is None and rng.random() < 0.6:
                index = f"{name}{number}{axis}"
                end = rng.choice((f"{name}.shape[{axis}]", "2"))
                heads.append(f"for {index} in range({end}):")
            indices.append(index)
        if guards:
            heads.append(f"if {' and '.join(guards)}:")
        term = f"{name}[{', '.join(indices)}]"
        body = [*heads, f"total += {rng.choice((term, f'{term} * {term}'))}"]
        return ["    " * depth + line for depth, line in enumerate(body)]

    def arrays(self) -> list[np.ndarray]:
        """Values for ``at``, ``x`` and ``w``."""
        rng = np.random.default_rng(self.rng.randrange(1 << 30))
        reals = [rng.standard_normal(shape).astype(self.real) for shape in self.shapes]
        return [rng.integers(0, 1 << 20, 37).astype(np.int32), *reals]

    def in_other_strides(self, array: np.ndarray) -> np.ndarray:
        """``array`` with the elements elsewhere, and surrounded by others."""
        order = self.rng.sample(range(array.ndim), array.ndim)
        padded = np.full([e + self.rng.choice((0, 3)) for e in array.shape], np.nan, array.dtype)
        backwards = tuple(slice(None, None, self.rng.choice((1, -1))) for _ in order)
        base = np.ascontiguousarray(padded.transpose(order)).transpose(np.argsort(order))[backwards]
        found = base[tuple(slice(e) for e in array.shape)]
        if self.rng.random() < 0.2:
            axis = self.rng.randrange(array.ndim)
            array[...] = np.take(array, [0], axis)
            return np.broadcast_to(np.take(array, [0], axis), array.shape)
        found[...] = array
        return found


@pytest.mark.usefixtures("eager_sharing")
@pytest.mark.parametrize("number", range(FIRST, FIRST + COUNT))
def test_results_have_the_bits_of_dense_operands(number: int) -> None:
    program = Program(number)
    kernel = define(program.text, {"kc": kc})["kernel"]
    op: Any = kc.op(launch_dims=program.grid, output_dims=program.outputs)(kernel)
    at, x, w = program.arrays()
    others = [program.in_other_strides(x), program.in_other_strides(w)]
    results = op(at, x, w)
    wanted = results if "z" in program.outputs else (results,)
    before = kc.num_threads()
    try:
        for threads in (1, 3):
            kc.set_num_threads(threads)
            results = op(at, *others)
            found = results if "z" in program.outputs else (results,)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=program.text)
    finally:
        kc.set_num_threads(before)
