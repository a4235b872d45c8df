"""Operators exported as a library run in programs without Python."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import kernelcore as kc
from kernelcore.codegen.snippet.toolchain import find_compiler
from tests.torch import torch_kernels as k
from torch_ext import export_ops, overload, torch_op

HERE = Path(__file__).parent
TORCH = Path(torch.__file__).parent

quadratic, grow, energy = (
    torch_op(k.quadratic),
    torch_op(k.grow),
    torch_op(k.energy, output_dims=1),
)
take = torch_op(k.take, launch_dims="index")


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = grow(quadratic(x, 2.0), x).sqrt()
        return torch.cat((y, energy(y)))


@kc.kernel
def picked(
    x: kc.array(dtype=kc.float64), index: kc.array(dtype=int), y: kc.array(dtype=kc.float64)
):
    i = kc.tid()
    assert index[i] >= 0, "an index below 0 \N{SNOWMAN}\N{SNOWFLAKE}\N{SNOWBOARDER}"
    y[i] = x[index[i]]


@kc.kernel(flush_denormals=True)
def flushing(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = 0.5 * x[i] * x[i]


# The operators of a library in a process of Python that has torch and nothing of ours.
ALONE = """
import sys, torch
torch.ops.load_library(sys.argv[1])
assert not any(name.split(".")[0] in ("kernelcore", "torch_ext") for name in sys.modules)
ops = torch.ops.kernelcore
x = torch.arange(6, dtype=torch.float64)
index = torch.tensor([3, 0, 1], dtype=torch.int32)
take, quadratic, energy, picked, flushing = (getattr(ops, name) for name in sys.argv[2:])
print(take(x, index, 1, True).tolist())
print(quadratic(x[::2], 0.5).tolist(), quadratic(x[:0], 0.5).tolist())
print(*(energy(x[:n]).item() for n in (0, 1, 6)), energy(x.repeat(500)).item())
for call in (
    lambda: quadratic(x.float(), 0.5), lambda: quadratic(x.reshape(2, 3), 0.5),
    lambda: quadratic(torch.frombuffer(bytearray(9), dtype=torch.float64, offset=1), 0.5),
    lambda: take(x, index, 2**40, True), lambda: picked(x, index + 3), lambda: picked(x, -index),
):
    try:
        call()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
for is_flushing in (False, True):
    torch.set_flush_denormal(is_flushing)
    found = [call(x).item() for x in [torch.tensor([1e-160], dtype=torch.float64)]
             for call in (lambda x: quadratic(x, 0.5), flushing)]
    torch.set_flush_denormal(False)
    print(found)
"""


def test_a_library_registers_operators_that_need_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kc.config, "mode", "debug")
    ops = [take, quadratic, energy, kc.op(launch_dims="index")(picked), torch_op(flushing)]
    path = export_ops(tmp_path / "ops.so", ops)
    names = [op._schema.name.partition("::")[2] for op in map(overload, ops)]
    command = [sys.executable, "-c", ALONE, str(path), *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[0] == str([-64.0, -1.0, -8.0])
    assert lines[1] == "[0.0, 2.0, 8.0] []"
    assert lines[2] == "0.0 0.0 225.0 112500.0"
    assert lines[3].startswith("quadratic(): argument 'x': expected array(float64, 1), found")
    assert lines[4].startswith("quadratic(): argument 'x': expected array(float64, 1), found")
    assert "aligned to its elements, found a Tensor at other addresses" in lines[5]
    assert lines[6] == "take(): a number is out of the range of int32"
    assert lines[7].endswith("index 6 is outside of axis 0 of 'x', whose extent is 6")
    assert lines[8] == "assertion failed: an index below 0 \N{SNOWMAN}\N{SNOWFLAKE}\N{SNOWBOARDER}"
    assert lines[9:] == [str([0.5 * 1e-160 * 1e-160, 0.0])] * 2


def test_a_package_runs_in_a_program_without_python(tmp_path: Path) -> None:
    library = export_ops(tmp_path / "ops.so", [quadratic, grow, energy])
    program = tmp_path / "program"
    flags = ["-std=c++20", "-O0", f"-I{TORCH}/include", f"-L{TORCH}/lib"]
    libraries = ["-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
    compiler = [*find_compiler("the test"), *flags, str(HERE / "aoti_program.cc")]
    command = [*compiler, "-o", str(program), f"-Wl,-rpath,{TORCH}/lib", *libraries]
    subprocess.run(command, check=True)
    size = torch.export.Dim("n", min=2)
    x = torch.arange(6, dtype=torch.float64) / 6
    exported = torch.export.export(Model(), (x,), dynamic_shapes=({0: size},))
    package = torch._inductor.aoti_compile_and_package(
        exported, package_path=str(tmp_path / "model.pt2")
    )
    for n in (6, 9, 100):
        ran = subprocess.run(
            [str(program), str(library), str(package), str(n)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        found = [struct.unpack(">d", bytes.fromhex(line))[0] for line in ran.stdout.split()]
        assert found == Model()(torch.arange(n, dtype=torch.float64) / n).tolist()


def test_other_callables_are_refused(tmp_path: Path) -> None:
    for given, text in (([], "no operators"), ([torch.neg], "expected an operator")):
        with pytest.raises(kc.KernelArgumentError, match=text):
            export_ops(tmp_path / "ops.so", given)
