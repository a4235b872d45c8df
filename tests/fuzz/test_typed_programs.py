"""Random well-typed programs: plain Python = interpreter = machine code, bit for bit.

The interpreter tells whether passes and code generation are right, plain Python whether the
frontend is: it runs the same text and shares no code with it.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

import kernelcore as kc
from kernelcore.ir.verify import verify
from kernelcore.language.types import AnyNumber
from kernelcore.launch.dispatch import argument_leaves
from kernelcore.launch.python_mode import run as python_mode
from tests.fuzz.host_language import run_on_host
from tests.fuzz.program_arguments import arguments, bits
from tests.fuzz.statements import POINTS
from tests.fuzz.typed_programs import Program, define, programs
from tests.helpers import interpreter
from tests.helpers.kernel_harness import unoptimised

# KC_FUZZ_PROGRAMS asks for a longer run, KC_FUZZ_SEED for another stretch of programs.
COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "160"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0"))
SHARDS = max(8, COUNT // 250)
shards = pytest.mark.parametrize("shard", range(SHARDS))


def fuzz(test: Any, shard: int, points: int = POINTS, count: int = COUNT) -> None:
    """Run ``test`` on the programs of one shard of ``count``, the same ones in every run."""
    configured = settings(
        max_examples=-(-count // SHARDS),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    seed(FIRST * SHARDS + shard)(configured(given(programs(points))(test)))()


@pytest.fixture(autouse=True)
def _no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KC_CACHE", "0")


def names() -> dict[str, Any]:
    """What a program finds around it."""
    V = TypeVar("V", bound=kc.vector(length=Any, dtype=AnyNumber))
    return {"kc": kc, "Any": Any, "V": V}


def check_and_tell(program: Program) -> None:
    """``check``; a program that fails is shown as text."""
    note(repr(program))
    check(program)


def check(program: Program) -> None:
    """Run the program in three ways, and compare every bit."""
    space = define(program.text, names())
    kernel: kc.Kernel = space["kernel"]
    interpreted, compiled = arguments(program, space), arguments(program, space)
    on_host = run_on_host(program, space)
    verify(kernel.func)
    interpreter.run(kernel.func, argument_leaves(kernel, interpreted), POINTS)
    kc.launch(kernel, POINTS, compiled)
    compare(program, interpreted, compiled, "machine code and interpreter")
    compare(program, on_host, interpreted, "interpreter and host")


def compare(program: Program, wanted: list[Any], found: list[Any], what: str) -> None:
    """Assert that the arrays have the same bits."""
    for p, want, got in zip(program.params, wanted, found, strict=True):
        if p.ndim:
            for one, other in zip(bits(want, p.type), bits(got, p.type), strict=True):
                np.testing.assert_array_equal(other, one, err_msg=f"{p.name}: {what}")


@shards
def test_python_interpreter_and_machine_code_agree(shard: int) -> None:
    # LLVM takes most of the time, and changes no bits.
    with unoptimised() if shard % 4 else nullcontext():
        fuzz(check_and_tell, shard)


@shards
def test_python_mode_has_the_bits_of_the_interpreter(shard: int) -> None:
    fuzz(check_python_mode, shard, count=COUNT // 4)


def check_python_mode(program: Program) -> None:
    note(repr(program))
    space = define(program.text, names())
    kernel = space["kernel"]
    meant, found = arguments(program, space), arguments(program, space)
    interpreter.run(kernel.func, argument_leaves(kernel, meant), POINTS)
    python_mode.run(kernel, POINTS, found)
    compare(program, meant, found, "Python mode")
