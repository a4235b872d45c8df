"""Ctrl-C ends a launch: in endless loops, between chunks, in a Tape's backward."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import kernelcore as kc
from torch_ext import torch_op

COUNT = 100_000
# Launches that nothing ends would take longer by far.
PROMPT_SECONDS = 2.0


@kc.kernel
def endless(x: kc.array(dtype=float)):
    i = kc.tid()
    v = x[i]
    while v > -1.0:
        v = v * 0.5 + 0.25
    x[i] = v


@kc.kernel
def endless_sum(x: kc.array(dtype=float), total: kc.array(dtype=float)):
    i = kc.tid()
    v = x[i]
    while v > -1.0:
        v = v * 0.5 + 0.25
    kc.atomic_add(total, i % 7, v)


@kc.func
def repeated_sine(v: float, n: int):
    for _ in range(n):
        v = kc.sin(v) + 1.0
    return v


@kc.kernel
def repeated_sum(x: kc.array(dtype=float), n: int, y: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(y, i % 7, repeated_sine(x[i], n))


@kc.kernel
def repeated(x: kc.array(dtype=float), n: int, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = repeated_sine(x[i], n)


def _interrupt_soon(delay: float) -> threading.Timer:
    """Send SIGINT to this process after ``delay`` seconds, as a terminal does at Ctrl-C."""
    timer = threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def _assert_interrupted(function: Callable[[], object], delay: float = 0.1) -> None:
    start = time.monotonic()
    timer = _interrupt_soon(delay)
    try:
        with pytest.raises(KeyboardInterrupt):
            function()
    finally:
        timer.cancel()
    elapsed = time.monotonic() - start
    assert delay <= elapsed < delay + PROMPT_SECONDS


@pytest.fixture(autouse=True)
def python_handler():
    """Python's own handler of SIGINT, whatever has been set."""
    saved = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, saved)


def test_a_signal_that_another_thread_gets_interrupts_once():
    x = np.zeros(COUNT, np.float32)
    timer = threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        kc.launch(endless, COUNT, [x])
    timer.join()
    time.sleep(0.01)  # a second interrupt would be raised here
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("count", [1, 1000, COUNT])
@pytest.mark.parametrize("threads", [1, 2])
def test_endless_loops_end_and_write_nothing(count, threads):
    x, total = np.zeros(count, np.float32), np.zeros(7, np.float32)
    saved = kc.num_threads()
    kc.set_num_threads(threads)
    try:
        _assert_interrupted(lambda: kc.launch(endless, count, [x]))
        _assert_interrupted(lambda: kc.launch(endless_sum, count, [x], [total]))
    finally:
        kc.set_num_threads(saved)
    assert not x.any()
    assert not total.any()


@pytest.mark.parametrize("kernel", [repeated, repeated_sum])
def test_a_long_launch_ends_whatever_the_last_one_of_as_many_points_took(kernel):
    x, y = np.ones(COUNT, np.float32), np.zeros(COUNT, np.float32)
    saved = kc.num_threads()
    kc.set_num_threads(2)
    try:
        for _ in range(2):
            kc.launch(kernel, COUNT, [x, 20], [y])
        y[:] = 0.0
        _assert_interrupted(lambda: kc.launch(kernel, COUNT, [x, 300_000], [y]))
    finally:
        kc.set_num_threads(saved)
    assert not y.all()


def test_chunks_that_have_run_are_written_and_the_next_launch_is_whole():
    x, y = np.ones(COUNT, np.float32), np.zeros(COUNT, np.float32)
    kc.launch(repeated, 1, [x, 1], [y])
    y[:] = 0.0
    _assert_interrupted(lambda: kc.launch(repeated, COUNT, [x, 30_000], [y]))
    assert y.any()
    assert not y.all()
    kc.launch(repeated, COUNT, [x, 1], [y])
    np.testing.assert_array_equal(y, y[0])
    assert y.all()


def test_writes_of_a_run_that_a_pending_interrupt_ends_are_counted():
    x, y = kc.ones(COUNT, dtype=float), kc.zeros(COUNT, dtype=float)
    kc.launch(repeated, 1, [x, 1], [y])
    version = y.version
    saved = kc.num_threads()
    kc.set_num_threads(1)
    # Python's handler alone notes the signal, while the first chunk runs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _assert_interrupted(lambda: kc.launch(repeated, COUNT, [x, 200_000], [y]), 0.05)
    finally:
        kc.set_num_threads(saved)
    assert y.numpy()[0] != 0.0
    assert y.version > version


def test_backward_of_a_tape_and_of_torch_end():
    x = kc.array(np.ones(COUNT, np.float32), requires_grad=True)
    y = kc.zeros(COUNT, dtype=float, requires_grad=True)

    def recorded(iterations: int) -> kc.Tape:
        with kc.Tape() as tape:
            for _ in range(100):
                kc.launch(repeated, COUNT, [x, iterations], [y])
        y.grad = kc.ones(COUNT, dtype=float)
        return tape

    # Compiling ends at no signal, so what follows finds the code of these.
    recorded(1).backward()
    _assert_interrupted(recorded(100).backward)
    operator = torch_op(repeated)
    import torch

    tensor = torch.ones(COUNT, requires_grad=True)
    operator(tensor, 1)
    _assert_interrupted(lambda: operator(tensor, 30_000))


def test_a_handler_of_the_program_runs_after_the_launch():
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    x, y = np.ones(COUNT, np.float32), np.zeros(COUNT, np.float32)
    timer = _interrupt_soon(0.05)
    while not seen:
        y[:] = 0.0
        kc.launch(repeated, COUNT, [x, 100], [y])
        assert y.all()
    timer.join()


def test_a_handler_that_is_set_again_as_jupyter_does_is_found():
    for _ in range(2):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        time.sleep(0.002)
        _assert_interrupted(lambda: kc.launch(endless, 1, [np.zeros(1, np.float32)]))


PROGRAM = """
import sys
import numpy as np
import kernelcore as kc

@kc.kernel
def endless(x: kc.array(dtype=float)):
    i = kc.tid()
    while x[0] > -1.0:
        x[i] = x[i] * 0.5

print("ready", flush=True)
kc.launch(endless, 1, [np.zeros(1, np.float32)])
"""


def test_an_interrupted_script_ends_as_python_does(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, path], stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")
