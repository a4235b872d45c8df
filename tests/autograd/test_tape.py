"""Tape: gradients of chains of launches, in-place updates, copies, and what it refuses."""

# Its code is right for kernels and looser than the types of the stub.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

import kernelcore as kc

F64 = kc.array(dtype=kc.float64)


@kc.struct
class Body:
    pos: kc.vec3d
    mass: kc.float64
    tag: int


@kc.kernel
def square(x: F64, y: F64):
    i = kc.tid()
    y[i] = x[i] * x[i]


@kc.kernel
def multiply(a: F64, b: F64, y: F64):
    i = kc.tid()
    y[i] = a[i] * b[i]


@kc.kernel
def scale(x: F64, y: F64):
    i = kc.tid()
    y[i] *= x[i]


@kc.kernel
def damp(y: F64, c: kc.float64):
    i = kc.tid()
    y[i] = kc.sin(y[i]) * c


@kc.kernel
def constant(y: F64, c: kc.float64):
    i = kc.tid()
    y[i] = c


@kc.func
def cube(x: kc.float64):
    return x * x * x


@kc.kernel
def total(y: F64, loss: F64):
    i = kc.tid()
    loss[0] += y[i]


@kc.kernel
def total2(y: kc.array2d(dtype=kc.float64), loss: F64):
    i, j = kc.tid()
    loss[0] += y[i, j] * kc.float64(i + 1)


@kc.kernel
def energy(bodies: kc.array(dtype=Body), loss: F64):
    i = kc.tid()
    loss[0] += bodies[i].mass * kc.dot(bodies[i].pos, bodies[i].pos)


@kc.kernel
def gather(x: kc.indexedarray(dtype=kc.float64), y: F64):
    i = kc.tid()
    y[i] = x[i] * x[i] * x[i]


@kc.kernel
def drift(n: kc.array(dtype=int), x: F64, y: F64):
    i = kc.tid()
    n[i] = n[i] + 1
    y[i] = x[i] * kc.float64(n[i])


def marked(data: Any) -> kc.Array:
    return kc.array(data, dtype=kc.float64, requires_grad=True)


def blank(n: int = 1, requires_grad: bool = True) -> kc.Array:
    return kc.zeros(n, dtype=kc.float64, requires_grad=requires_grad)


def grad(array: kc.Array) -> np.ndarray:
    assert array.grad is not None
    return array.grad.numpy()


def test_a_chain_of_launches_has_the_gradient_of_its_composition() -> None:
    x, y, loss = marked([1.0, 2.0, 3.0]), blank(3), blank()
    with kc.Tape() as tape:
        kc.launch(square, 3, [x], [y])
        kc.launch(scale, 3, [x], [y])
        kc.launch(total, 3, [y], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad(x), 3.0 * x.numpy() ** 2, rtol=1e-15)
    np.testing.assert_array_equal(loss.numpy(), [36.0])
    # Of what y held before it was overwritten.
    np.testing.assert_array_equal(grad(y), 0.0)


def test_gradients_accumulate_until_they_are_zeroed() -> None:
    x, loss = marked([1.0, 2.0]), blank()
    with kc.Tape() as tape:
        kc.launch(total, 2, [x], [loss])
    for _ in range(3):
        tape.backward(loss)
    np.testing.assert_array_equal(grad(x), 3.0)
    tape.zero()
    np.testing.assert_array_equal(grad(x), 0.0)
    tape.backward(loss)
    assert set(tape.gradients) == {x, loss}
    np.testing.assert_array_equal(tape.gradients[x].numpy(), 1.0)
    assert tape.adjoints[x] is x.grad
    tape.reset()
    assert len(tape) == 0
    np.testing.assert_array_equal(grad(x), 0.0)


def test_cotangents_can_be_given() -> None:
    x, y = marked([1.0, 2.0, 3.0]), blank(3)
    with kc.Tape() as tape:
        kc.launch(square, 3, [x], [y])
    ct = np.array([1.0, -1.0, 0.5])
    tape.backward(grads={y: kc.array(ct)})
    np.testing.assert_array_equal(grad(x), 2.0 * x.numpy() * ct)
    tape.zero()
    grad(y)[...] = ct
    tape.backward()
    np.testing.assert_array_equal(grad(x), 2.0 * x.numpy() * ct)


def simulate(x0: np.ndarray, steps: int) -> tuple[float, np.ndarray]:
    """A loop of in-place updates with an array of forces that is used again in every step."""
    x, v, f, loss = marked(x0), blank(3), blank(3), blank()
    with kc.Tape(keep_overwritten=True) as tape:
        for _ in range(steps):
            f.zero_()
            kc.launch(square, 3, [x], [f])
            kc.launch(damp, 3, [x, 1.2])
            kc.launch(scale, 3, [f], [x])
            v.assign(f)
        kc.launch(total, 3, [x], [loss])
        kc.launch(total, 3, [v], [loss])
    tape.backward(loss)
    return loss.numpy()[0], grad(x)


