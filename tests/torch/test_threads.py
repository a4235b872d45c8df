"""Operators run on torch's threads, as many as torch uses, and in forked children on their own."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
import numpy as np
import torch
import kernelcore as kc
from torch_ext import torch_op

@kc.kernel
def waves(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    v = x[i]
    for _ in range(200):
        v = kc.sin(v) + 1.0
    y[i] = v

def threads():
    return len(os.listdir("/proc/self/task"))

torch.set_num_threads(int(os.environ["TORCH_THREADS"]))
operator = torch_op(waves)
x = torch.linspace(0.0, 1.0, 200_000)
operator(x[:1])
torch.sin(x).sum()
before = threads()
expected = operator(x).numpy()
print(threads() - before, flush=True)
if os.fork() == 0:
    np.testing.assert_array_equal(operator(x).numpy(), expected)
    print("child", flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("count", [1, 2])
def test_operators_start_no_threads_beside_those_of_torch(count, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    env = {**os.environ, "TORCH_THREADS": str(count), "KC_NUM_THREADS": "2"}
    command = [sys.executable, path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "child"]
