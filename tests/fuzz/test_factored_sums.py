"""Random loops of which adjoints add up terms with common factors: the sums stay what they were."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.core import Func
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.simplify.common_subexpressions import merge_equal
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.factored_sums import factor_sums
from tests.fuzz.typed_programs import define
from tests.helpers import interpreter

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "128"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
SHARDS = 4
ROWS, MOST_COLUMNS = 3, 6

HEAD = """
@kc.kernel
def kernel(
    x: kc.array(kc.{real}, 2), w: kc.array(kc.{real}, 1), u: kc.array(kc.{real}, 1),
    y: kc.array(kc.{real}, 2),
):
    i = kc.tid()
    n = x.shape[1]
    a = w[i]
    b = {outer}
    total = kc.{real}(0.0)
    other = {outer}
"""
OUTER = ("u[i]", "u[i] * w[i]", "kc.exp(u[i])", "u[i] + w[i] * w[i]")
RANGES = ("n", "n", "n - 1", "kc.min(2, n)", "n * (i % 2)", "1, n", "n - 1, -1, -1", "n // 2")
# Operands are positive: what divides is not zero.
FORMS = ("{0} * {1}", "{0} * {1}", "{0} / {1}", "{0} / {1}", "-({0})", "{0} + {1}", "{0} - {1}")
DIVISORS = ("a", "b", "2.0", "(a * b)", "kc.exp({0})")


class Program:
    """The text of one kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.real = self.rng.choice(("float64", "float64", "float32"))
        head = HEAD.format(real=self.real, outer=self.rng.choice(OUTER))
        lines = [line for _ in range(self.rng.randint(1, 2)) for line in self._loop()]
        end = "    y[i, 0] = y[i, 0] + total / (1.0 + other * other)"
        self.text = "\n".join([head.strip(), *lines, end, ""])

    def _loop(self) -> list[str]:
        rng = self.rng
        is_nested = rng.random() < 0.3
        column = "(k + e) % n" if is_nested else "k"
        lines = [f"    for k in range({rng.choice(RANGES)}):"]
        if is_nested:
            lines.append(f"        for e in range({rng.choice(('2', '3', 'i'))}):")
        indent = "            " if is_nested else "        "
        values = ["a", "b", f"x[i, {column}]", f"x[i, {column}]"]
        for name in ("p", "q")[: rng.randint(0, 2)]:
            lines.append(f"{indent}{name} = {self._expression(values, 1)}")
            values += [name, name]
        lines += [indent + self._sum(values) for _ in range(rng.randint(0, 2))]
        if len(lines) < 3 or rng.random() < 0.4:
            target = f"y[i, {column}]"
            lines.append(f"{indent}{target} = {target} + {self._expression(values, 2)}")
        return lines

    def _sum(self, values: list[str]) -> str:
        op = self.rng.choice(("+=", "+=", "-="))
        term = self._expression(values, self.rng.randint(1, 2))
        return f"{self.rng.choice(('total', 'other'))} {op} {term}"

    def _expression(self, values: list[str], depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.2:
            return self.rng.choice([*values, "0.5"])
        form = self.rng.choice(FORMS)
        left = self._expression(values, depth - 1)
        if "/" not in form:
            return "(" + form.format(left, self._expression(values, depth - 1)) + ")"
        divisor = self.rng.choice(DIVISORS).format(f"0.1 * {values[2]}")
        return f"({left} / {divisor})"


def adjoints(program: Program) -> tuple[Func, Func]:
    """The adjoint by all floats, term by term and with factored sums."""
    kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
    plain = merge_equal(normalize(vjp(normalize(kernel.func), (0, 1, 2, 3), (3,)).func))
    return dce(plain), dce(merge_equal(factor_sums(plain)))


def cotangents(func: Func, seed: int, columns: int) -> list[np.ndarray]:
    """What ``func`` adds to all cotangents."""
    rng = np.random.default_rng(seed)
    shape = (ROWS, columns)
    shapes = {"x": shape, "y": (ROWS, columns + 1), "w": (ROWS,), "u": (ROWS,)}
    arrays: list[np.ndarray] = []
    for param in func.params:
        name = param.name.removeprefix("ct_")
        dtype = param.type.dtype.name  # pyright: ignore[reportAttributeAccessIssue]
        arrays.append(rng.uniform(0.5, 1.5, shapes[name]).astype(dtype))
    interpreter.run(func, arrays, (ROWS,))
    return [a for a, p in zip(arrays, func.params, strict=True) if p.name.startswith("ct_")]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_cotangents_are_those_of_single_terms(shard: int) -> None:
    changed = 0
    for seed in range(FIRST + shard, FIRST + COUNT, SHARDS):
        program = Program(seed)
        plain, factored = adjoints(program)
        changed += len(factored.body.eqns) != len(plain.body.eqns)
        tolerance = 1e-9 if program.real == "float64" else 1e-3
        for columns in (0, 1, MOST_COLUMNS):
            pairs = zip(
                cotangents(plain, seed, columns), cotangents(factored, seed, columns), strict=True
            )
            for one, other in pairs:
                scale = np.abs(one).max(initial=1.0)
                np.testing.assert_allclose(
                    other / scale, one / scale, atol=tolerance, err_msg=f"{seed}:\n{program.text}"
                )
    assert changed
