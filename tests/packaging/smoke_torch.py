"""An operator in torch: eager, its gradient, torch.compile where a compiler of C++ is there."""

import shutil

import torch

import kernelcore as kc


@kc.kernel
def cube(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] * x[i] * x[i]


op = kc.torch_op(cube)
x = torch.tensor([1.0, 2.0], requires_grad=True)
op(x).sum().backward()
assert x.grad is not None
assert x.grad.tolist() == [3.0, 12.0]
assert torch.func.vmap(op)(torch.ones(2, 3)).shape == (2, 3)
if shutil.which("g++"):
    assert torch.compile(op, fullgraph=True)(x).tolist() == [1.0, 8.0]
print(f"kernelcore {kc.__version__}, torch {torch.__version__}")
