"""Shapes that an operator has by default are those of a launch that computes everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from jax_ffi import GraphMode, jax_callable, jax_kernel
from kernelcore.operators import kernel_operation
from paddle_ext import paddle_op
from torch_ext import torch_callable, torch_op

Floats = kc.array(dtype=float)
Indices = kc.array(dtype=int)


@kc.kernel
def total(x: Floats, y: Floats):
    i = kc.tid()
    kc.atomic_add(y, 0, x[i])


@kc.kernel
def placed(x: Floats, index: Indices, y: Floats):
    i = kc.tid()
    y[index[i]] = x[i]


@kc.kernel
def shifted(x: Floats, y: Floats):
    i = kc.tid()
    y[i + 1] = x[i]


@kc.kernel
def turned(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[j, i] = x[i, j]


@kc.kernel
def filled(x: Floats, y: Floats):
    for i in range(x.shape[0]):
        y[i] = x[i]


@kc.kernel
def spread(x: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i]
    kc.atomic_add(y, 0, x[i])


@kc.kernel
def kept(x: Floats, y: Floats):
    i = kc.tid()
    place = i
    if x[i] > 0.5:
        y[place] = x[i]
    else:
        kc.atomic_add(y, i, -x[i])


@kc.kernel
def residuals(camera: Floats, found: Floats, index: Indices, r: Floats):
    i = kc.tid()
    if found[i] >= 0.0:
        r[i] = found[i] - camera[index[i]]


@kc.kernel
def slopes(x: Floats, t: Floats, y: Floats):
    i = kc.tid()
    y[i] = x[i] * (t[i + 1] - t[i])


ADAPTERS: dict[str, Callable[..., Any]] = {
    "operation": kernel_operation,
    "torch": torch_op,
    "jax": lambda kernel, **given: jax_kernel(kernel, **given)(jnp.ones(3)),
    "paddle": paddle_op,
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_adapter_asks_for_the_shape_of_a_sum(adapter: str) -> None:
    with pytest.raises(kc.KernelArgumentError) as caught:
        ADAPTERS[adapter](total)
    text = str(caught.value)
    for part in ("total: output 'y'", "another index", "kc.atomic_add(y, 0, x[i])", "output_dims="):
        assert part in text
    ADAPTERS[adapter](total, output_dims=1)


@pytest.mark.parametrize("kernel", [placed, shifted, turned, filled, spread], ids=lambda k: k.name)
def test_a_write_elsewhere_than_at_the_launch_index_needs_a_shape(kernel: kc.Kernel) -> None:
    with pytest.raises(kc.KernelArgumentError, match="give its shape, for example output_dims="):
        kernel_operation(kernel)
    kernel_operation(kernel, output_dims="x")


def test_writes_at_the_launch_index_keep_the_shape_of_the_launch() -> None:
    out = torch_op(kept)(torch.tensor([0.25, 0.75]))
    assert out.tolist() == [-0.25, 0.75]


def _torch(*shapes: int) -> Any:
    camera, found = (torch.ones(n) for n in shapes[:2])
    return torch_op(residuals)(camera, found, torch.zeros(shapes[2], dtype=torch.int32))


def _jax(*shapes: int) -> Any:
    camera, found = (jnp.ones(n) for n in shapes[:2])
    return jax_kernel(residuals)(camera, found, jnp.zeros(shapes[2], jnp.int32))[0]


def _paddle(*shapes: int) -> Any:
    camera, found = (paddle.ones([n], "float32") for n in shapes[:2])
    return paddle_op(residuals)(camera, found, paddle.zeros([shapes[2]], "int32"))


@pytest.mark.parametrize("call", [_torch, _jax, _paddle])
def test_a_launch_over_a_smaller_first_array_is_refused(call: Callable[..., Any]) -> None:
    assert tuple(call(3, 3, 3).shape) == (3,)
    with pytest.raises(kc.KernelArgumentError) as caught:
        call(2, 5, 5)
    text = str(caught.value)
    parts = ("'found'", "at most 2 elements", "axis 0", "found 5", "launch_dims='found'")
    for part in parts:
        assert part in text


def test_batches_and_compiled_graphs_refuse_it_too() -> None:
    call = torch_op(residuals)
    index = torch.zeros(2, 5, dtype=torch.int32)
    given = torch.ones(2, 2), torch.ones(2, 5), index
    with pytest.raises(kc.KernelArgumentError, match="at most 2 elements on axis 1"):
        torch.vmap(call)(*given)
    compiled = torch.compile(call, backend="eager", fullgraph=True)
    with pytest.raises(kc.KernelArgumentError, match="at most 2 elements on axis 0"):
        compiled(*(x[0] for x in given))


def test_a_named_launch_shape_is_not_compared() -> None:
    found = torch.arange(5.0)
    index = torch.zeros(5, dtype=torch.int32)
    call = torch_op(residuals, launch_dims="found")
    assert call(torch.ones(2), found, index).tolist() == [-1.0, 0.0, 1.0, 2.0, 3.0]
    first = torch_op(residuals, launch_dims="camera")
    assert first(torch.ones(2), found, index).tolist() == [-1.0, 0.0]


def test_an_array_of_neighbours_may_be_larger() -> None:
    x, t = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0, 4.0])
    found = torch_op(slopes)(x, t)
    assert found.tolist() == [1.0, 6.0]


def sums(x: Floats, y: Floats):
    kc.launch(total, x.shape, [x], [y])


def fills_and_sums(x: Floats, y: Floats):
    y.fill_(0.0)
    kc.launch(total, x.shape, [x], [y])


def picks(x: Floats, index: Indices, y: Floats):
    kc.launch(picked, index.shape, [x, index], [y])


def halves(x: Floats, y: Floats):
    kc.launch(kept, x.shape[0] // 2, [x], [y])


def chains(x: Floats, y: Floats):
    t = kc.zeros(1, float)
    kc.launch(total, x.shape, [x], [t])
    kc.launch(kept, len(x), [x], [y])
    kc.launch(kept, y.shape, [x], [y])


@kc.kernel
def picked(x: Floats, index: Indices, y: Floats):
    i = kc.tid()
    y[i] = x[index[i]]


def _on_torch(function: Any, given: Any, dims: Any) -> Any:
    return torch_callable(function, output_dims=dims)(*(torch.tensor(a) for a in given))


def _on_jax(function: Any, given: Any, dims: Any) -> Any:
    return jax_callable(function, output_dims=dims)(*given)[0]


def _hosted(function: Any, given: Any, dims: Any) -> Any:
    return jax_callable(function, output_dims=dims, graph_mode=GraphMode.NONE)(*given)[0]


def _on_numpy(function: Any, given: Any, dims: Any) -> Any:
    return kc.op(function, output_dims=dims)(*given)


def _on_arrays(function: Any, given: Any, dims: Any) -> Any:
    op: Any = kc.op(function, output_dims=dims)
    return op(*(kc.array(a) for a in given)).numpy()


def _on_tape(function: Any, given: Any, dims: Any) -> Any:
    with kc.Tape():
        return _on_arrays(function, given, dims)


WAYS = [_on_torch, _on_jax, _hosted, _on_numpy, _on_arrays, _on_tape]
X, INDEX = np.arange(4, dtype=np.float32), np.array([1, 0, 3], np.int32)


@pytest.mark.parametrize("call", WAYS)
def test_a_function_of_launches_asks_for_the_shapes_of_its_outputs(call: Any) -> None:
    for function, given, dims, want in (
        (sums, [X], 1, [6.0]),
        (fills_and_sums, [X], 1, [6.0]),
        (picks, [X, INDEX], "index", [1.0, 0.0, 3.0]),
        (halves, [X], 2, [0.0, 1.0]),
    ):
        is_placed = function in (sums, fills_and_sums)
        text = "output 'y' is written here at another" if is_placed else "expected at most"
        with pytest.raises(Exception, match=text) as caught:  # JAX wraps errors of host calls.
            np.asarray(call(function, given, None))
        assert "output_dims" in str(caught.value)
        assert np.asarray(call(function, given, dims)).tolist() == want
    assert np.asarray(call(chains, [X], None)).tolist() == X.tolist()


def test_batches_of_a_function_compare_its_outputs_alone() -> None:
    def shorter(x: Floats, z: Floats, y: Floats):
        kc.launch(residuals, 2, [x, z, kc.zeros(2, int)], [y])

    x, z = torch.ones(3, 2), torch.ones(3, 5)
    assert torch.vmap(torch_callable(shorter))(x, z).tolist() == [[0.0, 0.0]] * 3
    with pytest.raises(kc.KernelArgumentError, match="at most 2 elements on axis 1"):
        torch.vmap(torch_callable(shorter))(z, z)


@kc.struct
class Ball:
    centre: kc.vec2
    weight: float


@kc.op(launch_dims="balls", output_dims=("balls.shape[0]", 2))
@kc.kernel
def corners(scale: Floats, balls: kc.array(dtype=Ball), found: kc.array2d(dtype=float)):
    i = kc.tid()
    found[i, 0] = scale[0] * balls[i].centre.x
    found[i, 1] = balls[i].weight


def test_shapes_name_arrays_of_structs() -> None:
    centre, weight = torch.rand(3, 2), torch.rand(3)
    found = corners(torch.tensor([2.0]), {"centre": centre, "weight": weight})
    assert torch.equal(found, torch.stack([2.0 * centre[:, 0], weight], 1))


@kc.kernel
def gathered(index: Indices, x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = x[index[i], j]


@kc.kernel
def constant(h: int, w: int, y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = 1.0


@pytest.mark.parametrize(
    ("kernel", "dims", "example"),
    [
        (gathered, None, "launch_dims='x'"),
        (constant, "h", r"launch_dims=\('h', 'w'\)"),
        (turned, 1, "launch_dims='x'"),
        (total, (1, 1), "launch_dims='x'"),
    ],
    ids=str,
)
def test_a_launch_shape_of_another_rank_is_refused_with_one_that_fits(
    kernel: kc.Kernel, dims: Any, example: str
) -> None:
    with pytest.raises(kc.KernelArgumentError, match=f"give launch_dims, for example {example}"):
        kernel_operation(kernel, launch_dims=dims)


@pytest.mark.parametrize("extent", [3.0, "h"])
def test_extents_are_integers(extent: Any) -> None:
    with pytest.raises(kc.KernelArgumentError, match="'h': expected an extent of a shape"):
        kc.op(constant, launch_dims=("h", "w"))(extent, 2)


def test_a_store_in_a_branch_that_is_never_taken_does_not_count() -> None:
    is_on = False

    @kc.kernel
    def copied(x: kc.array[float], y: kc.array[float], z: kc.array[float]):
        i = kc.tid()
        y[i] = x[i]
        if is_on:
            z[i] = x[i]

    op = kc.op(outputs=("y", "z"))(copied)
    with pytest.raises(kc.KernelArgumentError, match="not in a branch that is never taken"):
        op(np.ones(3, np.float32))
