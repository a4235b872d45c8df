"""What the contract suite needs of each framework: arrays, gradients, batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import paddle
import torch

import kernelcore as kc


@dataclass(frozen=True)
class Library:
    """One framework.

    Attributes:
        array: An array of it, from a NumPy array and the type of elements in kernelcore.
        numbers: A NumPy array, from one of its own.
        kind: The type of its arrays.
        gradients: The cotangents of arguments, given a call, the arguments, those wanted and the
            cotangents of the results; None where it has no gradients.
        batch: A call on a batch of some arguments; None where it has no batches.
    """

    array: Callable[[Any, Any], Any]
    numbers: Callable[[Any], Any]
    kind: type
    gradients: Callable[..., list[Any]] | None = None
    batch: Callable[..., Any] | None = None


def _torch_gradients(
    call: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int], weights: Sequence[Any]
) -> list[Any]:
    given = [a.clone().requires_grad_() if k in wrt else a for k, a in enumerate(args)]
    found = call(*given)
    found = found if isinstance(found, tuple) else (found,)
    cotangents = [
        torch.from_numpy(np.asarray(w, str(f.dtype)[6:]))
        for w, f in zip(weights, found, strict=True)
    ]
    return list(torch.autograd.grad(found, [given[k] for k in wrt], cotangents))


def _jax_gradients(
    call: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int], weights: Sequence[Any]
) -> list[Any]:
    def loss(*chosen: Any) -> Any:
        given = list(args)
        for k, one in zip(wrt, chosen, strict=True):
            given[k] = one
        found = call(*given)
        found = found if isinstance(found, tuple) else (found,)
        return sum((jnp.asarray(w, f.dtype) * f).sum() for w, f in zip(weights, found, strict=True))

    return list(jax.grad(loss, range(len(wrt)))(*(args[k] for k in wrt)))


def _paddle_gradients(
    call: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int], weights: Sequence[Any]
) -> list[Any]:
    given = [a.clone().detach() if k in wrt else a for k, a in enumerate(args)]
    for k in wrt:
        given[k].stop_gradient = False
    found = call(*given)
    found = found if isinstance(found, tuple) else (found,)
    cotangents = [
        paddle.to_tensor(np.asarray(w), dtype=f.dtype) for w, f in zip(weights, found, strict=True)
    ]
    return list(paddle.grad(list(found), [given[k] for k in wrt], cotangents))


def _tape_gradients(
    call: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int], weights: Sequence[Any]
) -> list[Any]:
    for k in wrt:
        args[k].requires_grad = True
    tape = kc.Tape()
    with tape:
        found = call(*args)
    found = found if isinstance(found, tuple) else (found,)
    grads = {
        f: kc.array(np.asarray(w, np.asarray(f.numpy()).dtype), dtype=f.dtype)
        for w, f in zip(weights, found, strict=True)
    }
    tape.backward(grads=grads)
    return [args[k].grad for k in wrt]


def _torch_batch(call: Callable[..., Any], args: Sequence[Any], batched: Sequence[int]) -> Any:
    dims = tuple(0 if k in batched else None for k in range(len(args)))
    return torch.func.vmap(call, in_dims=dims)(*args)


def _jax_batch(call: Callable[..., Any], args: Sequence[Any], batched: Sequence[int]) -> Any:
    dims = tuple(0 if k in batched else None for k in range(len(args)))
    return jax.vmap(call, in_axes=dims)(*args)


def _kernelcore_array(numbers: Any, dtype: Any) -> Any:
    return kc.array(numbers, dtype=dtype or str(numbers.dtype))


LIBRARIES = {
    "torch": Library(
        lambda a, _: torch.from_numpy(a),
        lambda t: t.detach().numpy(),
        torch.Tensor,
        _torch_gradients,
        _torch_batch,
    ),
    "jax": Library(lambda a, _: jnp.asarray(a), np.asarray, jax.Array, _jax_gradients, _jax_batch),
    "paddle": Library(
        lambda a, _: paddle.to_tensor(a), lambda t: t.numpy(), paddle.Tensor, _paddle_gradients
    ),
    "numpy": Library(lambda a, _: a, np.asarray, np.ndarray),
    "kernelcore": Library(_kernelcore_array, lambda a: a.numpy(), kc.Array, _tape_gradients),
}


def converted(library: str, value: Any, dtype: Any = None) -> Any:
    """``value``, an argument of a case, as one of ``library``."""
    if isinstance(value, np.ndarray):
        return LIBRARIES[library].array(value, dtype)
    if not isinstance(value, Mapping):
        return value
    if library == "kernelcore" and dtype is not None:
        made = np.zeros(len(next(iter(value.values()))), dtype.numpy_dtype())
        for name, field in value.items():
            made[name] = field
        return kc.array(made, dtype=dtype)
    return {name: converted(library, field) for name, field in value.items()}


# Arrays of a shape and dtype that are views of others.
LAYOUTS: dict[str, Callable[[tuple[int, ...], Any], np.ndarray]] = {
    "with gaps": lambda shape, dtype: np.zeros([2 * n for n in shape], dtype)[
        *(slice(None, None, 2) for _ in shape), ...
    ],
    "reversed": lambda shape, dtype: np.zeros(shape, dtype)[
        *(slice(None, None, -1) for _ in shape), ...
    ],
    "transposed": lambda shape, dtype: np.zeros(shape[::-1], dtype).T,
    "inner": lambda shape, dtype: np.zeros([n + 3 for n in shape], dtype)[
        *(slice(2, 2 + n) for n in shape), ...
    ],
}


def laid_out(library: str, value: Any, dtype: Any, layout: str) -> Any:
    """``value`` as ``converted`` gives it, where the framework has strides with ``layout``."""
    if isinstance(value, dict):
        if dtype is not None and library == "kernelcore":
            return converted(library, value, dtype)
        return {name: laid_out(library, field, None, layout) for name, field in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    if library == "paddle":
        # Its transposes are views; it makes copies of NumPy's.
        return paddle.to_tensor(value.T.copy()).transpose([*reversed(range(value.ndim))])
    strided = LAYOUTS["with gaps" if (library, layout) == ("torch", "reversed") else layout](
        value.shape, value.dtype
    )
    strided[...] = value
    if library == "kernelcore":
        return kc.array(strided, dtype=dtype or str(value.dtype), copy=False)
    return converted(library, strided, dtype)
