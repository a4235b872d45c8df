"""``jax_kernel`` that takes every parameter which a call gives no input for as an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import kernelcore as kc


def jax_kernel(
    kernel: kc.Kernel,
    *,
    num_outputs: int | None = None,
    launch_dims: int | Sequence[int] | None = None,
    quiet: bool = False,
    **options: Any,
) -> Callable[..., Any]:
    """A function of JAX arrays that launches ``kernel``; see ``kernelcore.jax_kernel``.

    Args:
        kernel: A kernel whose parameters are inputs, then outputs.
        num_outputs: The number of outputs; by default all parameters that the call has no input
            for, and arrays that it updates.
        launch_dims: The dimensions of the launch, and the shape of the outputs; by default those of
            the first input.
        quiet: Without effect: nothing is said in any case.
        options: As for ``kernelcore.jax_kernel``.

    Returns:
        A function of the inputs, which returns a tuple of the outputs.

    Example::

        @wp.kernel
        def sums(a: wp.array[float], b: wp.array[float], s: wp.array[float], d: wp.array[float]):
            i = wp.tid()
            s[i] = a[i] + b[i]
            d[i] = a[i] - b[i]

        s, d = jax.jit(jax_kernel(sums))(jnp.ones(3), jnp.ones(3))
    """
    names = [parameter.name for parameter in kernel.parameters]
    updated = options.get("in_out_argnames") or ()
    count_updated = 1 if isinstance(updated, str) else len(tuple(updated))

    @cache
    def form(count: int) -> Callable[..., Any]:
        own = dict(options)
        if launch_dims is not None:
            own["launch_dims"] = launch_dims
            own.setdefault("output_dims", dict.fromkeys(names[count:], launch_dims))
        found = len(names) - count + count_updated if num_outputs is None else num_outputs
        return kc.jax_kernel(kernel, num_outputs=found, **own)

    def call(*inputs: Any, **options: Any) -> Any:
        return form(len(inputs))(*inputs, **options)

    return call
