"""Settings: what they change in code, what they must not change, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.codegen.simd.strategy import VectorStrategy
from kernelcore.codegen.target import cpu
from kernelcore.compiler.native_code import content_hash
from kernelcore.passes.pipeline import optimize

CELLS = 100


@kc.kernel
def decay(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    value = x[i]
    for _ in range(i % 5):
        value = kc.sin(value) * 0.75 + kc.exp(-value)
    y[i] = value


@kc.kernel
def norm(x: kc.array(dtype=float), total: kc.array(dtype=float)):
    kc.atomic_add(total, 0, x[kc.tid()] * x[kc.tid()])


@pytest.fixture
def unoptimized() -> Iterator[None]:
    kc.config.optimize = False
    yield
    kc.config.optimize = True


def results() -> list[bytes]:
    x = np.linspace(-2.0, 3.0, CELLS, dtype=np.float32)
    y, total = np.zeros_like(x), np.zeros(1, np.float32)
    kc.launch(decay, CELLS, inputs=[x, y])
    kc.launch(norm, CELLS, inputs=[x, total])
    return [y.tobytes(), total.tobytes()]


def test_code_without_optimisation_is_other_code_for_one_lane(unoptimized: None) -> None:
    func = optimize(decay.func)
    key, text = content_hash(func, host()), cpu.llvm_text(func)
    kc.config.optimize = True
    assert content_hash(func, host()) != key
    assert cpu.llvm_text(func, strategy=VectorStrategy()) == text != cpu.llvm_text(func)


def test_results_without_optimisation_are_the_same_bits() -> None:
    run = "from tests.base.test_config import results; print([r.hex() for r in results()])"
    found = [
        subprocess.run(
            [sys.executable, "-c", run],
            env={**os.environ, "KC_OPTIMIZE": flag},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for flag in "01"
    ]
    assert found[0] == found[1] == f"{[r.hex() for r in results()]}\n"


def test_compile_all_follows_the_setting(unoptimized: None) -> None:
    report = kc.compile_all([decay, norm], adjoint=True, processes=2)
    assert not report.failed
    again = kc.compile_all([decay, norm], adjoint=True)
    assert not again.compiled


@pytest.mark.parametrize("value", [1, None, "0"])
def test_a_flag_must_be_a_bool(value: object) -> None:
    with pytest.raises(kc.KernelArgumentError, match=r"config.optimize: expected a bool, found"):
        kc.config.optimize = value  # pyright: ignore[reportAttributeAccessIssue]
