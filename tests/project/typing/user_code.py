"""Code of users, with the types that type checkers find in it; ``test_typing.py`` checks them."""

from typing import Any, Literal, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import torch

import kernelcore as kc

vec5 = kc.types.vector(length=5, dtype=float)
mat23 = kc.types.matrix((2, 3), float)


@kc.struct
class Body:
    position: kc.vec3
    velocity: kc.vec3
    mass: float
    kind: kc.int32


@kc.struct
class Spline:
    knots: kc.array[kc.float64]
    scale: float


@kc.func
def momentum(b: Body) -> kc.vec3:
    assert_type(b.position, kc.vec3)
    assert_type(b.mass, float)
    return b.mass * b.velocity


@kc.func
def clipped(x: float, low: float = 0.0) -> float:
    return kc.clamp(x, low, 1.0)


@kc.kernel
def move(
    bodies: kc.array[Body],
    points: kc.array2d[kc.vec3],
    grid: kc.array3d[float],
    volume: kc.array4d[kc.float64],
    counts: kc.array1d[int],
    anything: kc.array2d[Any],
    chosen: kc.indexedarray2d[float],
    spline: Spline,
    dt: float,
    n: kc.uint32,
    turn: kc.quat,
    frame: kc.transform,
):
    i = kc.tid()
    b = bodies[i]
    assert_type(b, Body)
    assert_type(momentum(b), kc.vec3)
    weights = vec5(1.0)
    weights[i] = (mat23(0.0) @ b.position)[0]
    b.position += dt * b.velocity
    b.velocity.z -= 9.81 * dt
    bodies[i] = b

    row, column = kc.tid()
    assert_type(row, int)
    assert_type(points[row, column], kc.vec3)
    assert_type(points[row], kc.array1d[kc.vec3])
    assert_type(points[row, ::2], kc.array1d[kc.vec3])
    assert_type(points[1:], kc.array2d[kc.vec3])
    points[row, column] += kc.vec3(1.0, 0.0, 0.0)
    points[row, column] = kc.cross(b.position, b.velocity)

    assert_type(grid[row, column, 0], float)
    assert_type(grid[row, column], kc.array1d[float])
    assert_type(volume[0, 1, 2, 3], float)
    grid[row, column, 0] += 2.0 * volume[0, 1, 2, 3]
    assert_type(chosen[row, column], float)
    assert_type(spline.knots[0], float)
    anything[row, column] = anything[column, row] * 2

    counts[i] = kc.atomic_add(counts, 0, 1)
    kc.atomic_max(grid, row, column, 0, kc.float32(n))
    assert_type(counts.shape[0], int)
    assert_type(len(counts), int)

    v = b.position
    assert_type(v.x, float)
    assert_type(v.xy, kc.vec2)
    assert_type(v[0], float)
    assert_type(v + v, kc.vec3)
    assert_type(2.0 * v - v / 3.0, kc.vec3)
    assert_type(-v, kc.vec3)
    assert_type(kc.dot(v, v), float)
    assert_type(kc.length(v), float)
    assert_type(kc.normalize(v), kc.vec3)
    assert_type(kc.sin(v), kc.vec3)
    assert_type(kc.sin(v.x), float)
    assert_type(kc.min(n, 3), int)
    assert_type(kc.min(v.x, 3), float)
    assert_type(kc.where(v.x > 0.0, v, -v), kc.vec3)
    assert_type(kc.isnan(v.x), bool)
    assert_type(kc.vec2i(1, 2).x, int)
    assert_type(kc.dot(kc.vec2i(1, 2), kc.vec2i(3, 4)), int)

    m = kc.outer(v, v) + kc.mat33()
    m = kc.mat33(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    assert_type(m[0, 1], float)
    assert_type(m[0], kc.vec3)
    assert_type(m @ v, kc.vec3)
    assert_type(m * v, kc.vec3)
    assert_type(m * m, kc.mat33)
    assert_type(m * 2.0, kc.mat33)
    assert_type(kc.inverse(m), kc.mat33)
    assert_type(kc.determinant(m), float)
    m[0, 1] = 1.0
    m[2] = v

    assert_type(turn * turn, kc.quat)
    assert_type(turn.w, float)
    assert_type(kc.quat_rotate(turn, v), kc.vec3)
    assert_type(kc.quat_to_matrix(turn), kc.mat33)
    assert_type(kc.quat_from_axis_angle(kc.vec3d(), 1.0), kc.quatd)
    assert_type(frame.p, kc.vec3)
    assert_type(frame.q, kc.quat)
    assert_type(frame * frame, kc.transform)
    assert_type(kc.transform_point(frame, v), kc.vec3)
    frame.p = v

    state = kc.rand_init(7, i)
    assert_type(kc.randf(state), float)
    assert_type(kc.sample_unit_sphere(state), kc.vec3)


@kc.kernel()
def scale(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = kc.sqrt(x[i]) * clipped(x[i], low=0.5)


@kc.op
@kc.kernel
def swish(x: kc.arraynd[float], slope: float, y: kc.arraynd[float]):
    i = kc.tid()
    assert_type(x[i], float)
    y[i] = x[i] / (1.0 + kc.exp(-slope * x[i]))


assert_type(scale, kc.Kernel)
x = kc.array([1.0, 2.0], dtype=float, requires_grad=True)
y = kc.zeros(2, dtype=kc.float32, requires_grad=True)
with kc.Tape() as tape:
    kc.launch(scale, dim=2, inputs=[x], outputs=[y])
tape.backward(grads={y: kc.ones(2, dtype=float)})
kc.launch(scale, 2, [np.ones(2, np.float32)], [y], device="cpu")

assert_type(clipped(2.0), float)
body = Body(position=kc.vec3(1.0, 2.0, 3.0), velocity=kc.vec3(), mass=2.0, kind=1)
body.position = kc.vec3(0.0)
spline = Spline(knots=np.zeros(3), scale=1.0)
assert_type(momentum(body), kc.vec3)
generic = kc.overload(scale, [kc.array[float], kc.array[float]])
assert_type(generic, kc.Kernel)
print(swish(np.ones((2, 3), np.float32), 2.0).shape)
print(kc.__version__, scale.inspect("ir"), scale.name, kc.config.mode)


@kc.op(launch_dims=("h", "w"), output_dims={"image": ("h", "w")})
@kc.kernel
def splat(centers: kc.array[kc.vec2], h: int, w: int, image: kc.array2d[float]):
    i, j = kc.tid()
    for k in range(centers.shape[0]):
        d = centers[k] - kc.vec2(float(i), float(j))
        image[i, j] += kc.exp(-kc.dot(d, d))


@kc.op(outputs="y")
@kc.kernel
def scaled(x: kc.array[Any], a: Any, y: kc.array[Any]):
    i = kc.tid()
    y[i] = a * x[i]


@kc.op
def twice(x: kc.array[float], y: kc.array[float]):
    inner = kc.zeros(x.shape, dtype=float)
    kc.launch(scale, x.shape[0], inputs=[x], outputs=[inner])
    kc.launch(scale, x.shape[0], inputs=[inner], outputs=[y])


class Swish(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.tensor(1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return swish(x, self.slope) + swish.torch(x, 2.0)


model = torch.compile(Swish(), fullgraph=True)
images = [splat(torch.rand(4, 2, requires_grad=True), 8, 8), splat(torch.rand(4, 2), h=8, w=4)]
loss = torch.nn.functional.mse_loss(images[0], torch.zeros(8, 8))
loss.backward()
batch = torch.func.vmap(swish, in_dims=(0, None))(torch.rand(2, 3), 1.5)
torch.library.opcheck(swish.overload, (torch.rand(3), 2.0))


@jax.jit
def objective(x: jax.Array, slope: float) -> jax.Array:
    return swish(x, slope).sum() + twice(x).sum() + swish.jax(x, slope)[0].sum()


slopes = jax.grad(objective)(jnp.ones(3), 2.0)
rows = jax.vmap(lambda x: scaled(x, 0.5))(jnp.ones((2, 3)))
kc.launch(scale, 3, inputs=[torch.rand(3)], outputs=[torch.zeros(3)])
report = kc.explain(scale, np.ones(8, np.float32), np.zeros(8, np.float32))
print(report)
report.save("page.html")
print(splat.cost(np.ones((4, 2), np.float32), 8, 8).flops, splat.kernel.name)
with kc.python_mode():
    scaled(np.ones(3, np.float32), 2.0)
kc.config.check_finite = True
kc.compile_all([scale], progress=True)
text = kc.kernel(source="def set_two(x: kc.array[float]):\n    x[kc.tid()] = 2.0")
assert_type(text, kc.Kernel)


@kc.func
def first(row: kc.array[float]) -> float:
    return row[0]


@kc.kernel
def any_rank(
    x: kc.array[float],
    y: kc.array[float, Literal[1]],
    grid: kc.array[kc.vec3, Literal[2]],
    volume: kc.array[float, Literal[3]],
    deep: kc.array[float, Literal[4]],
    other: kc.array2d[float],
):
    i, j = kc.tid()
    assert_type(x[i], float)
    assert_type(y[i], float)
    assert_type(grid[i, j], kc.vec3)
    assert_type(grid[i][j], kc.vec3)
    assert_type(volume[i, j, 0], float)
    assert_type(deep[i, j, 0, 1], float)
    y[i] = first(x) + first(y) + first(other[i]) + first(volume[i, j]) + first(x[1:])
    grid[i, j] = kc.vec3(1.0)
    volume[i, j, 0] += 1.0
    deep[0] = 1.0
    for row in grid:
        for v in row:
            x[i] += v.x
