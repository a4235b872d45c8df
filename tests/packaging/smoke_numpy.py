"""kernelcore with NumPy alone: a launch, its derivative, errors, the command line."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import numpy as np

import kernelcore as kc


@kc.kernel
def power(x: kc.array[float], n: int, y: kc.array[float]):
    i = kc.tid()
    v = x[i]
    for _ in range(n - 1):
        v = v * x[i]
    y[i] = v


x = np.array([1.0, 2.0, 3.0], np.float32)
y = np.zeros(3, np.float32)
kc.launch(power, 3, [x, 3], [y])
assert y.tolist() == [1.0, 8.0, 27.0]

a = kc.array(x, dtype=float, requires_grad=True)
b = kc.zeros(3, dtype=float, requires_grad=True)
with kc.Tape() as tape:
    kc.launch(power, 3, [a, 3], [b])
tape.backward(grads={b: kc.ones(3, dtype=float)})
assert a.grad is not None
assert a.grad.numpy().tolist() == [3.0, 12.0, 27.0]

assert kc.op(power)(x, 2).tolist() == [1.0, 4.0, 9.0]


def message(action: Callable[[], object], error: type[Exception]) -> str:
    """The text of the ``error`` that ``action`` raises."""
    try:
        action()
    except error as found:
        return str(found)
    raise AssertionError(f"expected {error.__name__}")


wrong = message(lambda: kc.launch(power, 3, [x.astype(np.float64), 3], [y]), kc.KernelError)
assert "argument 'x'" in wrong
for framework, name in (("torch", "torch_op"), ("jax", "jax_kernel"), ("paddle", "paddle_op")):
    assert f"kernelcore[{framework}]" in message(partial(getattr, kc, name), ImportError)
command = [sys.executable, "-m", "kernelcore", "info"]
info = subprocess.run(command, capture_output=True, text=True, check=True).stdout
assert kc.__version__ in info
print(f"kernelcore {kc.__version__}, NumPy {np.__version__}")
