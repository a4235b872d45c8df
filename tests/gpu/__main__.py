"""``python -m tests.gpu``: the suites on a GPU, which ``KC_TEST_DEVICE`` chooses.

What they take is in docs/internals/gpu.md.

The first parts need the driver only, the next kernelcore's own runtime, the others torch and JAX.
``KC_GPU_PARTS=code,runtime`` chooses among them, and arguments are passed to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType


def _files(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names.split())


PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # Code that the driver runs, against the interpreter: operations, derivatives, sums.
        "code": (
            *_files("builtins", "table operator_semantics"),
            *_files("codegen/llvm", "kernel control"),
            *_files("passes/autodiff", "derivatives"),
            "tests/device",
        ),
        # Likewise of programs in the kernel language, its library, its effects and its rules.
        "language": (
            *_files("frontend", "language language_edges functions gradient scalar_types bitcast"),
            *_files("codegen/llvm", "atomics effects float16"),
            *_files("passes/autodiff", "effect_derivatives custom_rules"),
            *_files("builtins", "random noise interpolate"),
            *_files("codegen/snippet", "native_functions"),
        ),
        "runtime": ("tests/gpu/runtime_cases.py", "tests/autograd/test_tape_patterns.py"),
        "torch": ("tests/torch/device_cases.py", "tests/torch/test_patterns.py"),
        "jax": ("tests/jax/device_cases.py", "tests/jax/test_patterns.py"),
    }
)


# What is written for whatever device torch and JAX use by default, and was run on CPUs only.
SUITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "torch-suite": _files(
            "torch",
            "callable compile custom_rules forms forward gradient matrix "
            "native_autograd native_functions out saved_programs transforms",
        ),
        "jax-suite": (
            *_files(
                "jax",
                "batching callable calls composites custom_rules errors native_functions stored "
                "structs transforms",
            ),
            # Without test_matrix.py, which runs it and others on several devices that are the CPU.
            "tests/jax/matrix_cases.py",
        ),
    }
)
# What these suites say of the processor's machine code alone, and what takes several devices.
HOST_ONLY = (
    "not several_lanes and not interpreted and not any_lane_count and not another_processor "
    "and not shard_map"
)
# What frameworks warn of on a GPU is theirs. The plugin for benchmarks, if any, warns of xdist.
PYTEST = (
    *(sys.executable, "-m", "pytest", "-q", "-W", "default"),
    *("-p", "no:benchmark", "-k", HOST_ONLY),
)


def main(arguments: Sequence[str]) -> int:
    """Run the parts; returns 1 where one fails, and 2 where there is no GPU."""
    os.environ.setdefault("KC_TEST_DEVICE", "cuda:0")
    # JAX takes three quarters of the memory of a GPU otherwise.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    known = {**PARTS, **SUITES}
    wanted = os.environ.get("KC_GPU_PARTS", ",".join(PARTS)).split(",")
    if unknown := [part for part in wanted if part not in known]:
        print(f"test-gpu: no part {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if os.environ["KC_TEST_DEVICE"] != "cpu" and not _has_gpu():
        return 2
    failed: list[str] = []
    for part in wanted:
        print(f"== {part}", flush=True)
        environment = {**os.environ, **({"KC_TORCH_DEFAULT": "1"} if part in SUITES else {})}
        done = subprocess.run([*PYTEST, *known[part], *arguments], env=environment)
        if done.returncode != 0:
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
