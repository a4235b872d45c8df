"""Memory of elements with a gradient, which views share with the array that they are taken from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelArgumentError
from kernelcore.language.types import Element
from kernelcore.runtime.array.element_layout import has_gradient
from kernelcore.runtime.array.strided import ElementMemory

# It derives from the class below.
if TYPE_CHECKING:
    from kernelcore.runtime.array.array import Array


@dataclass(frozen=True, slots=True)
class Retention:
    """What a backward pass has retained in the gradient of an array.

    Attributes:
        gradient: The whole gradient.
        version: Its version after that.
        before: A copy of what the pass had left there.
        after: A copy with the cotangents that were retained.
    """

    gradient: Array
    version: int
    before: Array
    after: Array


class GradientMemory(ElementMemory):
    """Strided memory of elements with a gradient of the same shape and dtype."""

    __slots__ = (
        *("_base", "_derive", "_grad", "_requires_grad", "_retain_grad", "_root"),
        "retention",
    )

    def _set_up(self, element: Element, dtype: Any, inner: int) -> None:
        """Memory of its own, without a gradient, of elements with ``inner`` component axes."""
        self._set_layout(element, dtype, inner)
        self._root: Array | None = None
        self._base: Array | None = None
        self._derive: Callable[[Any], Array] | None = None
        self._grad: Array | None = None
        self._requires_grad: bool = False
        self._retain_grad: bool = False
        self.retention: Retention | None = None

    def _new(self) -> Array:
        """Zeros of this shape and dtype, on the device of this array."""
        raise NotImplementedError

    def mark_init(self) -> None:
        """Nothing: launches and methods count writes, and a Tape looks at the counts."""

    mark_read = mark_init

    @property
    def root(self) -> Array:
        """The array whose memory this is a view of; itself if it is no view."""
        return cast("Array", self) if self._root is None else self._root

    @property
    def gradient_owner(self) -> Array:
        """The array that this one shares a gradient with as a view of it; itself if it is none."""
        return cast("Array", self) if self._base is None else self._base.gradient_owner

    @property
    def requires_grad(self) -> bool:
        """Whether a Tape computes its gradient; as its array if this is a view.

        It stays False in arrays of integers and bools, which have no gradient.
        """
        return self._base.requires_grad if self._base is not None else self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._base is not None:
            self._refuse_in_view("requires_grad", value != self.requires_grad)
            return
        self._requires_grad = bool(value) and has_gradient(self.element)
        self._retain_grad = self._retain_grad and self._requires_grad

    @property
    def retain_grad(self) -> bool:
        """Whether ``grad`` keeps the cotangent of the last value; as its array if this is a view.

        The backward pass of a Tape reads the cotangents of elements that were stored, and clears
        them. With ``retain_grad`` it copies them before, and in the end puts the copies into
        ``grad``: the gradient with respect to the values that were stored last. All other gradients
        are the same as without. Additions by ``atomic_add`` store nothing.

        The whole argument of a launch counts as stored. If the compiler cannot prove that every
        element is, and an earlier recorded launch reads the array, the pass raises a
        KernelGradError: give the launch a view of the part that it writes, such as ``states[t]``.

        The next backward pass of any Tape that recorded the array first takes retained values out
        of ``grad`` again, where nothing was written since.

        It stays False in arrays of integers and bools, which have no gradient.
        """
        return self.gradient_owner._retain_grad

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if self._base is not None:
            self._refuse_in_view("retain_grad", value != self.retain_grad)
            return
        if value and not self._requires_grad and has_gradient(self.element):
            raise KernelArgumentError(
                "retain_grad: expected an array with requires_grad, found one without",
                remedy="pass requires_grad=True too: there is no gradient to retain otherwise",
            )
        self._retain_grad = bool(value) and self._requires_grad

    def _refuse_in_view(self, name: str, is_changed: bool) -> None:
        if is_changed:
            raise KernelArgumentError(
                "a view shares gradients with the array that it is taken from",
                remedy=f"set {name} of that array",
            )

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
