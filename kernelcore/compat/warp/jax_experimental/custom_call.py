"""``jax_kernel`` that takes every argument which is not given to a call for an output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import kernelcore as kc


def jax_kernel(
    kernel: kc.Kernel, launch_dims: int | Sequence[int] | None = None, quiet: bool = False
) -> Callable[..., Any]:
    """A function of JAX arrays that launches ``kernel``; see ``kernelcore.jax_kernel``.

    Args:
        kernel: A kernel whose parameters are inputs, then outputs.
        launch_dims: The dimensions of the launch, and the shape of the outputs; by default those of
            the first input.
        quiet: Without effect: nothing is said in any case.

    Returns:
        A function of the inputs. It returns the output, or a list of several: as many as the kernel
        has parameters that the call gives no input for.
    """
    names = [parameter.name for parameter in kernel.parameters]

    @cache
    def form(count: int) -> Callable[..., Any]:
        dims = None if launch_dims is None else dict.fromkeys(names[count:], launch_dims)
        options: dict[str, Any] = (
            {} if dims is None else {"launch_dims": launch_dims, "output_dims": dims}
        )
        return kc.jax_kernel(kernel, num_outputs=len(names) - count, **options)

    def call(*inputs: Any) -> Any:
        found = form(len(inputs))(*inputs)
        return found[0] if len(found) == 1 else found

    return call
