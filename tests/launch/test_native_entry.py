"""launch is native code before a function: both take the same arguments, and mean the same."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest
import torch

import kernelcore as kc
from tests.helpers.environment import ROOT

# By parameter: what a launch that is like any other may be given.
PLAIN: dict[str, Any] = {
    "adj_inputs": None,
    "adj_outputs": None,
    "device": None,
    "stream": None,
    "adjoint": False,
    "record_tape": False,
    "record_cmd": False,
    "max_blocks": 3,
    "block_dim": 64,
}
# And what makes it another one, or is refused.
SPECIAL: dict[str, Any] = {
    "adj_inputs": [],
    "adj_outputs": [],
    "device": "nowhere",
    "stream": 5,
    "adjoint": True,
    "record_cmd": True,
    "max_blocks": -1,
    "block_dim": "many",
}


@kc.kernel
def scaled(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


def launched(launch: Callable[[np.ndarray, np.ndarray], object]) -> np.ndarray:
    """What ``launch`` makes of 1, 2, 3, by the function the first time, by native code then."""
    x, y = np.arange(1, 4, dtype=np.float32), np.zeros(3, np.float32)
    kc.launch(scaled, 3, [x, 0.0], [y])
    assert launch(x, y) is None
    return y


@pytest.mark.parametrize(
    "launch",
    [
        lambda x, y: kc.launch(scaled, 3, [x, 2.0, y]),
        lambda x, y: kc.launch(scaled, 3, (x, 2.0), (y,)),
        lambda x, y: kc.launch(scaled, (3,), outputs=[x, 2.0, y]),
        lambda x, y: kc.launch(scaled, dim=3, inputs=[x], outputs=[2.0, y]),
        lambda x, y: kc.launch(outputs=[y], inputs=[x, 2.0], dim=[3], kernel=scaled),
        lambda x, y: kc.launch(scaled, 3, [x, 2.0], [y], *PLAIN.values()),
        lambda x, y: kc.launch(scaled, 3, [x, 2.0], [y], **PLAIN),
        lambda x, y: kc.launch(scaled, 3, [x, 2.0], [y], device="cpu"),
        lambda x, y: kc.launch(scaled, 3, [x, 2.0], [y], device=kc.get_device("cpu")),
        lambda x, y: kc.launch(scaled, 3, cast(Any, iter([x, 2.0])), cast(Any, {0: y}.values())),
    ],
)
def test_arguments_may_be_given_in_every_way(
    launch: Callable[[np.ndarray, np.ndarray], object],
) -> None:
    assert launched(launch).tolist() == [2, 4, 6]


def outcome(*given: Any, **options: Any) -> str:
    """What a launch gives, or raises, and what it leaves in its output."""
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    try:
        return f"{type(kc.launch(scaled, 3, [x, 2.0], [y], *given, **options))}: {y}"
    except (kc.KernelError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("name", SPECIAL)
def test_options_mean_the_same_by_position_and_by_name(name: str) -> None:
    launched(lambda x, y: None)
    before = list(PLAIN.values())[: list(PLAIN).index(name)]
    by_name = outcome(**{name: SPECIAL[name]})
    assert outcome(*before, SPECIAL[name]) == by_name
    assert by_name != outcome()


class Doubled(list[Any]):
    """A list that gives twice what it holds."""

    def __iter__(self) -> Iterator[Any]:
        return (2 * item for item in super().__iter__())


def test_sequences_of_other_classes_are_read_as_they_want() -> None:
    def launch(x: np.ndarray, y: np.ndarray) -> object:
        return kc.launch(scaled, 3, Doubled([x, 2.0]), [y])

    assert launched(launch).tolist() == [8, 16, 24]


def test_a_grid_is_needed_in_every_launch() -> None:
    kernel, x = kc.Kernel(scaled.pyfunc), np.ones(3, np.float32)
    for _ in range(2):
        with pytest.raises(kc.KernelArgumentError, match="expected an int or a tuple of ints"):
            kc.launch(kernel, cast(Any, None), [x, 2.0, x])
        kc.launch(kernel, 3, [x, 2.0, x])


@kc.kernel
def scaled_any(x: kc.array[Any], a: Any, y: kc.array[Any]):
    i = kc.tid()
    y[i] = a * x[i]


def test_a_grid_that_was_forgotten_is_asked_for() -> None:
    x = np.ones(3, np.float32)
    for inputs, outputs in (([x, 2.0, x], []), ([x, 2.0], [x]), ((x, 2.0, x), ())):
        with pytest.raises(kc.KernelArgumentError, match="found ndarray") as caught:
            kc.launch(scaled, cast(Any, inputs), outputs)
        assert "pass the launch shape before the arguments" in str(caught.value)
    for kernel in (scaled, scaled_any):
        with pytest.raises(kc.KernelError) as refused, kc.Tape():
            kc.launch(kernel, cast(Any, [x, 2.0, x]))
        assert "after the grid: kc.launch(scaled" in str(refused.value)


def test_launches_that_name_the_cpu_stay_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, x = kc.Kernel(scaled.pyfunc), np.ones(3, np.float32)
    kc.launch(kernel, 3, [x, 2.0, x], device="cpu")
    monkeypatch.setattr(sys.modules["kernelcore.launch.launch"], "options_of", None)
    kc.launch(kernel, 3, [x, 2.0, x])
    kc.launch(kernel, 3, [x, 2.0, x], device="cpu")
    kc.launch(kernel, 3, [x, 2.0, x], device=kc.get_device("cpu"))
    assert x.tolist() == [16, 16, 16]


def test_repeated_commands_follow_their_grid_and_arguments() -> None:
    x, y = np.arange(1, 4, dtype=np.float32), np.zeros(3, np.float32)
    command = kc.launch(scaled, 3, [x, 2.0], [y], record_cmd=True)
    assert command is not None
    found: list[list[float]] = []
    other = kc.Kernel(scaled.pyfunc)
    changes: list[Callable[[], object]] = [
        lambda: x.fill(5.0),
        lambda: command.set_param_by_name("a", 3.0),
        lambda: command.set_dim([2]),
        lambda: setattr(command, "dim", 1),
        lambda: setattr(command, "params", (y, 2.0, y)),
        lambda: setattr(command, "kernel", other),
    ]
    for change in changes:
        change()
        for _ in range(3):
            y.fill(1.0)
            command.launch()
        found.append(y.tolist())
    assert found == [[10] * 3, [15] * 3, [15, 15, 1], [15, 1, 1], [2, 1, 1], [2, 1, 1]]


def test_repeated_commands_read_values_and_foreign_arrays_each_time() -> None:
    x, y, a = torch.ones(2), torch.zeros(2), kc.full((), 2.0, dtype=float)
    command = kc.launch(scaled, 2, [x, a], [y], record_cmd=True)
    assert command is not None
    for _ in range(3):
        command.launch()
    a.fill_(3.0)
    x.data = torch.tensor([5.0, 7.0])
    command.launch()
    assert y.tolist() == [15, 21]


def test_repeated_commands_count_their_writes() -> None:
    x, y = kc.ones(2, dtype=float), kc.zeros(2, dtype=float)
    command = kc.launch(scaled, 2, [x, 2.0], [y], record_cmd=True)
    assert command is not None
    for _ in range(4):
        version = y.version
        command.launch()
        assert y.version > version


ENDING = """
import threading, time
import numpy as np
import kernelcore as kc
from tests.launch.test_native_entry import scaled

