"""Every pattern as a JAX primitive: values, first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jax_ffi.kernel import JaxKernel
from tests.patterns import PATTERNS, Pattern

patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)


def as_function(pattern: Pattern) -> tuple[Callable[..., Any], list[Any]]:
    """The pattern as a jitted function of its float arguments, and these."""
    options = dict(pattern.options)
    names = [p.name for p in pattern.kernel.func.params]
    loads = dict(zip(names, pattern.kernel.effects, strict=True))
    written = [n for n in names if loads[n].writes]
    in_out = tuple(options.pop("in_out", ()))
    outputs = options.pop("outputs", None)
    if outputs is None:
        outputs = [n for n in written if not loads[n].loads]
        in_out = tuple(n for n in written if n not in outputs)
    dims = options.pop("output_dims", None)
    if isinstance(dims, int):
        dims = dict.fromkeys(outputs, dims)
    shapes = None if dims is None else tuple((n, (d,)) for n, d in dims.items())
    launch = options.pop("launch_dims", None)
    launch = (launch,) if isinstance(launch, int) else launch
    kernel = JaxKernel(pattern.kernel, tuple(outputs), in_out, launch, shapes, True, False)
    arguments = pattern.arguments(np.random.default_rng(0))
    is_float = [np.asarray(a).dtype.kind == "f" for a in arguments]

    def function(*floats: Any) -> Any:
        given = iter(floats)
        return kernel(*(next(given) if f else a for f, a in zip(is_float, arguments, strict=True)))

    return jax.jit(function), [
        jnp.asarray(a) for f, a in zip(is_float, arguments, strict=True) if f
    ]


@patterns
def test_values(pattern: Pattern) -> None:
    function, floats = as_function(pattern)
    want = pattern.reference(*pattern.arguments(np.random.default_rng(0)))
    for a, b in zip(function(*floats), want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@patterns
def test_first_and_second_derivatives_match_central_differences(pattern: Pattern) -> None:
    function, floats = as_function(pattern)
    if any(x.dtype == jnp.float32 for x in floats):
        # Differences of values that are rounded to float32.
        check_grads(function, floats, order=1, eps=1e-2, atol=1e-3, rtol=1e-3)
        return
    check_grads(function, floats, order=2, eps=1e-5, atol=1e-6, rtol=1e-6)
