"""Kernels and functions are pickled by name, or by their source and the values they capture."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from jax_ffi import jax_callable, jax_kernel
from paddle_ext import paddle_op
from tests.helpers.environment import ROOT
from torch_ext import torch_callable, torch_op

floats = kc.array(dtype=float)


@kc.func
def square(x: float):
    return x * x


@kc.func_native("return x + 1.0f;")
def successor(x: float) -> float: ...


@kc.kernel
def squares(x: floats, y: floats):
    i = kc.tid()
    y[i] = square(x[i])


@torch_op
@kc.kernel
def operator(x: floats, y: floats):
    i = kc.tid()
    y[i] = square(x[i])


def launch_squares(x: floats, y: floats):
    kc.launch(squares, x.shape, [x], [y])


@torch_callable
def launching(x: floats, y: floats):
    kc.launch(squares, x.shape, [x], [y])


@kc.kernel
def squares_of_any(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
    i = kc.tid()
    y[i] = x[i] * x[i]


def launched(x: floats, y: floats):
    kc.launch(squares, x.shape, [x], [y])


hosted = jax_kernel(squares)
# Operators that their modules have under other names than those of the kernels.
OPERATORS: dict[str, Callable[..., Any]] = {
    "kernel": torch_op(squares),
    "options": torch_op(squares, outputs=["y"], launch_dims="x", output_dims={"y": "x"}),
    "generic": torch_op(squares_of_any, outputs=["y"]),
    "callable": torch_callable(launched),
    "named": torch_op(squares, "pickled_squares"),
}
NAMED = {
    "kernel": squares,
    "func": square,
    "native": successor,
    "torch": operator,
    "callable": launching,
    "launch": kc.launch,
}


@pytest.mark.parametrize("name", NAMED)
def test_what_has_a_name_is_pickled_by_it(name: str) -> None:
    assert pickle.loads(pickle.dumps(NAMED[name])) is NAMED[name]


@pytest.mark.parametrize("name", [*NAMED, "jax"])
def test_a_copy_is_the_thing_itself(name: str) -> None:
    found = {**NAMED, "jax": hosted}[name]
    assert copy.deepcopy(found) is found
    assert copy.copy(found) is found
    assert copy.deepcopy({"held": [found]})["held"][0] is found


def run(kernel: kc.Kernel) -> list[float]:
    y = np.zeros(3, np.float32)
    kc.launch(kernel, 3, [np.array([1, 2, 3], np.float32)], [y])
    return y.tolist()


def made(factor: float, *, native: bool = False) -> kc.Kernel:
    @kc.func
    def scaled(x: float):
        return factor * x

    if native:

        @kc.kernel
        def local(x: floats, y: floats):
            i = kc.tid()
            y[i] = successor(x[i])

        return local

    @kc.kernel
    def local(x: floats, y: kc.array(dtype=kc.float32)):
        i = kc.tid()
        y[i] = scaled(x[i]) + square(1.0)

    return local


# Runs a pickle where nothing but the pickle is known.
ELSEWHERE = """
import pickle, sys, numpy as np, kernelcore as kc
kernel = pickle.load(sys.stdin.buffer)
y = np.zeros(3, np.float32)
kc.launch(kernel, 3, [np.array([1, 2, 3], np.float32)], [y])
print(y.tolist())
"""


def test_what_has_no_name_is_pickled_by_its_source() -> None:
    kernel = made(3.0)
    again = pickle.loads(pickle.dumps(kernel))
    assert again is not kernel
    assert run(again) == run(kernel) == [4.0, 7.0, 10.0]
    assert run(pickle.loads(pickle.dumps(again))) == [4.0, 7.0, 10.0]
    assert run(pickle.loads(pickle.dumps(made(5.0)))) == [6.0, 11.0, 16.0]
    assert run(pickle.loads(pickle.dumps(made(5.0, native=True)))) == [2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_pickled_with_their_kernel(name: str) -> None:
    op = OPERATORS[name]
    assert copy.deepcopy(op) is op
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    again = pickle.loads(pickle.dumps(op))
    assert again is not op
    assert signature(again) == signature(op)
    for found in (again, torch.compile(again, fullgraph=True, backend="eager")):
        y = found(x)
        assert y.tolist() == [1.0, 4.0, 9.0]
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.tolist() == [2.0, 4.0, 6.0]


def test_operators_of_local_kernels_are_pickled_by_source() -> None:
    x = torch.tensor([1.0, 2.0, 3.0])
    again = pickle.loads(pickle.dumps(torch_op(made(3.0))))
    assert again(x).tolist() == [4.0, 7.0, 10.0]


@paddle_op
@kc.kernel
def for_paddle(x: floats, y: floats):
    i = kc.tid()
    y[i] = square(x[i])


MAIN = """
import pickle, sys
import kernelcore as kc
from torch_ext import torch_op

SCALE = 3.0

@kc.func
def scaled(a: float):
    return SCALE * a

