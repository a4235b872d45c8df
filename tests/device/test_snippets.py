"""Native functions in device code: what they are passed, and how their PTX joins a kernel's."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen import abi
from kernelcore.codegen.gpu import nvrtc
from kernelcore.codegen.gpu.ptx import ptx_text
from kernelcore.codegen.snippet import translation_unit
from kernelcore.passes.pipeline import optimize
from tests.device import emulation
from tests.device.assembler import assemble
from tests.helpers import interpreter
from tests.helpers.native_programs import (
    floats,
    gather_kernel,
    random,
    repeated_roots,
    saxpy_kernel,
)


@kc.func_native('printf("%f", x); return x + 1.0f;')
def shown(x: float) -> float: ...


@kc.kernel
def shows(x: floats):
    i = kc.tid()
    print(x[i])
    x[i] = shown(x[i])


CASES = {
    "saxpy": (saxpy_kernel, [2.5, random(70), random(140)[::2], random(70)]),
    "roots": (repeated_roots, [random(70) + 1.0, 3, random(70)]),
    "gather": (gather_kernel, [random(9), np.arange(70, dtype=np.int32) % 9, random(70)]),
}


@pytest.mark.parametrize("case", CASES)
def test_snippets_get_the_arguments_of_the_interpreter(case: str) -> None:
    kernel, args = CASES[case]
    func = optimize(kernel.func)
    given, expected = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in "ab")
    assert emulation.run(func, given, 70).status == abi.STATUS_OK
    interpreter.run(func, expected, 70)
    np.testing.assert_array_equal(given[-1], expected[-1])


def as_nvrtc_writes(symbols: list[str]) -> str:
    """PTX as that of NVRTC, of functions that do nothing."""
    functions = (
        f".visible .func {symbol}(\n\t.param .b64 {symbol}_param_0\n)\n{{\n\tret;\n}}\n"
        for symbol in symbols
    )
    declared = (
        ".extern .func  (.param .b32 func_retval0) vprintf\n"
        "(\n\t.param .b64 a,\n\t.param .b64 b\n)\n;\n"
    )
    return ".version 9.5\n.target sm_75\n.address_size 64\n\n" + declared + "".join(functions)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_functions_of_snippets_come_before_the_kernel(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    symbols = [translation_unit.symbol_of(s) for s in translation_unit.snippets(shows.func)]
    monkeypatch.setattr(nvrtc, "_compiled", lambda *_: as_nvrtc_writes(symbols))
    text = ptx_text(optimize(shows.func), "shows", architecture)
    assert len(re.findall(r"\.version|\.target|\.address_size", text)) == 3
    assert text.count(".extern") == 1
    assert text.index(symbols[0]) < text.index(".entry")
    assemble(text, architecture)


def test_an_error_names_missing_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_opened", lambda: None)
    with pytest.raises(KernelCompileError, match=r"of saxpy\(\) on a GPU needs NVRTC") as caught:
        saxpy_kernel.inspect("ptx")
    assert "pip install nvidia-cuda-nvrtc" in str(caught.value)
