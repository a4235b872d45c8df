"""A process that launches a kernel that the disk cache knows imports nothing of the compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.environment import ROOT

COMPILER = ("frontend", "builtins", "passes", "codegen", "ir")
# A module of Python's that takes 5 ms, a tenth of such a start.
SLOW = "pathlib"
PROGRAMS = {
    "functions": """
@kc.func
def f(x: float) -> float:
    return x * SCALE

@kc.kernel
def k(out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = f(1.0) - 1.0

kc.launch(k, 4, [], [out])
""",
    "structs and vectors": """
@kc.struct
class S:
    a: float
    v: kc.vec2
    x: kc.array(dtype=float)

@kc.kernel
def k(s: S, w: kc.vec3, out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = s.a + s.v.x + s.x[i] + kc.dot(s.v, kc.vec2(0.0)) + w[0]

kc.launch(k, 4, [S(a=0.5, v=kc.vec2(0.5, 0.0), x=np.ones(4, np.float32)), kc.vec3(0.0)], [out])
""",
    "any type": """
from typing import Any

@kc.kernel
def k(x: kc.array(dtype=Any), out: kc.array(dtype=Any)):
    i = kc.tid()
    out[i] = x[i] * type(x[i])(2)

kc.launch(k, 4, [np.ones(4, np.float32)], [out])
""",
    "checks of indices, arrays of kernelcore": """
kc.config.mode = "debug"

@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] + 2.0

y = kc.zeros(4, dtype=float)
kc.launch(k, 4, [kc.zeros(4, dtype=float)], [y])
out[:] = y.numpy()
""",
    "arrays that share memory": """
@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(y, i, x[i])

out[:] = 1.0
kc.launch(k, 4, [out], [out])
""",
    "an adjoint": """
@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.sin(x[i]) * SCALE - x[i]

x, y, ct = np.zeros(4, np.float32), np.zeros(4, np.float32), np.ones(4, np.float32)
kc.launch(k, 4, [x], [y], [out], [ct], adjoint=True)
""",
    "an adjoint in place": """
@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = x[i] * x[i]
    y[i] = y[i] * 0.5 + x[i]

x, y, ct = np.ones(4, np.float32), np.zeros(4, np.float32), np.ones(4, np.float32)
kc.launch(k, 4, [x], [y], [out], [ct], adjoint=True)
""",
    "a Tape": """
@kc.kernel
def k(x: kc.array(dtype=kc.vec2), scale: float, y: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(y, 0, scale * kc.dot(x[i], x[i]))

x = kc.array(np.ones((4, 2), np.float32), dtype=kc.vec2, requires_grad=True)
y = kc.zeros(1, dtype=float, requires_grad=True)
with kc.Tape() as tape:
    kc.launch(k, 4, [x, 1.0], [y])
tape.backward(y)
out[:] = x.grad.numpy()[:, 1]
""",
    "a Tape and minima": """
@kc.kernel
def k(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_min(y, i, 2.0 * x[i])

x = kc.array(np.ones(4, np.float32), requires_grad=True)
y = kc.array(np.full(4, 9.0, np.float32), requires_grad=True)
with kc.Tape() as tape:
    kc.launch(k, 4, [x], [y])
tape.backward(grads={y: kc.ones(4, dtype=float)})
out[:] = x.grad.numpy()
""",
    "arrays and scalars": """
@kc.kernel
def k(x: kc.array(dtype=float), a: float, out: kc.array(dtype=float)):
    i = kc.tid()
    out[i] = kc.sin(x[i]) * SCALE + a

kc.launch(k, 4, [np.zeros(4, np.float32), 2.0], [out])
""",
}
PROGRAM = """
import sys
import numpy as np
import kernelcore as kc
SCALE = 3.0
out = np.zeros(4, np.float32)
{}
assert out.tolist() == [2.0] * 4, out
print(*(name for name in sys.modules if name.startswith("kernelcore.") or name == "{}"))
"""


def imported(program: str, tmp_path: Path) -> set[str]:
    """The packages of kernelcore that ``program`` imports, and ``SLOW`` if it does."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(program, SLOW))
    env = {**os.environ, "KC_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    env.pop("KC_CACHE", None)
    command = [sys.executable, str(file)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return {module.removeprefix("kernelcore.").split(".")[0] for module in done.stdout.split()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_known_kernel_is_launched_without_the_compiler(name: str, tmp_path: Path) -> None:
    assert imported(PROGRAMS[name], tmp_path).issuperset(COMPILER)
    assert imported(PROGRAMS[name], tmp_path).isdisjoint((*COMPILER, SLOW))


def test_adjoints_that_were_compiled_beforehand_are_known(tmp_path: Path) -> None:
    launch = "kc.launch(k, 4, [x], [y], [out], [ct], adjoint=True)"
    compiled = "kc.compile_all([k], adjoint=True); out[:] = 2.0"
    assert imported(PROGRAMS["an adjoint"].replace(launch, compiled), tmp_path)
    assert imported(PROGRAMS["an adjoint"], tmp_path).isdisjoint(COMPILER)


def test_kernels_that_were_compiled_beforehand_are_known(tmp_path: Path) -> None:
    launch = "kc.launch(k, 4, [], [out])"
    compiled = PROGRAMS["functions"].replace(launch, "kc.compile_all([k]); out[:] = 2.0")
    assert imported(compiled, tmp_path).issuperset(COMPILER)
    assert imported(PROGRAMS["functions"], tmp_path).isdisjoint(COMPILER)
