"""Random loops over running sums: adjoints that run forwards are those that run backwards.

What differs is the rounding of sums; small integers have none, but some programs make large ones.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.core import Func
from kernelcore.ir.op import ANY_ORDER
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.passes.autodiff import reverse_control
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter
from tests.helpers.kernel_harness import adjoint_func

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "8"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
POINTS, LENGTH = 2, 3
ARRAYS = ("x", "w", "y", "z")
# With the index k of the innermost loop around, and the element v that it has loaded.
STATEMENTS = (
    "s += v",
    "s = s + x[i, {k}] * w[i, {k}]",
    "t += s",
    "t = t + v * s",
    "s, t = t, s",
    "y[i, {k}] = s",
    "y[i, {k}] += t * v",
    "z[i, {k}] += s",
    "z[i, 0] += s * w[i, {k}]",
    "kc.atomic_add(y, i, {k}, t)",
    "v = x[i, {k}] + s",
    "v = 2.0 * v",
    "s = 2.0 * s",
)


def program(seed: int) -> str:
    """The source of a kernel with loops that carry two sums."""
    rng = Random(seed)
    params = ", ".join(f"{name}: kc.array(kc.float64, 2)" for name in ARRAYS)
    lines = ["@kc.kernel", f"def kernel({params}):", "    i = kc.tid()"]
    lines += ["    s = kc.float64(1.0)", "    t = kc.float64(0.0)"]

    def loop(depth: int) -> None:
        indent, index = "    " * depth, f"k{depth}"
        lines.append(f"{indent}for {index} in range(x.shape[1]):")
        lines.append(f"{indent}    v = w[i, {index}]")
        for _ in range(rng.randint(1, 4)):
            if depth < 3 and rng.random() < 0.25:
                loop(depth + 1)
            else:
                lines.append(f"{indent}    {rng.choice(STATEMENTS).format(k=index)}")

    for _ in range(rng.randint(1, 2)):
        loop(1)
    lines.append("    z[i, 1] += s + 2.0 * t")
    return "\n".join([*lines, ""])


def run(func: Func, seed: int) -> list[Any]:
    """The arrays after ``func``, of small integers before."""
    rng = np.random.default_rng(seed)
    assert all(isinstance(p.type, ArrayType) for p in func.params)
    found = [rng.integers(-2, 3, (POINTS, LENGTH)).astype(np.float64) for _ in func.params]
    interpreter.run(func, found, (POINTS,))
    return found


def has_free_order(func: Func) -> bool:
    return any(ANY_ORDER in eqn.attrs for eqn in walk_eqns(func.body))


@pytest.mark.parametrize("shard", range(4))
def test_order_changes_no_gradient(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forwards = 0
    for seed in range(16 * FIRST + shard, 16 * (FIRST + COUNT), 4):
        text = program(seed)
        kernel: kc.Kernel = define(text, {"kc": kc})["kernel"]
        try:
            func = adjoint_func(kernel)
        except kc.KernelGradError:
            continue
        if not has_free_order(func):
            continue
        forwards += 1
        with monkeypatch.context() as backwards:
            backwards.setattr(reverse_control, "_only_adds", lambda _: False)
            plain = adjoint_func(kernel)
        assert not has_free_order(plain)
        for one, other in zip(run(func, seed), run(plain, seed), strict=True):
            largest = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
            try:
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * largest)
            except AssertionError as error:
                raise AssertionError(f"program {seed}:\n{text}") from error
    assert forwards > 0
