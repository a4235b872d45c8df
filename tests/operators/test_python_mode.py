"""Python mode in operators: eager calls run the Python, and what cannot says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import paddle
import pytest
import torch
from torch.autograd import forward_ad

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from kernelcore.launch.python_mode import run
from paddle_ext import paddle_op
from torch_ext import torch_callable, torch_op

F = np.float32
Floats = kc.array(dtype=float)
MAKERS: dict[str, Callable[[Any], Any]] = {
    "numpy": np.asarray,
    "torch": torch.tensor,
    "jax": jnp.asarray,
    "paddle": paddle.to_tensor,
    "kernelcore": kc.from_numpy,
}
VALUES = np.array([1.0, 2.0, 3.0], F)


@kc.struct
class Ball:
    place: kc.vec3
    mass: float


@kc.struct
class Scene:
    scale: float
    x: Floats
    offset: kc.vec2


@kc.kernel
def square(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def races(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i]
    y[0] = x[i]


@kc.kernel
def grow(x: Floats, total: Floats):
    i = kc.tid()
    x[i] = 2.0 * x[i]
    kc.atomic_add(total, 0, x[i])


@kc.kernel
def heavier(balls: kc.array(dtype=Ball), by: float, out: kc.array(dtype=Ball)):
    i = kc.tid()
    out[i].mass = balls[i].mass * by
    out[i].place = balls[i].place + kc.vec3(by, 0.0, 1.0)


@kc.kernel
def of_scene(s: Scene, v: kc.vec2, y: Floats):
    i = kc.tid()
    y[i] = s.scale * s.x[i] + s.offset.y + v.x


@kc.kernel
def any_type(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = x[i] * type(x[i])(3)


@pytest.fixture(autouse=True)
def _python() -> Iterator[None]:
    with kc.python_mode():
        yield


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels, once per launch that Python runs."""
    found: list[str] = []
    made = run.Memory

    def noted(kernel: str, **options: Any) -> Any:
        found.append(kernel)
        return made(kernel, **options)

    monkeypatch.setattr(run, "Memory", noted)
    return found


def plain(found: Any) -> Any:
    return np.asarray(found.detach() if isinstance(found, torch.Tensor) else found)


@pytest.mark.parametrize("framework", MAKERS)
def test_eager_calls_run_python(framework: str, launches: list[str]) -> None:
    operator, values = kc.op(square), MAKERS[framework](VALUES)
    for _ in range(3):
        assert plain(operator(values)).tolist() == [1.0, 4.0, 9.0]
    assert launches == ["square"] * 3
    kc.config.mode = "release"
    for _ in range(3):
        assert plain(operator(values)).tolist() == [1.0, 4.0, 9.0]
    assert len(launches) == 3
    kc.config.mode = "python"
    assert plain(operator(values)).tolist() == [1.0, 4.0, 9.0]
    assert len(launches) == 4


@pytest.mark.parametrize("framework", MAKERS)
def test_eager_calls_report_races(framework: str) -> None:
    with pytest.raises(kc.KernelRaceError, match=r"thread 1 writes y\[0\], which thread 0 wrote"):
        kc.op(races, output_dims=3)(MAKERS[framework](VALUES))


@pytest.mark.parametrize("framework", MAKERS)
def test_updates_leave_the_arguments_alone(framework: str, launches: list[str]) -> None:
    operator = kc.op(grow, outputs=["total"], in_out=["x"], output_dims=1)
    values = MAKERS[framework](VALUES)
    found = operator(values)
    assert plain(found.x).tolist() == [2.0, 4.0, 6.0]
    assert plain(found.total).tolist() == [12.0]
    assert plain(values).tolist() == [1.0, 2.0, 3.0]
    assert launches == ["grow"]


def test_structs_are_put_together(launches: list[str]) -> None:
    balls = {"place": VALUES.repeat(3).reshape(3, 3), "mass": VALUES}
    scene = {"scale": 2.0, "x": VALUES, "offset": np.array([0.0, 1.0], F)}
    for make in (torch.tensor, jnp.asarray):
        given = {name: make(value) for name, value in balls.items()}
        found = kc.op(heavier)(given, 2.0)
        assert plain(found["mass"]).tolist() == [2.0, 4.0, 6.0]
        assert plain(found["place"]).tolist() == [[3, 1, 2], [4, 2, 3], [5, 3, 4]]
        fields = {n: make(v) if isinstance(v, np.ndarray) else v for n, v in scene.items()}
        found = kc.op(of_scene, launch_dims=3, output_dims=3)(fields, (5.0, 6.0))
        assert plain(found).tolist() == [8.0, 10.0, 12.0]
    assert launches == ["heavier", "of_scene"] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_torch_operators_of_every_dtype_run_python(dtype: torch.dtype, launches: list[str]) -> None:
    found = torch_op(any_type, outputs=["y"])(torch.tensor([1.0, 2.0]).to(dtype))
    assert found.dtype == dtype
    assert found.tolist() == [3.0, 6.0]
    assert launches == ["any_type"]