def test_loops_of_updates_in_place_match_central_differences() -> None:
    x0 = np.array([0.9, 1.0, 1.1])
    found = simulate(x0, 3)[1]
    h = 1e-6
    for k in range(3):
        e = h * np.eye(3)[k]
        want = (simulate(x0 + e, 3)[0] - simulate(x0 - e, 3)[0]) / (2 * h)
        np.testing.assert_allclose(found[k], want, rtol=1e-6)


def test_rows_of_one_array_are_steps_of_a_simulation() -> None:
    x, loss = kc.zeros((5, 3), dtype=kc.float64, requires_grad=True), blank()
    x[0] = [0.9, 1.0, 1.1]
    with kc.Tape() as tape:
        for t in range(4):
            kc.launch(square, 3, [x[t]], [x[t + 1]])
        kc.launch(total, 3, [x[4]], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(grad(x)[0], 16.0 * x.numpy()[0] ** 15, rtol=1e-14)


def test_an_array_may_be_passed_for_several_parameters() -> None:
    x, y = marked([1.0, 2.0, 3.0]), blank(3)
    with kc.Tape() as tape:
        kc.launch(multiply, 3, [x, x[::-1]], [y])
        kc.launch(scale, 3, [x], [y])
    tape.backward(grads={y: np.ones(3)})
    a, b = x.numpy(), x.numpy()[::-1]
    np.testing.assert_allclose(grad(x), 2 * a * b + b * b, rtol=1e-15)


def test_gradients_go_through_views() -> None:
    x, loss = marked(np.arange(6.0).reshape(2, 3)), blank()
    with kc.Tape() as tape:
        kc.launch(total2, (3, 2), [x.transpose()], [loss])
        kc.launch(total, 3, [x[1, ::-1]], [loss])
        kc.launch(total, 6, [x.flatten()], [loss])
    tape.backward(loss)
    want = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]) + 1.0
    want[1] += 1.0
    np.testing.assert_array_equal(grad(x), want)


def test_an_overwritten_array_passes_no_gradient_to_its_old_elements() -> None:
    x, y, loss = marked([1.0, 2.0]), blank(2), blank()
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        kc.launch(constant, 1, [y, 4.0])
        kc.launch(total, 2, [y], [loss])
    tape.backward(loss)
    np.testing.assert_array_equal(grad(x), [0.0, 4.0])


def test_copies_pass_gradients_on() -> None:
    x, y, loss = marked([1.0, 2.0, 3.0, 4.0]), blank(4), blank()
    with kc.Tape() as tape:
        y.assign(x)
        y[1:3] = x[:2]
        y[0] = 7.0
        twin = y.clone()
        y.zero_()
        kc.copy(y, twin, dest_offset=1, src_offset=1, count=3)
        kc.launch(scale, 4, [twin], [y])
        kc.launch(total, 4, [y], [loss])
    tape.backward(loss)
    # y = [0, x0, x1, x3] ** 2
    np.testing.assert_array_equal(grad(x), [2.0, 4.0, 0.0, 8.0])


def test_broadcast_copies_sum_the_gradient() -> None:
    x, y = marked([[1.0], [2.0]]), kc.zeros((2, 3), dtype=kc.float64, requires_grad=True)
    with kc.Tape() as tape:
        y.assign(x)
    tape.backward(grads={y: np.arange(6.0).reshape(2, 3)})
    np.testing.assert_array_equal(grad(x), [[3.0], [12.0]])


def test_arrays_of_structs_have_gradients() -> None:
    bodies = kc.array(
        [Body(pos=(1, 2, 3), mass=2.0, tag=7), Body(pos=(0, 1, 0), mass=3.0)], requires_grad=True
    )
    loss = blank()
    with kc.Tape() as tape:
        kc.launch(energy, 2, [bodies], [loss])
    tape.backward(loss)
    np.testing.assert_array_equal(grad(bodies)["mass"], [14.0, 1.0])
    np.testing.assert_array_equal(grad(bodies)["pos"], [[4.0, 8.0, 12.0], [0.0, 6.0, 0.0]])
    np.testing.assert_array_equal(grad(bodies)["tag"], 0)


def test_indexed_arrays_have_gradients() -> None:
    x, y = marked([1.0, 2.0, 3.0]), blank(4)
    with kc.Tape() as tape:
        kc.launch(gather, 4, [kc.indexedarray(x, [[2, 0, 2, 1]])], [y])
    tape.backward(grads={y: np.ones(4)})
    np.testing.assert_array_equal(grad(x), [3.0, 12.0, 54.0])


