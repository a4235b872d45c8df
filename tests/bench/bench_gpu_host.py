"""What calls on a GPU cost the host, over a driver and a torch that do nothing.

``python -m tests.bench.bench_gpu_host``
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import kernelcore as kc
from kernelcore.operators.shape_rules import kernel_operation
from tests.cuda import fake
from tests.cuda.fake_tensor import FakeTensor, entry
from tests.cuda.fake_torch import FakeTorch

ROUNDS, CALLS = 15, 5000


@kc.kernel
def scale(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


def main() -> None:
    """Print the medians of the rounds."""
    library = fake.build()
    driver = fake.install(library)
    torch = FakeTorch(driver, library)
    FakeTensor.use_with(torch)
    operation = kernel_operation(scale, None)
    operator = entry(torch, operation, _refuse)
    driver.know(scale.func, "sm_90")
    x, y = kc.zeros(8, device="cuda:0"), kc.zeros(8, device="cuda:0")
    tensor = FakeTensor.of(np.ones(8, np.float32))
    driver.be_idle()
    report("launch", lambda: kc.launch(scale, dim=8, inputs=[x, 2.0], outputs=[y]))
    report("call of an operator of torch", lambda: operator(tensor, 2.0))


def report(name: str, call: Callable[[], object]) -> None:
    """Print the microseconds of ``call``."""
    found: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter_ns() - start) / CALLS / 1e3)
    print(f"{name}: {statistics.median(found):.2f} us")


def _refuse(*args: object) -> None:
    raise AssertionError("the call was left to Python")


if __name__ == "__main__":
    main()
