"""A kernel of the suite as something to run: in the common language, forward and adjoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tests.bench.suite.case import Case, Data


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel with arguments of its own.

    Attributes:
        forward: Runs it.
        data: What it was made of.
        outputs: What it has written, as NumPy arrays.
        adjoint: Runs its adjoint, or None.
        gradients: The cotangents of its inputs, as NumPy arrays, ones being those of its outputs.
    """

    forward: Callable[[], object]
    data: Data
    outputs: Callable[[], list[np.ndarray]]
    adjoint: Callable[[], object] | None = None
    gradients: Callable[[], list[np.ndarray]] = list


def in_language(m: ModuleType, case: Case, data: Data) -> Prepared:
    """``case`` in kernelcore or Warp, with arrays of that library."""
    kernel = case.make(m)
    options: dict[str, Any] = {"device": "cpu"}

    def wrapped(at: int, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        dtype = m.vec3 if at in data.vectors else getattr(m, value.dtype.name)
        return m.array(value, dtype=dtype, **options)

    args = [wrapped(at, value) for at, value in enumerate(data.args)]
    split = data.num_inputs

    def forward() -> None:
        m.launch(kernel, data.dim, args[:split], args[split:])

    def outputs() -> list[np.ndarray]:
        return [a.numpy() for a in args[split:]]

    if not case.adjoint:
        return Prepared(forward, data, outputs)
    cotangents: list[Any] = [None] * len(args)
    for at in data.varied:
        cotangents[at] = wrapped(at, np.zeros_like(data.args[at]))
    for at in range(split, len(args)):
        cotangents[at] = wrapped(at, np.ones_like(data.args[at]))

    def adjoint() -> None:
        m.launch(
            kernel,
            data.dim,
            args[:split],
            args[split:],
            adj_inputs=cotangents[:split],
            adj_outputs=cotangents[split:],
            adjoint=True,
        )

    return Prepared(
        forward, data, outputs, adjoint, lambda: [cotangents[at].numpy() for at in data.varied]
    )
