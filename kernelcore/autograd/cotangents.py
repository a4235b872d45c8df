"""The cotangents that a backward pass starts from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kernelcore.base.errors import KernelArgumentError
from kernelcore.launch.array_ops import add_to, layout
from kernelcore.runtime.array.array import Array


class Cotangents:
    """Cotangents of arrays, checked, and kept from what clears gradients.

    The ``grad`` of an array may be its own cotangent: then it is taken as it is.

    Args:
        given: The cotangents by array.
        cleared: Arrays whose gradients are cleared before ``add``.
    """

    def __init__(self, given: Mapping[Array, Any], cleared: Iterable[Array]) -> None:
        gradients = {id(array.grad): array.grad for array in cleared if array.grad is not None}
        self.pairs: list[tuple[Array, Any]] = []
        for array, cotangent in given.items():
            gradient = _gradient(array)
            _check_layout(gradient, cotangent)
            if not isinstance(cotangent, Array):
                # It may be a view of a gradient.
                self.pairs.append((gradient, np.array(cotangent)))
            elif any(cotangent.span.overlaps(g.span) for g in gradients.values()):
                self.pairs.append((gradient, cotangent.clone(requires_grad=False)))
            elif cotangent.ptr != gradient.ptr:
                self.pairs.append((gradient, cotangent))

    def add(self) -> None:
        """Add them to the gradients of their arrays."""
        for gradient, cotangent in self.pairs:
            add_to(gradient, cotangent)


def _gradient(array: Any) -> Array:
    gradient = array.grad if isinstance(array, Array) else None
    if gradient is None:
        raise KernelArgumentError(
            "backward: grads: expected arrays with requires_grad as keys",
            remedy="make them with requires_grad=True",
        )
    return gradient


def _check_layout(gradient: Array, cotangent: Any) -> None:
    given = cotangent if isinstance(cotangent, Array) else np.asarray(cotangent)
    expected, found = layout(gradient), layout(given)
    if found != expected:
        raise KernelArgumentError(
            f"backward: grads: expected shape {expected[0]} and dtype {expected[1]}, "
            f"found {found[0]} and {found[1]}",
            remedy="give cotangents of the shape and dtype of their array",
        )