def test_integers_that_are_updated_in_place_are_kept() -> None:
    n, x, y = kc.array([1, 2], dtype=int), marked([3.0, 4.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(drift, 2, [n, x], [y])
        kc.launch(drift, 2, [n, x], [y])
    for _ in range(2):
        tape.zero()
        tape.backward(grads={y: np.ones(2)})
        np.testing.assert_array_equal(grad(x), [3.0, 4.0])
    assert n.list() == [3, 4]


def test_arrays_without_gradients_are_constants() -> None:
    x, c, y = marked([1.0, 2.0]), kc.array([3.0, 4.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(multiply, 2, [x, c], [y])
    tape.backward(grads={y: np.ones(2)})
    np.testing.assert_array_equal(grad(x), [3.0, 4.0])
    assert c.grad is None
    assert set(tape.gradients) == {x, y}


def test_numpy_arrays_are_constants_that_may_change_later() -> None:
    x, c, y = marked([1.0, 2.0]), np.array([3.0, 4.0]), blank(2)
    with kc.Tape() as tape:
        kc.launch(multiply, 2, [x, c], [y])
    c[:] = 0.0
    tape.backward(grads={y: np.ones(2)})
    np.testing.assert_array_equal(grad(x), [3.0, 4.0])


def test_map_takes_part() -> None:
    x, loss = marked([1.0, 2.0, 3.0]), blank()
    with kc.Tape() as tape:
        y = kc.map(cube, x)
        kc.launch(total, 3, [y], [loss])
    tape.backward(loss)
    np.testing.assert_array_equal(y.numpy(), x.numpy() ** 3)
    np.testing.assert_array_equal(grad(x), 3.0 * x.numpy() ** 2)


def test_tapes_nest_and_launches_can_be_left_out() -> None:
    x, y, z = marked([1.0, 2.0]), blank(2), blank(2)
    with kc.Tape() as outer:
        kc.launch(square, 2, [x], [y])
        with kc.Tape() as inner:
            kc.launch(square, 2, [y], [z])
        kc.launch(constant, 2, [blank(2), 1.0], record_tape=False)
    kc.launch(square, 2, [x], [blank(2)])
    assert (len(outer), len(inner)) == (2, 1)
    inner.backward(grads={z: np.ones(2)})
    np.testing.assert_array_equal(grad(y), 2.0 * y.numpy())
    np.testing.assert_array_equal(grad(x), 0.0)
    outer.backward(grads={z: np.ones(2)})
    np.testing.assert_array_equal(grad(x), 4.0 * x.numpy() ** 3)


def test_other_threads_record_nothing() -> None:
    x, y = marked([1.0]), blank(1)
    with kc.Tape() as tape:
        thread = threading.Thread(target=kc.launch, args=(square, 1, [x], [y]))
        thread.start()
        thread.join()
    assert len(tape) == 0


def test_functions_take_part_in_the_backward_pass() -> None:
    x, y, loss = marked([1.0, 2.0]), blank(2), blank()

    def backward() -> None:
        grad(x)[...] += np.cos(x.numpy()) * grad(y)
        grad(y)[...] = 0.0

    with kc.Tape() as tape:
        y.numpy()[...] = np.sin(x.numpy())
        tape.record_func(backward, [x, y])
        kc.launch(total, 2, [y], [loss])
    tape.backward(loss)
    np.testing.assert_array_equal(grad(x), np.cos(x.numpy()))


def test_recorded_launches_take_other_parameters() -> None:
    x, y = marked([1.0, 2.0, 3.0]), blank(3)
    command = kc.launch(square, 3, [x], [y], record_cmd=True, block_dim=64, max_blocks=1)
    assert isinstance(command, kc.Launch)
    np.testing.assert_array_equal(y.numpy(), 0.0)
    command.set_dim(2)
    command.launch()
    np.testing.assert_array_equal(y.numpy(), [1.0, 4.0, 0.0])
    command.set_param_at_index(0, y)
    command.set_param_by_name("y", x)
    with kc.Tape() as tape:
        command.launch()
    np.testing.assert_array_equal(x.numpy(), [1.0, 16.0, 3.0])
    assert len(tape) == 1
    command.set_params([x, y])
    command.launch()
    assert y.numpy()[1] == 256.0


def test_the_recorded_graph_is_text(tmp_path: Path) -> None:
    x, y, loss = marked([1.0, 2.0]), blank(2), blank()
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        kc.launch(total, 2, [y], [loss])
    file = tmp_path / "tape.dot"
    dot = tape.visualize(str(file), {x: 'the "input"'})
    assert file.read_text() == dot
    assert dot.startswith("digraph tape {\n  rankdir=LR;")
    assert 'label="the \\"input\\": float64 (2,), grad"' in dot
    edges = [line.strip() for line in dot.splitlines() if "->" in line]
    assert edges == ["a0 -> s0;", "s0 -> a1;", "a1 -> s1;", "s1 -> a2;"]
    mermaid = tape.visualize(graph_direction="TB", language="mermaid")
    assert mermaid.startswith("flowchart TB\n")
    assert "  a1 --> s1\n" in mermaid


def test_old_elements_of_an_unmarked_array_can_be_ignored() -> None:
    x, y, z = marked([1.0, 2.0]), blank(2, False), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y], record_tape=False)
        kc.launch(multiply, 2, [x, y], [z])
    tape.backward(grads={z: np.ones(2)})
    np.testing.assert_array_equal(grad(x), y.numpy())


def test_a_cleared_unmarked_array_is_a_constant() -> None:
    x, y, z = marked([1.0, 2.0]), blank(2, False), blank(2)
    with kc.Tape() as tape:
        kc.launch(square, 2, [x], [y])
        y.fill_(3.0)
        kc.launch(multiply, 2, [x, y], [z])
    tape.backward(grads={z: np.ones(2)})
    np.testing.assert_array_equal(grad(x), 3.0)
