"""Operators run on torch's threads, as many as torch uses, and in forked children on their own."""

import os
import signal
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


# The parent runs operators of torch only.
CHILD_ALONE = (
    PROGRAM.split("operator(x[:1])")[0]
    + """
torch.sin(x).sum()
if os.fork() == 0:
    operator(x)
    print("child", flush=True)
    os._exit(0)
os.wait()
"""
)


def test_the_first_operator_of_a_forked_child_ends(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(CHILD_ALONE)
    env = {**os.environ, "TORCH_THREADS": "2", "KC_NUM_THREADS": "2"}
    # In a session of its own: the child may wait for ever.
    with subprocess.Popen(
        [sys.executable, path], env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=30)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert printed.split() == ["child"]


@pytest.mark.parametrize("count", [1, 2])
def test_operators_start_no_threads_beside_those_of_torch(count, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    env = {**os.environ, "TORCH_THREADS": str(count), "KC_NUM_THREADS": "2"}
    command = [sys.executable, path]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "child"]