def launch(count, **options):
    x = np.ones(count, np.float32)
    kc.launch(scaled, count, [x, 2.0, x])
    begun.release()
    while True:
        kc.launch(scaled, count, [x, 2.0, x], **options)

begun = threading.Semaphore(0)
for count, options in ((300000, {}), (3, {"max_blocks": np.int64(1)})):
    threading.Thread(target=launch, args=(count,), kwargs=options, daemon=True).start()
    begun.acquire()
time.sleep(0.05)
"""


def test_threads_that_launch_do_not_hinder_the_end_of_a_program() -> None:
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_launch_that_is_recorded_is_not_run_past_its_tape() -> None:
    x = kc.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = kc.zeros(2, dtype=float, requires_grad=True)
    kc.launch(scaled, 2, [x, 0.0], [y])
    with kc.Tape() as tape:
        kc.launch(scaled, 2, [x, 3.0], [y])
        kc.launch(scaled, 2, [x, 3.0], [y], record_tape=False)
    tape.backward(grads={y: kc.array([1.0, 1.0], dtype=float)})
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [3, 3]


@pytest.mark.parametrize(
    ("given", "options", "problem"),
    [
        ([], {}, "missing 2 required positional arguments: 'kernel' and 'dim'"),
        ([scaled], {}, "missing 1 required positional argument: 'dim'"),
        ([scaled, 3], {"dim": 3}, "multiple values for argument 'dim'"),
        ([scaled, 3], {"size": 3}, "unknown argument 'size'"),
        ([scaled] * 14, {}, "takes from 2 to 13 positional arguments"),
        ([scaled, 3, 4], {}, "must be an iterable, not int"),
    ],
)
def test_other_calls_are_refused_as_those_of_a_function(
    given: list[Any], options: dict[str, Any], problem: str
) -> None:
    launched(lambda x, y: None)
    with pytest.raises(TypeError, match=problem):
        kc.launch(*given, **options)


def test_only_kernels_are_launched() -> None:
    with pytest.raises(kc.KernelArgumentError, match="expected a kernel"):
        kc.launch(print, 3)  # pyright: ignore[reportArgumentType]


def test_the_entry_looks_like_the_function() -> None:
    names = ["kernel", "dim", "inputs", "outputs", *PLAIN]
    assert list(inspect.signature(kc.launch).parameters) == names
    assert inspect.signature(kc.launch).parameters["record_tape"].default is True
    assert str(inspect.getdoc(kc.launch)).startswith("Run ``kernel`` once per point of the grid")
    assert pickle.loads(pickle.dumps(kc.launch)) is kc.launch
    assert repr(kc.launch) == "<function kernelcore.launch>"
    assert weakref.ref(kc.launch)() is kc.launch


def test_a_kernel_cannot_call_it() -> None:
    @kc.kernel
    def launching(x: kc.array(dtype=float)):
        kc.launch(x, 1)  # pyright: ignore[reportArgumentType]

    with pytest.raises(kc.KernelSyntaxError, match=r"cannot call 'kc\.launch', a function"):
        kc.launch(launching, 1, [np.ones(1, np.float32)])
