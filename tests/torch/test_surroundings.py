"""Operators in what surrounds them: compiled autograd, DDP, default devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._dynamo import compiled_autograd
from torch.nn.parallel import DistributedDataParallel

from tests.helpers.environment import ROOT
from tests.helpers.shared_library import build_library
from tests.torch import torch_kernels as k
from tests.torch.matrix import CASES, argument, curved
from torch_ext import torch_op

F64 = torch.float64
quadratic, weighted = torch_op(k.quadratic), torch_op(k.weighted)


@pytest.mark.parametrize("case", ["multi_output"])
def test_compiled_autograd_runs_backward(case):
    op, x = CASES[case].op, argument(CASES[case])
    x.requires_grad_()
    (expected,) = torch.autograd.grad(curved(CASES[case].reference)(x), x)
    with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
        curved(op)(x).backward()
    torch.testing.assert_close(x.grad, expected)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4, dtype=F64))

    def forward(self, x):
        return quadratic(self.weight, 2.0) * x


def check_data_parallel_gradients() -> None:
    model = DistributedDataParallel(Model())
    x = torch.randn(4, dtype=F64)
    model(x).sum().backward()
    weight = model.module.weight
    torch.testing.assert_close(weight.grad, 4 * weight.detach() * x)


def test_data_parallel_models_get_gradients(tmp_path):
    dist.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        # A model that outlives its group ends it, and waits for threads that may want the GIL.
        check_data_parallel_gradients()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("compile_it", [False, True])
def test_kernels_run_on_the_cpu_whatever_the_default_device_is(compile_it):
    scalars = torch_op(k.powers, launch_dims=4)

    def both(x, a):
        return weighted(x, a, 2.0), scalars(3.0)

    f = torch.compile(both, fullgraph=True, backend="aot_eager") if compile_it else both
    x, a = torch.ones(3), torch.tensor(1.5)
    with torch.device("meta"):
        found = f(x, a)
    torch.testing.assert_close(found, (3 * x, k.powers_torch(3.0).double()))


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\.\w+. is (deprecated|not supported)")
@pytest.mark.parametrize("requires_grad", [False, True])
def test_the_tracer_of_torchscript_records_operators(requires_grad):
    x = torch.arange(4, dtype=F64)
    example = x.clone().requires_grad_(requires_grad)
    traced: Any = torch.jit.trace(lambda x: quadratic(x, 2.0), example)
    torch.testing.assert_close(traced(x + 1), quadratic(x + 1, 2.0))


def test_autocast_keeps_tensors_of_the_wanted_dtype():
    x = torch.arange(4, dtype=F64, requires_grad=True)
    with torch.autocast("cpu"):
        found = quadratic(x, 2.0)
        (grad,) = torch.autograd.grad(found.sum(), x)
        torch.testing.assert_close(quadratic(x.bfloat16(), 2.0), found)
    torch.testing.assert_close([found, grad], [2 * x**2, 4 * x])


@pytest.mark.parametrize("size", [4, 0])
def test_transforms_leave_calls_on_tensors_from_outside_alone(size):
    x, y = torch.linspace(0.5, 2.0, size, dtype=F64), torch.ones(size, dtype=F64)
    expected = 2 * x * x + y

    def call(y):
        return quadratic(x, 2.0) + y

    torch.testing.assert_close(torch.func.functionalize(call)(y), expected)
    torch.testing.assert_close(torch.func.vmap(call)(y.expand(2, size))[1], expected)
    torch.testing.assert_close(torch.func.jvp(call, (y,), (y,)), (expected, y))
    torch.testing.assert_close(torch.func.grad(lambda y: call(y).sum())(y), torch.ones_like(y))


def test_backward_may_run_while_tensors_are_functional():
    x = torch.linspace(0.5, 2.0, 4, dtype=F64).requires_grad_()
    z = quadratic(x, 2.0).sum()
    run = torch.func.functionalize(lambda y: torch.autograd.grad(z, x)[0] + y)
    torch.testing.assert_close(run(torch.ones(4, dtype=F64)), 4 * x.detach() + 1)


# As in a version of torch that does not export its function: no library has it.
HIDING = """
#include <dlfcn.h>
#include <cstdio>
#include <cstring>
#include <initializer_list>

extern "C" void* dlsym(void* library, const char* name) {
  using Find = void* (*)(void*, const char*);
  static Find find = nullptr;
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (find == nullptr) find = reinterpret_cast<Find>(dlvsym(RTLD_NEXT, "dlsym", version));
  }
  if (std::strstr(name, "THPVariable_Wrap") == nullptr) return find(library, name);
  std::puts("hidden");
  return nullptr;
}
"""
EAGER = """
import torch
from tests.torch import torch_kernels as k
from torch_ext import torch_op

quadratic, polar = torch_op(k.quadratic), torch_op(k.polar)
for size in 4, 0:
    x = torch.linspace(0.5, 2.0, size, dtype=torch.float64, requires_grad=True)
    y = quadratic(x, 2.0)
    torch.testing.assert_close(y, 2.0 * x * x)
    assert y.is_contiguous() and y.grad_fn is not None
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 4.0 * x)
    assert quadratic(x.detach(), 2.0).grad_fn is None
    torch.testing.assert_close(polar(x, x + 1), k.polar_torch(x, x + 1))
    found = torch.func.functionalize(lambda z: quadratic(x, 2.0) + z)(torch.ones_like(x))
    torch.testing.assert_close(found, 2.0 * x * x + 1.0)
"""


def test_results_are_made_without_the_function_that_wraps_tensors(tmp_path: Path) -> None:
    source = tmp_path / "hiding.cc"
    source.write_text(HIDING)
    preloaded = [os.environ.get("LD_PRELOAD", ""), str(build_library([source]))]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EAGER],
        env={
            **os.environ,
            "LD_PRELOAD": ":".join(filter(None, preloaded)),
            "PYTHONPATH": str(ROOT),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "hidden" in done.stdout
