"""Programs of NVIDIA Warp's users: tapes, adjoint launches, atomic operations."""

# They are written for another library.
# ruff: noqa: UP018
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.array([3.0, -1.0, 4.0, -1.5, 5.0, 9.0], np.float32)


def squares_of(wp):
    @wp.kernel
    def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    return squares


def sum_of(wp):
    @wp.kernel
    def summed(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
        wp.atomic_add(loss, 0, x[wp.tid()])

    return summed


def with_grad(wp, values=NUMBERS):
    return wp.array(values, requires_grad=True, device="cpu")


@program
def tape_of_two_launches(wp):
    squares, summed = squares_of(wp), sum_of(wp)
    x, y = with_grad(wp), with_grad(wp, np.zeros(6, np.float32))
    loss = with_grad(wp, np.zeros(1, np.float32))
    tape = wp.Tape()
    with tape:
        wp.launch(squares, 6, [x], [y], device="cpu")
        wp.launch(summed, 6, [y], [loss], device="cpu")
    tape.backward(loss=loss)
    first = x.grad.numpy().copy()
    by_name = tape.gradients[x].numpy().copy()
    tape.zero()
    return loss.numpy(), first, by_name, x.grad.numpy()


@program
def cotangents_of_any_array(wp):
    squares = squares_of(wp)
    x, y = with_grad(wp), with_grad(wp, np.zeros(6, np.float32))
    with wp.Tape() as tape:
        wp.launch(squares, 6, [x], [y], device="cpu")
    tape.backward(grads={y: wp.array(np.arange(6.0, dtype=np.float32), device="cpu")})
    return x.grad.numpy()


@program
def adjoint_launches_with_lists(wp):
    squares = squares_of(wp)
    x, y = wp.array(NUMBERS, device="cpu"), wp.zeros(6, dtype=float, device="cpu")
    ct_x, ct_y = wp.zeros_like(x), wp.ones_like(x)
    wp.launch(
        squares, 6, [x], [y], adj_inputs=[ct_x], adj_outputs=[ct_y], adjoint=True, device="cpu"
    )
    return ct_x.numpy()


@program
def adjoint_launches_of_own_gradients(wp):
    squares = squares_of(wp)
    x, y = with_grad(wp), with_grad(wp, np.zeros(6, np.float32))
    wp.launch(squares, 6, [x], [y], device="cpu")
    y.grad.fill_(2.0)
    wp.launch(
        squares, 6, [x], [y], adj_inputs=[x.grad], adj_outputs=[y.grad], adjoint=True, device="cpu"
    )
    return x.grad.numpy()


@program
def recorded_functions(wp):
    x = with_grad(wp)
    y = with_grad(wp, np.zeros(6, np.float32))
    tape = wp.Tape()
    tape.record_func(backward=lambda: x.grad.assign(y.grad.numpy() * 3.0), arrays=[x, y])
    tape.backward(grads={y: wp.full(6, 2.0, dtype=float, device="cpu")})
    return x.grad.numpy()


@program
def gradients_of_vectors_and_matrices(wp):
    @wp.kernel
    def energy(
        v: wp.array(dtype=wp.vec3), m: wp.array(dtype=wp.mat33), loss: wp.array(dtype=float)
    ):
        i = wp.tid()
        wp.atomic_add(loss, 0, wp.dot(v[i], m[i] * v[i]) + wp.length(v[i]))

    v = wp.array(
        np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32), dtype=wp.vec3, requires_grad=True
    )
    m = wp.array(
        np.arange(18.0, dtype=np.float32).reshape(2, 3, 3), dtype=wp.mat33, requires_grad=True
    )
    loss = with_grad(wp, np.zeros(1, np.float32))
    with wp.Tape() as tape:
        wp.launch(energy, 2, [v, m], [loss], device="cpu")
    tape.backward(loss)
    return loss.numpy(), v.grad.numpy(), m.grad.numpy()


@program
def gradients_through_loops_and_branches(wp):
    @wp.kernel
    def powers(x: wp.array(dtype=float), n: int, loss: wp.array(dtype=float)):
        i = wp.tid()
        y = float(1.0)
        for _ in range(n):
            y = y * x[i]
        if y < 0.0:
            y = wp.sin(y)
        wp.atomic_add(loss, 0, y)

    x, loss = with_grad(wp), with_grad(wp, np.zeros(1, np.float32))
    with wp.Tape() as tape:
        wp.launch(powers, 6, [x, 3], [loss], device="cpu")
    tape.backward(loss)
    return loss.numpy(), x.grad.numpy()


@program
def gradients_accumulate_over_backward_passes(wp):
    squares, summed = squares_of(wp), sum_of(wp)
    x, y = with_grad(wp), with_grad(wp, np.zeros(6, np.float32))
    loss = with_grad(wp, np.zeros(1, np.float32))
    for _ in range(2):
        loss.zero_()
        with wp.Tape() as tape:
            wp.launch(squares, 6, [x], [y], device="cpu")
            wp.launch(summed, 6, [y], [loss], device="cpu")
        tape.backward(loss)
        y.grad.zero_()
        loss.grad.zero_()
    return x.grad.numpy()