def test_bfloat16_of_jax_runs_python(launches: list[str]) -> None:
    (found,) = jax_kernel(any_type)(jnp.asarray([1.0, 2.0], ml_dtypes.bfloat16))
    assert found.dtype == ml_dtypes.bfloat16
    assert launches == ["any_type"]


def test_gradients_run_python_first(launches: list[str]) -> None:
    x = torch.tensor(VALUES, requires_grad=True)
    torch_op(square)(x).sum().backward()
    assert isinstance(x.grad, torch.Tensor)
    assert x.grad.tolist() == [2.0, 4.0, 6.0]
    found = jax.grad(lambda a: jax_kernel(square)(a)[0].sum())(jnp.asarray(VALUES))
    assert found.tolist() == [2.0, 4.0, 6.0]
    tensor = paddle.to_tensor(VALUES, stop_gradient=False)
    paddle_op(square)(tensor).sum().backward()
    assert np.asarray(tensor.grad).tolist() == [2.0, 4.0, 6.0]
    assert launches == ["square"] * 3


def test_an_output_that_is_given_is_written(launches: list[str]) -> None:
    out = torch.zeros(3)
    torch_op(square)(torch.tensor(VALUES), out=out)
    assert out.tolist() == [1.0, 4.0, 9.0]
    assert launches == ["square"]


def test_wrong_arguments_are_refused_in_python_too() -> None:
    for make in MAKERS.values():
        with pytest.raises(kc.KernelArgumentError, match="argument 'x'"):
            kc.op(kc.Kernel(square.pyfunc))(make(VALUES.astype(np.int32)))


def twice(x: Floats, y: Floats) -> None:
    z = kc.empty(x.shape, dtype=float)
    kc.launch(square, x.shape, [x], [z])
    kc.launch(square, x.shape, [z], [y])


def test_what_runs_compiled_code_says_so() -> None:
    tensor, array = torch.tensor(VALUES), jnp.asarray(VALUES)
    operator, function = torch_op(kc.Kernel(square.pyfunc)), jax_kernel(kc.Kernel(square.pyfunc))
    with pytest.warns(UserWarning, match="a graph of torch runs compiled code: call it outside"):
        torch.compile(operator, fullgraph=True, backend="aot_eager")(tensor)
    with pytest.warns(UserWarning, match="a transform of torch runs compiled code"):
        torch.vmap(operator)(tensor[None])
    with pytest.warns(UserWarning, match=r"jax.jit runs compiled code: call it under jax.disable"):
        jax.jit(function)(array)
    with pytest.warns(UserWarning, match="jax.vmap runs compiled code: call it on one instance"):
        jax.vmap(function)(array[None])
    for call, given in ((torch_callable(twice), tensor), (jax_callable(twice), array)):
        with pytest.warns(UserWarning, match="a function of several kernels runs compiled code"):
            call(given)


def test_without_jit_jax_runs_python(launches: list[str]) -> None:
    with jax.disable_jit():
        jax.jit(jax_kernel(square))(jnp.asarray(VALUES))
    assert launches == ["square"]


def test_launches_of_a_tape_run_in_python_first(launches: list[str]) -> None:
    x = kc.array([0.0, 3.0], dtype=float, requires_grad=True)
    with kc.Tape() as tape:
        y = kc.zeros(2, dtype=float, requires_grad=True)
        kc.launch(square, 2, [x], [y])
    assert y.grad is not None
    y.grad.fill_(1.0)
    tape.backward()
    assert np.asarray(x.grad).tolist() == [0.0, 6.0]
    assert launches == ["square"]
    with kc.Tape(), pytest.raises(kc.KernelRaceError, match="thread 1 writes"):
        kc.launch(races, 2, [x], [y])


@kc.kernel
def shifted(x: kc.array[kc.bfloat16], a: kc.bfloat16, y: kc.array[kc.bfloat16]):
    i = kc.tid()
    y[i] = x[i] + a


def test_numbers_are_tensors_without_dimensions(launches: list[str]) -> None:
    x = torch.ones(3, dtype=torch.bfloat16)
    found = torch_op(shifted)(x, torch.tensor(0.5, dtype=torch.bfloat16))
    assert found.tolist() == [1.5] * 3
    assert launches == ["shifted"]


@pytest.mark.usefixtures("launches")
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_tangents_of_forward_mode_are_those_of_compiled_code() -> None:
    x = torch.tensor(VALUES)
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(torch_op(square)(forward_ad.make_dual(x, x))).tangent
    assert found is not None
    assert found.tolist() == [2.0, 8.0, 18.0]
