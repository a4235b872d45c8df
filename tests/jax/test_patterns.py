"""Every pattern as a JAX primitive: values, first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jax_ffi.arguments import operand_values
from jax_ffi.primitive import Launch, bind
from kernelcore.opshape import kernel_operation
from tests.patterns import PATTERNS, Pattern

patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)


def as_function(pattern: Pattern) -> tuple[Callable[..., Any], list[Any]]:
    """The pattern as a jitted function of its float arguments, and these."""
    operation = kernel_operation(pattern.kernel, **pattern.options)
    arguments = pattern.arguments(np.random.default_rng(0))
    is_float = [np.asarray(a).dtype.kind == "f" for a in arguments]

    def function(*floats: Any) -> Any:
        given = iter(floats)
        chosen = [next(given) if f else a for f, a in zip(is_float, arguments, strict=True)]
        return bind(operand_values(operation, chosen, {}), Launch(operation))

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
