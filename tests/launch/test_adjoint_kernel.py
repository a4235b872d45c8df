"""An adjoint holds what was asked for, and is compiled when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch

import kernelcore as kc
from jax_ffi import jax_kernel
from kernelcore.compiler import native_code
from kernelcore.ir.core import Func
from kernelcore.ir.walk import walk_eqns
from kernelcore.launch import executable
from kernelcore.operators import derive, operation
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.access.effects import effects
from tests.helpers.operations import run_operation
from torch_ext import torch_op

F64 = kc.array(dtype=kc.float64)


@kc.kernel
def weighted(x: F64, w: F64, s: kc.float64, y: F64):
    i = kc.tid()
    y[i] = kc.sin(s * x[i]) * kc.exp(w[i])


def written(func: Func) -> set[str]:
    pairs = zip(func.params, effects(func), strict=True)
    return {p.name for p, effect in pairs if effect.writes}


@pytest.mark.parametrize("wrt", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_an_adjoint_has_the_cotangents_that_are_wanted_and_no_others(wrt: tuple[int, ...]) -> None:
    names = {f"ct_{weighted.func.params[i].name}" for i in wrt}
    assert written(weighted.adjoint(wrt, (3,)).func) == names
    derived = derive.vjp(kernel_operation(weighted), wrt, [0]).operation
    assert written(derived.func) == names
    assert {r.name for r in derived.results} == names


def test_values_for_other_cotangents_are_not_computed() -> None:
    every, one = (weighted.adjoint(wrt, (3,)).func for wrt in ((0, 1, 2), (1,)))
    names = [e.op.name for e in walk_eqns(one.body)]
    assert "cos" not in names
    assert len(names) < sum(1 for _ in walk_eqns(every.body))


def names_of(compiled: list[Func], suffix: str) -> list[str]:
    return [f.name for f in compiled if f.name.endswith(suffix)]


def test_no_derivative_is_compiled_before_somebody_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # An earlier run of this test has left the code in the user's cache.
    monkeypatch.setenv("KC_CACHE_DIR", str(tmp_path))

    @kc.kernel
    def rarely(x: F64, y: F64):
        i = kc.tid()
        y[i] = kc.sin(x[i] * 0.731) * x[i]

    compiled: list[Func] = []
    plain = native_code.compile_func

    def told(func: Func) -> Any:
        compiled.append(func)
        return plain(func)

    for module in (executable.native_code, operation):
        monkeypatch.setattr(module, "compile_func", told)
    x, y = (kc.array(np.ones(3), dtype=kc.float64, requires_grad=True) for _ in range(2))
    with kc.Tape() as tape:
        kc.launch(rarely, 3, [x], [y])
    tensor = torch.ones(3, dtype=torch.float64, requires_grad=True)
    result = torch_op(rarely)(tensor)
    with jax.enable_x64(True):
        value, pull = jax.vjp(jax_kernel(rarely), np.ones(3))
        assert not names_of(compiled, "_vjp")
        tape.backward(grads={y: np.ones(3)})
        assert len(names_of(compiled, "_vjp")) == 1
        result.sum().backward()
        assert len(names_of(compiled, "_vjp")) == 2
        before = len(compiled)
        pull(value)
        assert len(compiled) > before


@kc.kernel
def forgets(w: kc.float64, h: F64, o: F64):
    i = kc.tid()
    o[i] += kc.atan(w)
    o[i] = h[i]


def test_overwritten_elements_have_no_cotangent() -> None:
    op = kernel_operation(forgets, [], ["o"])
    derived = derive.vjp(op, [0], [0])
    point = [0.3, np.ones(3), np.ones(3), np.ones(3)]
    (found,) = run_operation(derived.operation, point)
    assert found == 0.0
