"""Registers per thread of the suite's kernels on GPUs, against nvcc -O3 on the same in CUDA C++.

No GPU is needed: ``ptxas`` says what it takes for either. nvcc neither contracts products and sums
nor approximates (its default but for -fmad=false), as kernels do not. What is equal there too are
loops over the grid of any number of blocks; the peer's arrays are packed, those of kernels have
strides. ``python -m tests.bench.bench_registers [sm_NN ...]``
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import kernelcore as kc
from kernelcore.codegen.gpu.ptx import ptx_text
from kernelcore.passes.pipeline import optimize
from tests.bench.suite import CASES

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
PEER = Path(__file__).with_name("registers.cu")
NVCC_FLAGS = ("-O3", "-fmad=false", "-std=c++17", "-Xptxas", "-v", "-cubin", "-o", "/dev/null")
# How many more than the peer's a kernel may take.
MOST = 1.15
_ENTRY = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers",
    re.DOTALL,
)


def main(architectures: Sequence[str]) -> int:
    """Print a table per architecture; returns 1 if a kernel takes too many registers."""
    worst = 0.0
    for architecture in architectures:
        peers = registers(["nvcc", *NVCC_FLAGS, f"-arch={architecture}", str(PEER)])
        print(f"\n{architecture:22}{'kernelcore':>11}{'nvcc':>6}{'ratio':>7}")
        for case in CASES:
            name = case.make.__name__
            own, peer = kernel_registers(case.make(kc), name, architecture), peers[name]
            worst = max(worst, own / peer)
            mark = "  too many" if own > MOST * peer else ""
            print(f"{case.name:22}{own:11}{peer:6}{own / peer:7.2f}{mark}")
    print(f"\nat most {worst:.2f} times the registers of nvcc")
    return int(worst > MOST)


def kernel_registers(kernel: kc.Kernel, name: str, architecture: str) -> int:
    """The registers of a thread of ``kernel``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(ptx_text(optimize(kernel.func), name, architecture))
        flags = ["-v", f"-arch={architecture}", "-o", "/dev/null"]
        return registers(["ptxas", *flags, str(path)])[name]


def registers(command: Sequence[str]) -> dict[str, int]:
    """Per entry what a compiler, told to be verbose, says; nothing may be spilled."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = _ENTRY.findall(done.stderr + done.stdout)
    assert all(spilled == "0" for _, spilled, _ in found), found
    return {name: int(count) for name, _, count in found}


if __name__ == "__main__":
    for tool in ("nvcc", "ptxas"):
        if shutil.which(tool) is None:
            sys.exit(f"bench_registers needs {tool} of CUDA on the PATH")
    sys.exit(main(sys.argv[1:] or ARCHITECTURES))
