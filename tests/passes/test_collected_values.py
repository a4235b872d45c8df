"""Which operation a loop collects terms by, and values with which it does more."""

from __future__ import annotations

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.builtins.arithmetic import add
from kernelcore.ir.op import OpKind
from kernelcore.passes.access.collected_values import CollectedValues
from kernelcore.passes.pipeline import normalize
from tests.helpers.kernel_harness import agree

F1 = kc.array(dtype=kc.float64)


@kc.kernel
def summed(x: F1, n: int, y: F1):
    i = kc.tid()
    total = x[i]
    for _ in range(n):
        for k in range(3):
            total += x[k]
    y[i] = total


@kc.kernel
def quadrupled(x: F1, n: int, y: F1):
    """The inner loop starts with the value that it adds."""
    i = kc.tid()
    total = x[i]
    for _ in range(n):
        before = total
        for _ in range(3):
            total += before
    y[i] = total


@kc.kernel
def doubled(x: F1, n: int, y: F1):
    i = kc.tid()
    total = x[i]
    for _ in range(n):
        total += total
    y[i] = total


def collects(kernel: kc.Kernel) -> bool:
    """Whether the outer loop only adds terms to what it carries."""
    func = normalize(kernel.func)
    (loop,) = (eqn for eqn in func.body.eqns if eqn.op.kind is OpKind.FOR)
    (body,) = loop.regions
    collected = CollectedValues(body)
    slots = zip(body.params[1:], body.yields, strict=True)
    return [collected.operation(param, result) for param, result in slots] == [add.op]


@pytest.mark.parametrize(
    ("kernel", "factor"), [(summed, None), (quadrupled, 4.0), (doubled, 2.0)], ids=lambda v: str(v)
)
def test_values_that_are_terms_themselves_are_not_collected(
    kernel: kc.Kernel, factor: float | None
) -> None:
    assert collects(kernel) is (factor is None)
    x = np.arange(1.0, 6.0)
    y = agree(kernel.func, [x, 4, np.zeros(5)], 5)[-1]
    np.testing.assert_allclose(y, x + 24.0 if factor is None else x * factor**4)
    kc.gradcheck(kernel, 5, [x, 4], [np.zeros(5)])
