"""Captured launches are run by replays only, and do what the launches would do."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import kernelcore as kc
from tests.helpers.graph_kernels import add, count_down, squares


@kc.kernel
def scaled(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 3.0 * x[i]


def test_launches_run_when_they_are_replayed() -> None:
    x, y = kc.ones(4), kc.zeros(4)
    kc.capture_begin()
    assert kc.is_capturing()
    for _ in range(3):
        kc.launch(add, dim=4, inputs=[x, 2.0], outputs=[y])
    graph = kc.capture_end()
    assert len(graph) == 3
    assert y.list() == [0.0] * 4
    kc.capture_launch(graph)
    x.fill_(10.0)
    kc.capture_launch(graph)
    assert y.list() == [66.0] * 4


def test_captures_of_two_threads_are_apart() -> None:
    turn = threading.Barrier(2)
    x, arrays, graphs = kc.ones(4), [kc.zeros(4), kc.zeros(4)], {}

    def captured(index: int) -> None:
        # The second thread begins last; the first one ends first.
        for now in range(2):
            turn.wait(10)
            if now == index:
                kc.capture_begin()
        kc.launch(add, dim=4, inputs=[x, index + 1.0], outputs=[arrays[index]])
        for now in range(2):
            turn.wait(10)
            if now == index:
                graphs[index] = kc.capture_end()

    threads = [threading.Thread(target=captured, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, array in enumerate(arrays):
        assert len(graphs[index]) == 1
        kc.capture_launch(graphs[index])
        assert array.list() == [index + 1.0] * 4


def test_assignments_and_commands_are_captured() -> None:
    x, y, whole = kc.ones(4), kc.zeros(4), kc.zeros(4, dtype=int)
    command = kc.launch(add, dim=4, inputs=[x, 1.0], outputs=[y], record_cmd=True)
    assert command is not None
    with kc.ScopedCapture() as capture:
        y.zero_()
        command.launch()
        x[0] = 5.0
        kc.copy(y, x)
        y.assign(whole)
    assert (x[0], y[0]) == (1.0, 0.0)
    whole[2] = 7
    kc.capture_launch(capture.graph)
    assert x.list() == [5.0, 1.0, 1.0, 1.0]
    assert y.list() == [0.0, 0.0, 7.0, 0.0]


def test_foreign_arrays_stay_in_place() -> None:
    x, y = np.ones(4, np.float32), kc.zeros(4)
    with kc.ScopedCapture() as capture:
        kc.launch(add, dim=4, inputs=[x.copy(), 1.0], outputs=[y])
    version = y.version
    capture.graph.run()
    assert y.list() == [1.0] * 4
    assert y.version > version


def test_gradients_are_captured() -> None:
    x, loss = kc.ones(2, requires_grad=True), kc.zeros(1, requires_grad=True)
    middle = kc.zeros(2, requires_grad=True)
    with kc.ScopedCapture() as capture:
        tape = kc.Tape()
        with tape:
            loss.zero_()
            kc.launch(scaled, dim=2, inputs=[x], outputs=[middle])
            kc.launch(squares, dim=2, inputs=[middle], outputs=[loss])
        tape.zero()
        tape.backward(loss)
    for values in ([1.0, 2.0], [3.0, -4.0]):
        x.assign(values)
        kc.capture_launch(capture.graph)
        assert x.grad is not None
        assert x.grad.list() == [18.0 * v for v in values]
        assert loss.list() == [9.0 * sum(v * v for v in values)]


def test_a_tape_refuses_inputs_overwritten_in_a_capture() -> None:
    x, y = kc.ones(2, requires_grad=True), kc.zeros(2, requires_grad=True)
    with kc.ScopedCapture():
        tape = kc.Tape()
        with tape:
            kc.launch(squares, dim=2, inputs=[x], outputs=[y])
            x.fill_(2.0)
        with pytest.raises(kc.KernelGradError, match="has written to it since"):
            tape.backward()


@kc.kernel
def doubled_in_place(x: kc.array(dtype=float)):
    i = kc.tid()
    x[i] = x[i] * x[i]


def test_kept_copies_are_refused() -> None:
    x = kc.ones(2, requires_grad=True)
    with kc.ScopedCapture():
        tape = kc.Tape()
        with tape:
            kc.launch(doubled_in_place, dim=2, inputs=[x])
        with pytest.raises(kc.KernelGradError, match="a replay of the captured backward pass"):
            tape.backward()


def test_branches_are_decided_by_every_replay() -> None:
    x, y, condition = kc.ones(1), kc.zeros(1), kc.zeros(1, dtype=int)

    def launch(factor: float) -> None:
        kc.launch(add, dim=1, inputs=[x, factor], outputs=[y])

    with kc.ScopedCapture() as other:
        launch(100.0)
    with kc.ScopedCapture() as capture:
        kc.capture_if(condition, on_true=launch, on_false=other.graph, factor=1.0)
    for value, expected in ((0, 100.0), (1, 101.0), (1, 102.0)):
        condition.fill_(value)
        capture.graph.run()
        assert y[0] == expected
    kc.capture_if(condition, on_true=launch, factor=8.0)
    assert y[0] == 110.0


def test_loops_run_while_the_condition_holds() -> None:
    n, total = kc.array([4], dtype=int), kc.zeros(1, dtype=int)

    def body() -> None:
        kc.launch(count_down, dim=1, inputs=[n, total])

    kc.capture_while(n, body)
    assert total[0] == 10
    with kc.ScopedCapture() as capture:
        n.fill_(5)
        kc.capture_while(n, body)
    total.zero_()
    for _ in range(2):
        kc.capture_launch(capture.graph)
    assert (n[0], total[0]) == (0, 30)


def test_graphs_are_parts_of_graphs() -> None:
    x, y = kc.ones(1), kc.zeros(1)
    with kc.ScopedCapture() as inner:
        kc.launch(add, dim=1, inputs=[x, 1.0], outputs=[y])
    with kc.ScopedCapture() as outer:
        kc.capture_launch(inner.graph)
        kc.capture_launch(inner.graph)
    outer.graph.run()
    assert y[0] == 2.0


def test_bad_launches_are_refused_at_capture() -> None:
    y = kc.zeros(4)
    with kc.ScopedCapture() as capture:
        with pytest.raises(kc.KernelArgumentError, match="expected array of float32"):
            kc.launch(add, dim=4, inputs=[kc.zeros(4, dtype=int), 1.0], outputs=[y])
        with pytest.raises(kc.KernelArgumentError, match="at least 9 elements"):
            kc.launch(add, dim=9, inputs=[kc.zeros(9), 1.0], outputs=[y])
    assert len(capture.graph) == 0


def test_captures_are_begun_and_ended_once() -> None:
    with pytest.raises(kc.KernelArgumentError, match="nothing is being captured"):
        kc.capture_end()
    with (
        kc.ScopedCapture(),
        pytest.raises(kc.KernelArgumentError, match="being captured already"),
    ):
        kc.capture_begin()
    condition = kc.zeros(1)
    with pytest.raises(kc.KernelArgumentError, match="a condition of one integer"):
        kc.capture_if(condition)
    with (
        kc.ScopedCapture(),
        kc.Tape(),
        pytest.raises(kc.KernelArgumentError, match="a Tape cannot record"),
    ):
        kc.capture_while(kc.zeros(1, dtype=int), lambda: None)
    assert not kc.is_capturing()


@kc.kernel
def times(x: kc.array(dtype=kc.float64), s: kc.float64, y: kc.array(dtype=kc.float64)):
    i = kc.tid()
    y[i] = s * x[i]


def test_an_array_that_stands_for_a_value_is_read_in_every_replay() -> None:
    x, y = kc.ones(3, dtype=kc.float64), kc.zeros(3, dtype=kc.float64)
    s = kc.array(2.0, dtype=kc.float64)
    with kc.ScopedCapture() as capture:
        kc.launch(times, 3, [x, s], [y])
    for value in (2.0, 5.0):
        s.assign(value)
        kc.capture_launch(capture.graph)
        assert y.list() == [value] * 3


def test_a_graph_does_not_run_unknown_to_a_tape() -> None:
    x, y = kc.ones(3, requires_grad=True), kc.zeros(3, requires_grad=True)
    with kc.ScopedCapture() as capture:
        y.assign(x)
    with kc.Tape(), pytest.raises(kc.KernelArgumentError, match="while launches are recorded"):
        kc.capture_launch(capture.graph)
