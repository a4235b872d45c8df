"""Kernels on a GPU: bandwidth, matmul and n-body against nvcc's code, launches from Python.

Code is timed by the driver's own events, and what it computes is checked first. The peers are the
CUDA C++ of ``registers.cu``, compiled by nvcc, or by NVRTC where there is none; as in kernels,
products and sums are not contracted. ``python -m tests.bench.bench_gpu``
"""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kernelcore as kc
from kernelcore.codegen import abi
from kernelcore.codegen.gpu import tiles
from kernelcore.ir.core import Func
from kernelcore.language.types import MAX_GRID_DIMS
from kernelcore.passes.pipeline import optimize
from tests.bench.suite import CASES
from tests.bench.suite.case import Data
from tests.device import driver, gpu
from tests.helpers.argument_block import pack
from tests.helpers.environment import ORDINAL

PEER = Path(__file__).with_name("registers.cu")
THREADS = 256
ROUNDS = 20
SAXPY_POINTS, MATMUL_SIZE, BODIES = 1 << 27, 2048, 1 << 15
# What is asked of the figures: parts of the copy's bandwidth, and of the peers' speed.
LEAST_BANDWIDTH, MOST_TIME, MOST_LAUNCH_US = 0.9, 1.1, 3.0


def main() -> int:
    """Print the figures; returns 1 where one is not what it should be."""
    print(f"cuda:{ORDINAL}, {driver.use(ORDINAL)}")
    image = peer_image(gpu.newest_known(driver.use(ORDINAL)))
    good = [bandwidth()]
    good += [against_peer(image, *row) for row in (matmul_row(), nbody_row())]
    good.append(launch_overhead())
    return 0 if all(good) else 1


def bandwidth() -> bool:
    """saxpy of many points, which moves three arrays, against a copy, which moves two."""
    case = CASES[0]
    data = case.data(SAXPY_POINTS)
    run, arrays = prepared(optimize(case.make(kc).func), data, tiles.POINTS)
    milliseconds = timed(run)
    read_back(arrays)
    case.check(data.outputs, data, "the GPU")
    size = data.args[1].nbytes
    source, target = (ctypes.c_uint64(arrays[k].device) for k in (0, 2))
    copying = timed(
        lambda: driver.call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(size), None)
    )
    ours, copy = 3 * size / milliseconds / 1e6, 2 * size / copying / 1e6
    release(arrays)
    print(f"saxpy {SAXPY_POINTS}: {ours:.0f} GB/s, copy {copy:.0f} GB/s, {ours / copy:.2f}")
    return ours >= LEAST_BANDWIDTH * copy


def matmul_row() -> tuple[str, int, Callable[[Sequence[driver.Buffer], Data], list[Any]]]:
    """The case, its size, and the arguments of its peer."""
    n = MATMUL_SIZE
    sizes = [ctypes.c_longlong(n), ctypes.c_longlong(n), ctypes.c_int(n)]
    return "matmul", n, lambda arrays, data: [*pointers(arrays), *sizes]


def nbody_row() -> tuple[str, int, Callable[[Sequence[driver.Buffer], Data], list[Any]]]:
    """As ``matmul_row``."""

    def arguments(arrays: Sequence[driver.Buffer], data: Data) -> list[Any]:
        x, mass, f = pointers(arrays)
        return [x, mass, ctypes.c_float(data.args[2]), f, ctypes.c_longlong(BODIES)]

    return "nbody", BODIES, arguments


