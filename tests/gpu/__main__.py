"""``python -m tests.gpu``: the suites on a GPU, which ``KC_TEST_DEVICE`` chooses; see GPU.md.

The first part needs the driver only, the second kernelcore's own runtime, the third torch and JAX.
``KC_GPU_PARTS=code,runtime`` chooses among them, and arguments are passed to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType

PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # The language and derivatives: kernels that the driver runs, against the interpreter.
        "code": (
            *("tests/test_builtins.py", "tests/test_codegen.py", "tests/test_codegen_control.py"),
            *("tests/test_semantics.py", "tests/test_derivatives.py", "tests/device"),
        ),
        "runtime": ("tests/gpu/runtime_cases.py", "tests/test_tape_patterns.py"),
        "torch": ("tests/torch/device_cases.py", "tests/torch/test_patterns.py"),
        "jax": ("tests/jax/device_cases.py", "tests/jax/test_patterns.py"),
    }
)
# What these suites say of the processor's machine code alone.
HOST_ONLY = "not several_lanes and not interpreted and not any_lane_count"


def main(arguments: Sequence[str]) -> int:
    """Run the parts; returns 1 where one fails, and 2 where there is no GPU."""
    os.environ.setdefault("KC_TEST_DEVICE", "cuda:0")
    # JAX takes three quarters of the memory of a GPU otherwise.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if os.environ["KC_TEST_DEVICE"] != "cpu" and not _has_gpu():
        return 2
    wanted = os.environ.get("KC_GPU_PARTS", ",".join(PARTS)).split(",")
    failed: list[str] = []
    for part in wanted:
        print(f"== {part}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-k", HOST_ONLY, *PARTS[part], *arguments]
        if subprocess.run(command).returncode != 0:
            failed.append(part)
    print(f"failed: {', '.join(failed)}" if failed else f"passed: {', '.join(wanted)}")
    return 1 if failed else 0


def _has_gpu() -> bool:
    """Whether there is the GPU that is wanted; says so where there is none."""
    program = "from tests.device import driver, gpu; print(driver.use(gpu.ORDINAL))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode == 0:
        print(f"{os.environ['KC_TEST_DEVICE']}: {done.stdout.strip()}")
        return True
    reason = done.stderr.strip().splitlines()[-1]
    print(f"test-gpu: no test was run, there is no GPU: {reason}", file=sys.stderr)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
