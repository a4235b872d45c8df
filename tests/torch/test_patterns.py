"""Every pattern as a torch operator: values and derivatives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests.helpers.environment import DEVICE, IS_CPU
from tests.helpers.kernel_harness import unoptimised
from tests.helpers.patterns import PATTERNS, Pattern
from torch_ext import torch_op

# Second derivatives of all patterns with KC_DERIVATIVE_ORDER, otherwise of a part: what torch adds
# to those that tests/passes/autodiff checks does not depend on what a kernel computes.
SECOND = PATTERNS if "KC_DERIVATIVE_ORDER" in os.environ else PATTERNS[1::4]
patterns = pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.name)


@pytest.fixture(autouse=True)
def _quick_to_compile() -> Iterator[None]:
    """What LLVM optimises is tested without frameworks; here it would take half of the time."""
    with unoptimised() if IS_CPU else nullcontext():
        yield


def operands(pattern: Pattern) -> list[Any]:
    """The arguments as tensors; floats, scalars included, require grad."""
    made: list[Any] = []
    for value in pattern.arguments(np.random.default_rng(0)):
        if isinstance(value, float):
            tensor = torch.tensor(value, dtype=torch.float64, device=DEVICE)
            made.append(tensor.requires_grad_())
        elif isinstance(value, np.ndarray):
            tensor = torch.from_numpy(value).to(DEVICE)
            made.append(tensor.requires_grad_(tensor.is_floating_point()))
        else:
            made.append(value)
    return made


def of_floats(op: Callable[..., Any]) -> Callable[..., Any]:
    """``op`` without results that are no floats, which gradcheck does not take."""

    def function(*args: Any) -> Any:
        found = op(*args)
        if isinstance(found, torch.Tensor):
            return found
        return tuple(f for f in found if f.is_floating_point())

    return function


@patterns
def test_values(pattern: Pattern) -> None:
    found = torch_op(pattern.kernel, **pattern.options)(*operands(pattern))
    found = found if isinstance(found, tuple) else (found,)
    want = pattern.reference(*pattern.arguments(np.random.default_rng(0)))
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.detach().cpu().numpy(), b, rtol=1e-12, atol=1e-12)


@patterns
def test_derivatives_match_central_differences(pattern: Pattern) -> None:
    op, args = of_floats(torch_op(pattern.kernel, **pattern.options)), operands(pattern)
    if any(isinstance(a, torch.Tensor) and a.dtype == torch.float32 for a in args):
        args = [a.detach().double() if isinstance(a, torch.Tensor) else a for a in args]
        inner = op
        args[0].requires_grad_()

        def op(x: torch.Tensor) -> torch.Tensor:
            return inner(x.float())

        # Differences of values that are rounded to float32.
        assert gradcheck(op, args, eps=1e-2, atol=1e-3, rtol=1e-3)
        return
    assert gradcheck(op, args, eps=1e-6, atol=1e-6, rtol=1e-6, check_forward_ad=True)
    if pattern in SECOND:
        assert gradgradcheck(op, args, eps=1e-6, atol=1e-6, rtol=1e-6)
