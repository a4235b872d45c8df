"""An operator in Paddle and its gradient."""

from importlib.metadata import version

import paddle

import kernelcore as kc


@kc.kernel
def cube(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] * x[i] * x[i]


op = kc.paddle_op(cube)
x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
op(x).sum().backward()
assert x.grad is not None
assert x.grad.tolist() == [3.0, 12.0]
print(f"kernelcore {kc.__version__}, Paddle {version('paddlepaddle')}")