@kc.kernel
def kernel(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = scaled(x[i])

@kc.op
@kc.kernel
def own(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = scaled(x[i])

@torch_op
@kc.kernel
def op(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = scaled(x[i])

made = kc, scaled, kernel, own, op
assert all(a is b for a, b in zip(made, pickle.loads(pickle.dumps(made))))
sys.stdout.buffer.write(pickle.dumps(made))
"""
# It has another function of one of the names.
ELSEWHERE_TOO = """
import pickle, sys, torch

def scaled(a):
    return 0.0

kc, function, kernel, own, op = pickle.load(sys.stdin.buffer)
x, y = torch.ones(2), torch.zeros(2)
kc.launch(kernel, 2, [x], [y])
print(function(1.0), [f(x).tolist() for f in (own, op)], y.tolist())
"""


def test_what_a_main_program_defines_is_known_to_another(tmp_path: Path) -> None:
    """As notebooks send it to workers, with cloudpickle for what is plain Python."""
    (tmp_path / "main.py").write_text(MAIN)  # The text of what is defined has to be in a file.
    command = [sys.executable, "-W", "ignore"]
    written = subprocess.run(
        [*command, str(tmp_path / "main.py")],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    ran = subprocess.run(
        [*command, "-c", ELSEWHERE_TOO],
        input=written.stdout,
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert ran.stdout.decode().split("\n")[-2] == f"3.0 {[[3.0, 3.0]] * 2} [3.0, 3.0]"


SPAWNED = """
import pickle, sys, paddle
op = pickle.load(sys.stdin.buffer)
x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
y = op(x)
y.sum().backward()
print(y.tolist(), x.grad.tolist())
"""


def test_operators_of_paddle_are_pickled_with_their_kernel() -> None:
    unnamed = paddle_op(made(3.0), launch_dims="x")
    for op, expected in ((for_paddle, [1.0, 4.0, 9.0]), (unnamed, [4.0, 7.0, 10.0])):
        assert copy.deepcopy(op) is op
        again = pickle.loads(pickle.dumps(op))
        assert signature(again) == signature(op)
        assert again(paddle.to_tensor([1.0, 2.0, 3.0])).tolist() == expected
    assert pickle.loads(pickle.dumps(for_paddle)) is for_paddle
    given = pickle.dumps(unnamed)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SPAWNED],
        input=given,
        capture_output=True,
        check=True,
    )
    assert ran.stdout.decode().splitlines()[-1] == "[4.0, 7.0, 10.0] [3.0, 3.0, 3.0]"


def test_updating_operators_are_pickled() -> None:
    x, y = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    op = torch_op(squares, in_out=["y"], mutates=["y"])
    assert pickle.loads(pickle.dumps(op))(x, y) is None
    assert y.tolist() == [1.0, 4.0, 9.0]


def test_operators_of_one_code_do_not_share_a_limit_of_compilations() -> None:
    ops = [torch_op(made(float(k))) for k in range(12)]
    x = torch.ones(2)
    found = [torch.compile(op, fullgraph=True, backend="eager")(x).tolist() for op in ops]
    assert found == [[k + 1.0] * 2 for k in range(12)]


def test_functions_for_jax_are_pickled_with_their_kernel() -> None:
    x = np.array([1, 2, 3], np.float32)
    for kernel, expected in ((squares, [1.0, 4.0, 9.0]), (made(3.0), [4.0, 7.0, 10.0])):
        (found,) = pickle.loads(pickle.dumps(jax_kernel(kernel)))(x)
        assert found.tolist() == expected


def test_functions_of_launches_for_jax_are_pickled_after_a_call() -> None:
    x = np.array([1, 2, 3], np.float32)
    function = jax_callable(launch_squares)
    assert function(x)[0].tolist() == [1.0, 4.0, 9.0]
    again = pickle.loads(pickle.dumps(function))
    assert again == function
    assert again(x)[0].tolist() == [1.0, 4.0, 9.0]
    assert copy.deepcopy(function) is function


def test_another_process_runs_a_kernel_without_a_name() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=pickle.dumps(made(3.0)),
        capture_output=True,
        cwd=root,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"[4.0, 7.0, 10.0]\n"


def test_errors_of_a_pickled_kernel_show_its_lines() -> None:
    @kc.kernel
    def wrong(x: floats):
        x[kc.tid()] = square("text")  # pyright: ignore

    again = pickle.loads(pickle.dumps(wrong))
    with pytest.raises(kc.KernelError, match=r'square\("text"\)'):
        kc.launch(again, 1, [np.zeros(1, np.float32)])


def test_spawned_processes_take_kernels() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        assert pool.map(run, [squares, made(3.0)]) == [[1.0, 4.0, 9.0], [4.0, 7.0, 10.0]]


class Holder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.kernel = squares
        self.local = made(3.0)
        self.operator = OPERATORS["options"]

    def forward(self, x: torch.Tensor) -> Any:
        return self.operator(x * self.weight)


def test_modules_that_hold_kernels_are_saved_and_copied(tmp_path: Path) -> None:
    module = Holder()
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    for found in (loaded, copy.deepcopy(module)):
        assert found.kernel is squares
        assert run(found.local) == [4.0, 7.0, 10.0]
        assert found(torch.arange(3.0)).tolist() == [0.0, 1.0, 4.0]


class Items(torch.utils.data.Dataset[Any]):
    def __init__(self) -> None:
        self.operator = OPERATORS["kernel"]
        self.kernel = squares

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        assert self.operator(torch.full((2,), 3.0)).tolist() == [9.0, 9.0]
        return torch.tensor(run(self.kernel))


def test_spawned_workers_of_a_loader_take_kernels() -> None:
    loader = torch.utils.data.DataLoader(
        Items(), batch_size=2, num_workers=1, multiprocessing_context="spawn"
    )
    assert [batch.tolist() for batch in loader] == [[[1.0, 4.0, 9.0]] * 2]
