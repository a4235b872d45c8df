"""Adam in Paddle
==============

Three ways to give Paddle's Adam the gradients of a kernel; all find the minimum.

The first two share memory between arrays and tensors, and compute gradients with a Tape. The third
makes an operator of the kernel, which Paddle differentiates itself.
"""

from typing import Any

import numpy as np
import paddle

import kernelcore as kc
from paddle_ext import from_paddle, paddle_op, to_paddle


@kc.kernel
def squares(points: kc.array2d[float], loss: kc.array[float]):
    i, j = kc.tid()
    kc.atomic_add(loss, 0, points[i, j] * points[i, j])


@kc.kernel
def rosenbrock(points: kc.array[kc.vec2], value: kc.array[float]):
    i = kc.tid()
    p = points[i]
    value[i] = (1.0 - p.x) ** 2.0 + 100.0 * (p.y - p.x**2.0) ** 2.0


def minimise_squares(optimiser: Any, points: kc.Array, steps: int) -> float:
    """The sum of squares after ``steps`` steps of ``optimiser``, which knows ``points``."""
    loss = kc.zeros(1, requires_grad=True)
    for _ in range(steps):
        with kc.Tape() as tape:
            loss.zero_()
            kc.launch(squares, dim=points.shape, inputs=[points], outputs=[loss])
        tape.zero()
        tape.backward(loss)  # into the memory of the tensor's grad
        optimiser.step()
        points.mark_write()  # which Paddle has changed
    return float(loss[0])


def minimise_rosenbrock(start: np.ndarray) -> np.ndarray:
    """The mean of the points after 8000 steps."""
    points = paddle.to_tensor(start, stop_gradient=False)
    optimiser = paddle.optimizer.Adam(learning_rate=5e-2, parameters=[points])
    function = paddle_op(rosenbrock)
    for _ in range(8000):
        function(points).sum().backward()
        optimiser.step()
        optimiser.clear_grad()
    return points.numpy().mean(axis=0)


def main() -> None:
    rng = np.random.default_rng(42)

    tensor = paddle.to_tensor(rng.normal(size=(100, 2)).astype(np.float32), stop_gradient=False)
    optimiser = paddle.optimizer.Adam(learning_rate=0.1, parameters=[tensor])
    left = minimise_squares(optimiser, from_paddle(tensor), 500)
    print(f"from_paddle         sum of squares {left:.1e}")

    array = kc.array(rng.normal(size=(100, 2)), dtype=float, requires_grad=True)
    optimiser = paddle.optimizer.Adam(learning_rate=0.1, parameters=[to_paddle(array)])
    left = minimise_squares(optimiser, array, 500)
    print(f"to_paddle           sum of squares {left:.1e}")

    x, y = minimise_rosenbrock(rng.normal(size=(20, 2)).astype(np.float32))
    print(f"paddle_op           minimum at ({x:.3f}, {y:.3f})")


if __name__ == "__main__":
    main()
