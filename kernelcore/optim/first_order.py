"""Adam and stochastic gradient descent."""

# The types of parameters are objects.
# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelcore.base.errors import KernelArgumentError
from kernelcore.builtins import elementary
from kernelcore.frontend.calls.intrinsics import tid
from kernelcore.language.types import Dense, Scalar, float32
from kernelcore.launch.declare import kernel
from kernelcore.launch.launch import launch
from kernelcore.runtime.array.annotations import arraynd
from kernelcore.runtime.array.array import Array
from kernelcore.runtime.array.creation import zeros

sqrt = elementary.sqrt


@kernel
def adam_step(
    grad: arraynd[Any],
    first: arraynd[Any],
    second: arraynd[Any],
    params: arraynd[Any],
    rate: Any,
    beta1: Any,
    beta2: Any,
    rest1: Any,
    rest2: Any,
    scale1: Any,
    scale2: Any,
    eps: Any,
):
    i = tid()
    g = type(rate)(grad[i])
    m = beta1 * first[i] + rest1 * g
    v = beta2 * second[i] + rest2 * g * g
    first[i] = m
    second[i] = v
    step = rate * (m * scale1) / (sqrt(v * scale2) + eps)
    params[i] = type(params[i])(type(rate)(params[i]) - step)


@kernel
def sgd_step(
    grad: arraynd[Any],
    velocity: arraynd[Any],
    params: arraynd[Any],
    rate: Any,
    momentum: Any,
    damping: Any,
    decay: Any,
    is_nesterov: bool,
    is_first: bool,
):
    i = tid()
    p = type(rate)(params[i])
    g = type(rate)(grad[i]) + decay * p
    v = g
    if not is_first:
        v = momentum * velocity[i] + (type(rate)(1.0) - damping) * g
    velocity[i] = v
    step = v
    if is_nesterov:
        step = g + momentum * v
    params[i] = type(params[i])(p - rate * step)


class _Optimizer:
    """What the two have in common: arrays that are updated, and state of the same shapes."""

    # How many arrays of state an array has.
    _state_count: int

    def __init__(self, params: Sequence[Array] | None) -> None:
        self.params: list[Array] | None = None
        self.t = 0
        self._state: list[list[Array]] = []
        self.set_params(params)

    def set_params(self, params: Sequence[Array] | None) -> None:
        """Take other arrays to update; the state of those of the same shapes stays.

        Raises:
            KernelArgumentError: One of them is no array of floats or of composites of floats.
        """
        if params is None:
            self.params = None
            return
        old = self._state
        self.params, self._state = list(params), []
        for k, array in enumerate(self.params):
            dtype = _state_dtype(array, f"params[{k}]")
            known = old[k] if k < len(old) else []
            fits = bool(known) and known[0].shape == _scalars(array).shape
            if not fits or known[0].dtype != dtype or known[0].device != array.device:
                shape = _scalars(array).shape
                known = [zeros(shape, dtype, array.device) for _ in range(self._state_count)]
            self._state.append(known)

    def reset_internal_state(self) -> None:
        """Begin as before the first step."""
        for arrays in self._state:
            for array in arrays:
                array.zero_()
        self.t = 0

    def step(self, grad: Sequence[Array | None] | None = None) -> None:
        """Update the arrays in place; a Tape does not record it.

        Args:
            grad: A gradient per array, None for an array that stays; by default the ``grad`` of
                each array.

        Raises:
            KernelArgumentError: There are no arrays, or a gradient has another shape or dtype.
        """
        if self.params is None:
            raise KernelArgumentError(
                f"{type(self).__name__}.step: there is nothing to update",
                remedy="give params, or call set_params first",
            )
        grads = [p.grad for p in self.params] if grad is None else list(grad)
        if len(grads) != len(self.params):
            raise KernelArgumentError(
                f"{type(self).__name__}.step: expected {len(self.params)} gradients, "
                f"found {len(grads)}",
                remedy="give one per array, or None for an array that stays",
            )
        for k, (one, array) in enumerate(zip(grads, self.params, strict=True)):
            if one is not None and (one.shape != array.shape or one.dtype != array.dtype):
                raise KernelArgumentError(
                    f"{type(self).__name__}.step: grad[{k}]: expected shape {array.shape} and "
                    f"dtype {array.element}, found shape {one.shape} and dtype {one.element}",
                    remedy="give the gradient of that array",
                )
        for one, array, state in zip(grads, self.params, self._state, strict=True):
            if one is not None and array.size > 0:
                numbers = _scalars(array)
                whole = numbers.contiguous()
                self._update(_scalars(one).contiguous(), whole, state)
                if whole is not numbers:
                    # As the launches, without a Tape.
                    numbers.writer(whole)()
        self.t += 1

    def _update(self, grad: Array, array: Array, state: Sequence[Array]) -> None:
        raise NotImplementedError