@program
def extrema_atomics_and_their_results(wp):
    @wp.kernel
    def extrema(x: wp.array(dtype=float), out: wp.array(dtype=float), n: wp.array(dtype=int)):
        i = wp.tid()
        wp.atomic_min(out, 0, x[i])
        wp.atomic_max(out, 1, x[i])
        wp.atomic_sub(out, 2, x[i])
        wp.atomic_max(n, 0, int(x[i]))
        wp.atomic_or(n, 1, 1 << i)
        wp.atomic_xor(n, 2, i)

    out, n = wp.zeros(3, dtype=float), wp.zeros(3, dtype=int)
    wp.launch(extrema, 6, [wp.array(NUMBERS)], [out, n], device="cpu")
    return out.numpy(), n.numpy()


@program
def compare_and_swap(wp):
    @wp.kernel
    def swapped(n: wp.array(dtype=int), out: wp.array(dtype=int)):
        out[0] = wp.atomic_cas(n, 0, 5, 9)
        out[1] = wp.atomic_cas(n, 0, 5, 11)
        out[2] = wp.atomic_exch(n, 1, 4)

    n = wp.array(np.array([5, 6], np.int32), device="cpu")
    return *outputs(wp, swapped, 1, [n], (3, int)), n.numpy()


@program
def jacobians(wp):
    @wp.kernel
    def products(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[(i + 1) % 3]

    x = wp.array(np.array([1.0, 2.0, 3.0], np.float32), requires_grad=True, device="cpu")
    y = wp.zeros(3, dtype=float, requires_grad=True, device="cpu")
    found = wp.autograd.jacobian(products, 3, inputs=[x], outputs=[y])
    return found[(0, 0)].numpy()


@program
def checked_gradients(wp):
    squares = squares_of(wp)
    x, y = with_grad(wp), with_grad(wp, np.zeros(6, np.float32))
    return np.array(
        [
            bool(
                wp.autograd.gradcheck(
                    squares, 6, inputs=[x], outputs=[y], eps=1e-2, rtol=1e-2, atol=5e-2
                )
            )
        ]
    )


@program
def checked_gradients_of_tapes(wp):
    squares = squares_of(wp)
    x, y = with_grad(wp), with_grad(wp, np.zeros(6, np.float32))
    with wp.Tape() as tape:
        wp.launch(squares, 6, [x], [y], device="cpu")
    return np.array([bool(wp.autograd.gradcheck_tape(tape, eps=1e-2, rtol=1e-2, atol=5e-2))])


@program
def retained_gradients(wp):
    squares, summed = squares_of(wp), sum_of(wp)
    x = with_grad(wp)
    y = wp.zeros(6, dtype=float, requires_grad=True, device="cpu", retain_grad=True)
    z = wp.zeros_like(y, retain_grad=True)
    cleared = wp.zeros_like(y)
    loss = with_grad(wp, np.zeros(1, np.float32))
    tape = wp.Tape()
    with tape:
        wp.launch(squares, 6, [x], [y], device="cpu")
        wp.launch(squares, 6, [y], [cleared], device="cpu")
        wp.copy(z, cleared)
        wp.launch(summed, 6, [z], [loss], device="cpu")
    tape.backward(loss)
    first = x.grad.numpy().copy()
    flags = np.array([y.retain_grad, z.retain_grad, cleared.retain_grad])
    by_name = tape.gradients[y].numpy().copy()
    tape.zero()
    tape.backward(loss)
    return first, flags, by_name, x.grad.numpy(), y.grad.numpy(), z.grad.numpy()


@program
def retained_gradients_of_atomic_sums_and_copies(wp):
    @wp.kernel
    def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(y, i, 2.0 * x[i])

    squares, summed = squares_of(wp), sum_of(wp)
    x = with_grad(wp)
    y = wp.zeros(6, dtype=float, requires_grad=True, device="cpu")
    y.retain_grad = True
    loss = with_grad(wp, np.zeros(1, np.float32))
    with wp.Tape() as tape:
        wp.launch(doubled, 6, [x], [y], device="cpu")
        wp.launch(summed, 6, [y], [loss], device="cpu")
        wp.launch(doubled, 6, [x], [y], device="cpu")
        wp.launch(summed, 6, [y], [loss], device="cpu")
        z = wp.clone(y, retain_grad=True)
        wp.launch(squares, 6, [z], [y := wp.zeros_like(z)], device="cpu")
        wp.launch(summed, 6, [y], [loss], device="cpu")
    tape.backward(loss)
    return x.grad.numpy(), z.grad.numpy(), np.array([y.retain_grad])


@program
def retained_gradients_of_given_cotangents(wp):
    squares = squares_of(wp)
    x = with_grad(wp)
    y = wp.full(6, 0.0, dtype=float, requires_grad=True, device="cpu", retain_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, 6, [x], [y], device="cpu")
    y.grad.fill_(3.0)
    tape.backward()
    first = x.grad.numpy().copy(), y.grad.numpy().copy()
    tape.zero()
    tape.backward(grads={y: wp.array(NUMBERS, device="cpu")})
    y.requires_grad = False
    return *first, x.grad.numpy(), np.array([y.retain_grad])
