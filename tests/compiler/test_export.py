"""Kernels that a C program runs."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import kernelcore as kc
from kernelcore.base.errors import KernelCompileError
from kernelcore.codegen.snippet.toolchain import find_compiler
from kernelcore.codegen.target import cpu


@kc.struct
class Body:
    mass: kc.float64
    pos: kc.vec3


@kc.kernel
def weigh(
    flag: bool,
    bodies: kc.array(dtype=Body),
    factor: float,
    double: kc.int16,
    out: kc.array(dtype=float, ndim=2),
):
    i, j = kc.tid()
    body = bodies[i]
    assert double > kc.int16(0), "double is positive"
    if flag:
        out[i, j] = kc.sin(body.pos[j]) * factor * float(double) + float(body.mass)


PROGRAM = """\
#include "weigh.h"
#include <stdio.h>
struct body { double mass; float pos[3]; };
int main(void) {
  struct body bodies[2] = {{1.0, {0.1f, 0.2f, 0.3f}}, {2.0, {0.4f, 0.5f, 0.6f}}};
  float out[6] = {0};
  int64_t status = 0, step = sizeof(struct body);
  kc_weigh_args args = {
    .flag_ = 1,
    .bodies_mass_ = {&bodies[0].mass, {2}, {step}},
    .bodies_pos_ = {bodies[0].pos, {2, 3}, {step, 4}},
    .factor_ = 2.0f,
    .double_ = 3,
    .out_ = {out, {2, 3}, {12, 4}},
  };
  kc_grid grid = {{2, 3, 1, 1, 1, 1, 1, 1}, &status};
  kc_weigh(&args, &grid, 0, 4);
  kc_weigh(&args, &grid, 4, 6);
  for (int i = 0; i < 6; ++i) printf("%.7g ", out[i]);
  args.double_ = -1;
  long long before = status;
  kc_weigh(&args, &grid, 0, 6);
  printf("%lld %lld", before, (long long)status);
}
"""


def test_a_c_program_runs_an_exported_kernel(tmp_path: Path) -> None:
    code, header = weigh.export(tmp_path / "weigh.o")
    assert (code.name, header.name) == ("weigh.o", "weigh.h")
    (tmp_path / "main.c").write_text(PROGRAM)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", "weigh.o", "-lm"]
    subprocess.run([*command, "-o", "program"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    *found, before, after = done.stdout.split()
    rows = [(1.0, (0.1, 0.2, 0.3)), (2.0, (0.4, 0.5, 0.6))]
    expected = [math.sin(x) * 6.0 + mass for mass, pos in rows for x in pos]
    assert [float(x) for x in found] == pytest.approx(expected, rel=1e-6)
    assert (before, after) == ("0", "16")
    assert "Status 16: double is positive" in header.read_text()


def test_headers_are_c_plus_plus_too(tmp_path: Path) -> None:
    _, header = weigh.export(tmp_path / "weigh.o")
    command = [*find_compiler("a test"), "-std=c++17", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-fsyntax-only", "-x", "c++", str(header)], check=True)


@kc.kernel
def grüße(x: kc.array(dtype=float)):
    x[kc.tid()] = 1.0


def test_names_that_c_has_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelCompileError, match="'grüße' is no name in C"):
        grüße.export(tmp_path / "x.o")


@kc.kernel
def nothing():
    pass


def test_a_kernel_without_parameters_is_exported(tmp_path: Path) -> None:
    code, header = nothing.export(tmp_path / "nothing.o")
    assert ctypes.c_void_p(cpu.load(code.read_bytes(), "kc_nothing")).value
    assert "kc_nothing_args" in header.read_text()


@kc.kernel
def weighed_sum(x: kc.array(dtype=float, ndim=2), scale: kc.float64, out: kc.array(dtype=float)):
    i, j = kc.tid()
    kc.atomic_add(out, 0, x[i, j] * float(scale))


DEVICE_PROGRAM = """\
#include "weigh.h"
#include "sum.h"
#include <stdio.h>
int main(void) {
  printf("%zu %zu %zu\\n", sizeof(kc_weigh_args), sizeof(kc_weighed_sum_args),
         sizeof(kc_device_grid));
}
"""


def test_exported_ptx_takes_the_structs_of_its_header(tmp_path: Path) -> None:
    code, _ = weigh.export(tmp_path / "weigh.ptx", "sm_90")
    text = code.read_text()
    assert ".target sm_90" in text
    assert ".visible .entry kc_weigh(" in text
    other = weighed_sum.export(tmp_path / "sum.ptx")[0].read_text()
    assert ".target sm_75" in other
    (tmp_path / "main.c").write_text(DEVICE_PROGRAM)
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=True)
    sizes = [int(x) for x in done.stdout.split()]
    for ptx, size in zip((text, other), sizes[:2], strict=True):
        declared = ptx[ptx.index(".visible .entry") : ptx.index(")", ptx.index(".visible .entry"))]
        assert re.findall(r"\.b8 \w+\[(\d+)\]", declared) == [str(size), str(sizes[2])]
        assert declared.count(".param .u64") == 2
    for path, architecture, error in (
        ("weigh.o", "sm_90", "with the suffix .ptx for sm_90"),
        ("weigh.ptx", "sm_1", "expected one of"),
    ):
        with pytest.raises(KernelCompileError, match=error):
            weigh.export(tmp_path / path, architecture)