class Adam(_Optimizer):
    """Steps by running means of the gradient and of its square (Kingma and Ba 2015, algorithm 1).

    The state has the dtype of the arrays, float32 for floats of 16 bits, as the arithmetic does.

    Args:
        params: Arrays of floats, or of vectors and matrices of floats; ``set_params`` gives others.
        lr: The step size.
        betas: How much of both means a step keeps.
        eps: What is added to the root of the mean square.

    Raises:
        KernelArgumentError: An array holds no floats.

    Example:
        >>> x = kc.array([3.0], dtype=float)
        >>> kc.optim.Adam([x], lr=0.1).step([kc.ones(1)])
        >>> x.numpy()
        array([2.9], dtype=float32)
    """

    _state_count = 2

    def __init__(
        self,
        params: Sequence[Array] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params)
        self.lr = lr
        self.beta1, self.beta2 = betas
        self.eps = eps

    def _update(self, grad: Array, array: Array, state: Sequence[Array]) -> None:
        number = state[0].dtype
        betas = self.beta1, self.beta2
        # In float64: differences from one of float32 have few digits.
        rests = [1.0 - beta for beta in betas]
        scales = [1.0 / (1.0 - beta ** (self.t + 1)) for beta in betas]
        numbers = [number(v) for v in (self.lr, *betas, *rests, *scales, self.eps)]
        launch(adam_step, array.size, [grad], [*state, array, *numbers], record_tape=False)


class SGD(_Optimizer):
    """Steps along the gradient, with momentum as in torch (Sutskever et al. 2013).

    Args:
        params: Arrays of floats, or of vectors and matrices of floats; ``set_params`` gives others.
        lr: The step size.
        momentum: How much of the last step's direction a step keeps.
        dampening: How much less the gradient counts beside it, after the first step.
        weight_decay: How much of the array is added to its gradient.
        nesterov: Whether the gradient is added to the direction once more.

    Raises:
        KernelArgumentError: An array holds no floats.
    """

    _state_count = 1

    def __init__(
        self,
        params: Sequence[Array] | None = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(params)
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov = weight_decay, nesterov

    def _update(self, grad: Array, array: Array, state: Sequence[Array]) -> None:
        number = state[0].dtype
        given = self.lr, self.momentum, self.dampening, self.weight_decay
        numbers = [number(v) for v in given]
        # Without momentum a step is the gradient, whatever the dampening.
        is_first = self.t == 0 or self.momentum == 0.0
        flags = [bool(self.nesterov), is_first]
        launch(sgd_step, array.size, [grad], [*state, array, *numbers, *flags], record_tape=False)


def _scalars(array: Array) -> Array:
    """``array`` with the components of its elements as dimensions."""
    element = array.element
    return array.view(element.scalar) if isinstance(element, Dense) else array


def _state_dtype(array: Array, name: str) -> Scalar:
    element = array.element
    scalar = element.scalar if isinstance(element, Dense) else element
    if not isinstance(scalar, Scalar) or not scalar.is_float:
        raise KernelArgumentError(
            f"{name}: expected an array of floats or composites of floats, found one of {element}",
            remedy="update the fields of a struct one by one",
        )
    return float32 if scalar.bits < float32.bits else scalar
