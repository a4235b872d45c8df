"""Every pattern as a JAX primitive: values and derivatives, of a part to third order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from jax_ffi.arguments import Operands
from jax_ffi.primitive import Launch, bind
from kernelcore.ir.walk import walk_eqns
from kernelcore.operators.shape_rules import kernel_operation
from tests.helpers.environment import IS_CPU
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.patterns import PATTERNS, Pattern

# Orders of derivatives of all patterns with KC_DERIVATIVE_ORDER=3, which take 2 to 60 seconds each.
# Otherwise JAX's rules for derivatives of derivatives are checked on a part of the patterns;
# tests/passes/autodiff has the second derivatives of all of them, without a framework.
ORDER = int(os.environ.get("KC_DERIVATIVE_ORDER", "1"))
SECOND, THIRD = PATTERNS[::4], PATTERNS[::16]
# The most equations of patterns that are checked to third order.
SMALL = 20

patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)


@pytest.fixture(autouse=True)
def _quick_to_compile() -> Iterator[None]:
    """What LLVM optimises is tested without frameworks; here it would take half of the time."""
    with unoptimised() if IS_CPU else nullcontext():
        yield


def as_function(pattern: Pattern) -> tuple[Callable[..., Any], list[Any]]:
    """The pattern as a jitted function of its float arguments, and these."""
    operation = kernel_operation(pattern.kernel, **pattern.options)
    arguments = pattern.arguments(np.random.default_rng(0))
    is_float = [np.asarray(a).dtype.kind == "f" for a in arguments]

    def function(*floats: Any) -> Any:
        given = iter(floats)
        chosen = [next(given) if f else a for f, a in zip(is_float, arguments, strict=True)]
        return bind(Operands.of(operation).values(chosen), Launch(operation))

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
def test_derivatives_match_central_differences(pattern: Pattern) -> None:
    every, floats = as_function(pattern)

    def function(*args: Any) -> list[Any]:
        # Differences of integers are no derivatives.
        return [r for r in every(*args) if r.dtype.kind == "f"]

    if any(x.dtype == jnp.float32 for x in floats):
        # Differences of values that are rounded to float32.
        check_grads(function, floats, order=1, eps=1e-2, atol=1e-3, rtol=1e-3)
        return
    size = sum(1 for _ in walk_eqns(pattern.kernel.func.body))
    order = max(ORDER, 2 * (pattern in SECOND), 3 * (pattern in THIRD and size <= SMALL))
    check_grads(function, floats, order, ["fwd", "rev"], atol=1e-6, rtol=1e-6, eps=3e-6)