def against_peer(image: bytes, name: str, size: int, arguments: Callable[..., list[Any]]) -> bool:
    """The time of a kernel and of its peer in turns, on the same arrays."""
    (case,) = (c for c in CASES if c.make.__name__ == name)
    data = case.data(size)
    run, arrays = prepared(optimize(case.make(kc).func), data)
    peer, given = driver.function(image, name), arguments(arrays, data)
    blocks = -(-int(np.prod(data.dim)) // THREADS)

    def theirs() -> None:
        driver.launch(peer, blocks, THREADS, given)

    run()
    read_back(arrays)
    own = data.outputs[0].copy()
    theirs()
    read_back(arrays)
    scale = float(np.abs(data.outputs[0]).max())
    np.testing.assert_allclose(own, data.outputs[0], rtol=1e-3, atol=1e-4 * scale)
    ours, other = timed(run), timed(theirs)
    release(arrays)
    print(f"{name} {size}: {ours:.3f} ms, nvcc {other:.3f} ms, {ours / other:.2f}")
    return ours <= MOST_TIME * other


def launch_overhead() -> bool:
    """Microseconds that Python spends per launch, which runs behind it."""
    device = f"cuda:{ORDINAL}"
    x, y, z = (kc.zeros(8, device=device) for _ in range(3))
    # Fewer than the driver queues, so that nothing waits for the GPU.
    kernel, count = CASES[0].make(kc), 500
    found: list[float] = []
    for _ in range(ROUNDS):
        kc.synchronize_device(device)
        start = time.perf_counter_ns()
        for _ in range(count):
            kc.launch(kernel, dim=8, inputs=[2.0, x, y, z])
        found.append((time.perf_counter_ns() - start) / count / 1e3)
    us = statistics.median(found[2:])
    print(f"launch from Python: {us:.2f} us")
    return us <= MOST_LAUNCH_US


def prepared(
    func: Func, data: Data, points: int = 1
) -> tuple[Callable[[], None], list[driver.Buffer]]:
    """What launches ``func`` on copies of its arrays, and these in order.

    Each thread runs ``points`` points, as in kernelcore's launches of large grids.
    """
    arrays: dict[int, driver.Buffer] = {}
    for arg in data.args:
        if isinstance(arg, np.ndarray):
            arrays[id(arg)] = driver.Buffer(arg.ctypes.data, arg.nbytes)
    status = np.zeros(gpu.STATUS_WORDS, np.int64)
    told = driver.Buffer(status.ctypes.data, status.nbytes)
    words = [*data.dim, *[1] * (MAX_GRID_DIMS - len(data.dim)), told.device, 0, 0]
    grid = (ctypes.c_int64 * len(words))(*words)
    fields, size = abi.layout(func.params)
    block = pack(fields, size, data.args, lambda a: arrays[id(a)].device)
    total = int(np.prod(data.dim))
    parameters = [
        (ctypes.c_char * len(block)).from_buffer(block),
        *(grid, ctypes.c_int64(0), ctypes.c_int64(total)),
    ]
    kernel, blocks = gpu.load(func), -(-total // (THREADS * points))
    return lambda: driver.launch(kernel, blocks, THREADS, parameters), list(arrays.values())


def pointers(arrays: Sequence[driver.Buffer]) -> list[ctypes.c_uint64]:
    return [ctypes.c_uint64(a.device) for a in arrays]


def read_back(arrays: Sequence[driver.Buffer]) -> None:
    driver.synchronize()
    for array in arrays:
        array.read_back()


def release(arrays: Sequence[driver.Buffer]) -> None:
    for array in arrays:
        array.free()


def timed(run: Callable[[], None]) -> float:
    """The median of the milliseconds of ``run`` on the GPU, after a few that are not counted."""
    watch = driver.Stopwatch()
    found: list[float] = []
    for _ in range(ROUNDS):
        watch.start()
        run()
        found.append(watch.stop())
    return statistics.median(found[3:])


def peer_image(architecture: str) -> bytes:
    """PTX of the peers."""
    compiler = shutil.which("nvcc", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")
    if compiler is None:
        return _by_nvrtc(PEER.read_bytes(), architecture)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "peers.ptx")
        flags = ["-O3", "-fmad=false", f"-arch={architecture}", "-ptx", "-o", str(path)]
        subprocess.run([compiler, *flags, str(PEER)], check=True)
        return path.read_bytes() + b"\0"


def _by_nvrtc(source: bytes, architecture: str) -> bytes:
    """As nvcc does, by the library that torch and JAX bring along."""
    site = sysconfig.get_paths()["platlib"]
    found = glob.glob(f"{site}/nvidia/*/lib/libnvrtc.so.*")
    nvrtc = ctypes.CDLL(found[0] if found else "libnvrtc.so")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    flags = [f"--gpu-architecture=compute_{architecture[3:]}".encode(), b"--fmad=false"]
    given = (ctypes.c_char_p * len(flags))(*flags)
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"peers.cu", 0, None, None)
    compiled = nvrtc.nvrtcCompileProgram(program, len(flags), given)
    if made != 0 or compiled != 0:
        raise driver.DriverError(f"NVRTC does not compile the peers: {made}, {compiled}")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    return text.raw


if __name__ == "__main__":
    try:
        sys.exit(main())
    except driver.DriverError as error:
        sys.exit(f"bench-gpu: nothing was timed: {error}")
