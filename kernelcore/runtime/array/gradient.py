"""Memory of elements with a gradient, which views share with the array that they are taken from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.types import Element
from kernelcore.runtime.array.element_layout import has_gradient
from kernelcore.runtime.array.strided import ElementMemory

# It derives from the class below.
if TYPE_CHECKING:
    from kernelcore.runtime.array.array import Array


class GradientMemory(ElementMemory):
    """Strided memory of elements with a gradient of the same shape and dtype."""

    __slots__ = ("_base", "_derive", "_grad", "_requires_grad", "_root")

    def _set_up(self, element: Element, dtype: Any, inner: int) -> None:
        """Memory of its own, without a gradient, of elements with ``inner`` component axes."""
        self._set_layout(element, dtype, inner)
        self._root: Array | None = None
        self._base: Array | None = None
        self._derive: Callable[[Any], Array] | None = None
        self._grad: Array | None = None
        self._requires_grad: bool = False

    def _new(self) -> Array:
        """Zeros of this shape and dtype, on the device of this array."""
        raise NotImplementedError

    @property
    def retain_grad(self) -> bool:
        """False: a backward pass clears the cotangent of what a launch overwrote."""
        return False

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value:
            raise KernelArgumentError(
                "retain_grad: a Tape clears the gradients of arrays that launches wrote",
                remedy="after the launch that writes y, record a copy: "
                "tape.record_func(lambda: kept.assign(y.grad), [y])",
            )

    def mark_init(self) -> None:
        """Nothing: launches and methods count writes, and a Tape looks at the counts."""

    mark_read = mark_init

    @property
    def root(self) -> Array:
        """The array whose memory this is a view of; itself if it is no view."""
        return cast("Array", self) if self._root is None else self._root

    @property
    def requires_grad(self) -> bool:
        """Whether a Tape computes its gradient; as its array if this is a view.

        It stays False in arrays of integers and bools, which have no gradient.
        """
        return self._base.requires_grad if self._base is not None else self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._base is not None:
            if value == self.requires_grad:
                return
            raise KernelArgumentError(
                "a view shares gradients with the array that it is taken from",
                remedy="set requires_grad of that array",
            )
        self._requires_grad = bool(value) and has_gradient(self.element)

    @property
    def grad(self) -> Array | None:
        """The gradient, an array of the same shape and dtype; None without ``requires_grad``.

        It starts as zeros. The gradient of a view is a view of its array's gradient.
        """
        if self._base is None:
            if self._requires_grad and self._grad is None:
                self._grad = self._new()
            return self._grad if self._requires_grad else None
        whole = self._base.grad
        if whole is not None and (self._grad is None or self._grad._base is not whole):
            assert self._derive is not None
            self._grad = self._derive(whole)
        return None if whole is None else self._grad

    @grad.setter
    def grad(self, value: Array | None) -> None:
        if self._base is not None:
            raise KernelArgumentError(
                "the gradient of a view is part of that of its array",
                remedy="assign to its elements: view.grad.assign(...)",
            )
        if value is not None and (value.dtype != self.dtype or value.shape != self.shape):
            raise KernelArgumentError(
                f"grad: expected an array of shape {self.shape} and dtype {self.element}, found "
                f"shape {value.shape} and dtype {value.element}"
            )
        if value is not None and value.device != self.device:
            raise KernelArgumentError(
                f"grad: expected an array on {self.device}, found one on {value.device}",
                remedy="move it there with to()",
            )
        if value is not None and value.is_read_only:
            raise KernelArgumentError("grad: the array is read-only", remedy="give a copy of it")
        self._grad = value
