"""Native functions through NVRTC, which must be there: ``make test-ptx``."""

from __future__ import annotations

from typing import Any

import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.gpu.architectures import FORWARD_COMPATIBLE
from kernelcore.codegen.gpu.ptx import ptx_text
from kernelcore.passes.pipeline import optimize
from tests.codegen.snippet.test_native_functions import annotated
from tests.device.assembler import assemble
from tests.device.corpus import adjoint
from tests.helpers import native_programs
from tests.helpers.native_programs import floats

KERNELS = ("exponential_kernel", "gather_kernel", "repeated_roots", "roots", "saxpy_kernel")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90", FORWARD_COMPATIBLE[-1])
SUMMED = ("int8", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_and_adjoints_are_assembled(name: str, architecture: str) -> None:
    func = getattr(native_programs, name).func
    assemble(ptx_text(optimize(func), "kernel", architecture), architecture)
    assemble(ptx_text(optimize(adjoint(func)), "kernel", architecture), architecture)


@pytest.mark.parametrize("dtype", SUMMED)
def test_elements_of_every_size_are_added_to(dtype: str) -> None:
    array: Any = kc.array(dtype=getattr(kc, dtype))

    @kc.func_native("kc::atomic_add(out[0], x[0]);")
    @annotated(x=array, out=array)
    def add(x: Any, out: Any): ...

    @kc.kernel
    @annotated(x=array, out=array)
    def total(x: Any, out: Any):
        kc.tid()
        add(x, out)

    text = ptx_text(optimize(total.func), "total", "sm_80")
    assert "atom." in text
    assemble(text, "sm_80")


@kc.func_native("""
#define LIMIT 2.0f
printf("%f", x);
return sinf(x) * LIMIT + std::cos(x);
""")
def first(x: float) -> float: ...


@kc.func_native("""
#define LIMIT 3.0f
std::int64_t count = 3;
float sum = LIMIT;
for (int i = 0; i < 100; ++i) sum += tanf(sum);
printf("%f", sum);
return sum + count;
""")
def second(x: float) -> float: ...


@kc.kernel
def both(x: floats):
    i = kc.tid()
    print(x[i])
    x[i] = first(x[i]) + second(x[i])


@kc.func_native("return undefined(x);")
def wrong(x: float) -> float: ...


@kc.kernel
def fails(x: floats):
    i = kc.tid()
    x[i] = first(x[i]) + wrong(x[i])


def test_snippets_that_share_names_are_one_module() -> None:
    assemble(ptx_text(optimize(both.func), "both", "sm_90"), "sm_90")


def test_a_text_that_is_wrong_is_named_with_its_line() -> None:
    with pytest.raises(
        KernelCompileError, match=r"NVRTC rejected the native snippet of wrong\(\)"
    ) as e:
        ptx_text(optimize(fails.func), "fails", "sm_90")
    assert "undefined" in str(e.value)
    assert e.value.loc is not None
