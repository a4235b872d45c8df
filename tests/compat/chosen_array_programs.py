"""Programs of NVIDIA Warp's users whose names stand for one array or another, or for none."""

# They are written for another library.
# ruff: noqa: B007, UP018, RUF046
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

from typing import Any

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.array([3.0, -1.0, 4.0, -1.5, 5.0, 9.0], np.float32)


@program
def geometry_chosen_by_kind(wp):
    @wp.struct
    class Geometry:
        vertices: wp.array(dtype=wp.vec3)
        order: wp.array(dtype=int)
        count: int
        scale: wp.vec3

    @wp.func
    def geometry_of(
        kind: int,
        boxes: wp.array(dtype=wp.vec3),
        meshes: wp.array(dtype=wp.vec3),
        order: wp.array(dtype=int),
    ):
        g = Geometry()
        g.count = order.shape[0]
        if kind == 0:
            g.vertices = boxes
            g.scale = wp.vec3(1.0, 1.0, 1.0)
        elif kind == 1:
            g.vertices = meshes
            g.scale = wp.vec3(2.0, 2.0, 2.0)
        if kind < 2:
            g.order = order
        return g

    @wp.kernel
    def centred(
        boxes: wp.array(dtype=wp.vec3),
        meshes: wp.array(dtype=wp.vec3),
        order: wp.array(dtype=int),
        out: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        g = geometry_of(i % 3, boxes, meshes, order)
        total = wp.vec3()
        if g.vertices and g.order:
            for k in range(g.count):
                total += wp.cw_mul(g.vertices[g.order[k]], g.scale)
        out[i] = total

    boxes = wp.array(np.arange(9.0).reshape(3, 3), dtype=wp.vec3)
    meshes = wp.array(np.arange(9.0).reshape(3, 3) * 3.0, dtype=wp.vec3)
    return outputs(wp, centred, 6, [boxes, meshes, wp.array([2, 0], dtype=int)], wp.vec3)


@program
def arrays_exchanged_in_loops(wp):
    @wp.kernel
    def relaxed(
        a: wp.array(dtype=float), b: wp.array(dtype=float), n: int, out: wp.array(dtype=float)
    ):
        i = wp.tid()
        source = a
        target = b
        for k in range(n + i):
            target[i] = source[i] * 0.5 + 1.0
            spare = source
            source = target
            target = spare
        out[i] = source[i]

    a, b = wp.array(NUMBERS), wp.zeros(6, dtype=float)
    return *outputs(wp, relaxed, 6, [a, b, 2], float), a.numpy(), b.numpy()


@program
def arrays_chosen_by_expressions(wp):
    @wp.kernel
    def chosen(a: wp.array(dtype=float), b: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        c = a if i % 2 == 0 else b
        d = wp.where(i > 2, a, b)
        e = a
        if i == 4:
            e = b
        out[i] = c[i] + 10.0 * d[i] + 100.0 * e[i] + float(c.shape[0])
        wp.atomic_add(d, 0, 1.0)

    a, b = wp.array(NUMBERS), wp.array(NUMBERS[::-1].copy())
    return *outputs(wp, chosen, 6, [a, b], float), a.numpy()[1:], b.numpy()[1:]


@program
def gradients_of_chosen_arrays(wp):
    @wp.struct
    class Field:
        values: wp.array(dtype=float)
        scale: float

    @wp.func
    def field_of(which: int, a: wp.array(dtype=float), b: wp.array(dtype=float)):
        if which == 0:
            f = Field()
            f.values = a
            f.scale = 1.0
            return f
        g = Field()
        g.values = b
        g.scale = 2.0
        return g

    @wp.kernel
    def squares(a: wp.array(dtype=float), b: wp.array(dtype=float), loss: wp.array(dtype=float)):
        i = wp.tid()
        f = field_of(i % 2, a, b)
        wp.atomic_add(loss, 0, f.values[i] * f.values[i] * f.scale)

    a, b = (wp.array(x, requires_grad=True) for x in (NUMBERS, NUMBERS * 2.0))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, 6, [a, b], [loss], device="cpu")
    tape.backward(loss)
    return loss.numpy(), a.grad.numpy(), b.grad.numpy()


@program
def functions_that_return_arrays(wp):
    @wp.func
    def row_of(m: wp.array2d(dtype=float), k: int):
        return m[k]

    @wp.kernel
    def sums(m: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        row = row_of(m, i)
        total = float(0.0)
        for k in range(row.shape[0]):
            total += row[k]
        out[i] = total

    return outputs(wp, sums, 2, [wp.array(NUMBERS.reshape(2, 3))], float)


@program
def none_after_arrays(wp):
    @wp.kernel
    def added(x: wp.array(dtype=float), bias: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = x[i]
        if bias:
            out[i] += bias[i]

    x, found = wp.array(NUMBERS), []
    for bias in (x, None, x, None):
        found.extend(outputs(wp, added, 6, [x, bias], float))
    return tuple(found)


@program
def indices_from_the_end(wp):
    @wp.kernel
    def ends(a: wp.array(dtype=float), m: wp.array2d(dtype=float), out: wp.array(dtype=float)):
        out[0] = a[-1]
        i = int(-2)
        out[1] = a[i]
        out[2] = m[-1, 0] + m[-2, -1]
        row = m[-1]
        out[3] = row[-3]
        out[-1] = 42.0
        wp.atomic_add(out, -2, 5.0)
        out[-3] += a[-6]

    return outputs(wp, ends, 1, [wp.array(NUMBERS), wp.array(NUMBERS.reshape(2, 3))], (8, float))


@program
def structs_without_fields(wp):
    @wp.struct
    class Options:
        pass

    @wp.struct
    class Body:
        options: Options
        mass: float

    @wp.func
    def weight(options: Options, mass: float):
        return mass * 2.0

    @wp.kernel
    def weighed(body: Body, options: Options, out: wp.array(dtype=float)):
        i = wp.tid()
        own = Options()
        out[i] = weight(body.options, body.mass) + weight(options, 1.0) + weight(own, 0.5)

    body = Body()
    body.mass = 3.0
    return outputs(wp, weighed, 2, [body, Options()], float)


@program
def searches_with_variables_set_on_the_way(wp):
    @wp.kernel
    def nearest(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        t = wp.tid()
        done = bool(False)
        i = int(0)
        while i < x.shape[0] and not done:
            if x[i] > float(t) + 2.0:
                best = x[i] * 2.0
                done = True
            i += 1
        if done:
            out[t, 0] = best
        for k in range(x.shape[0]):
            if x[k] > float(t):
                hit = k
                break
        out[t, 1] = float(hit)

    out = wp.zeros((8, 2), dtype=float)
    wp.launch(nearest, 8, [wp.array(NUMBERS)], [out], device="cpu")
    return out.numpy()


@program
def slices_with_steps_of_run_time(wp):
    @wp.func
    def digits(a: wp.array(dtype=float)):
        total = float(0.0)
        for k in range(a.shape[0]):
            total = total * 2.0 + a[k]
        return total

    @wp.kernel
    def sliced(a: wp.array(dtype=float), lo: int, hi: int, by: int, out: wp.array(dtype=float)):
        out[0] = digits(a[lo:hi:by])
        out[1] = digits(a[lo:])
        out[2] = digits(a[:hi])
        out[3] = digits(a[::by])
        out[4] = digits(a[-3:])
        out[5] = float(a[lo:hi:by].shape[0])
        v = wp.vec4(1.0, 2.0, 3.0, 4.0)
        w = v[::-1]
        out[6] = v[-1] + w[0]
        m = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
        m[:, 0] = wp.vec3(9.0, 8.0, 7.0)
        part = m[:2, 1:]
        out[7] = part[1, 1] + m[2, 0]

    return outputs(wp, sliced, 1, [wp.array(NUMBERS), 1, 5, 2], (8, float))


@program
def overloads_by_name_and_position(wp):
    @wp.kernel
    def scaled(x: wp.array(dtype=Any), s: Any, out: wp.array(dtype=Any)):
        i = wp.tid()
        out[i] = x[i] * s

    a32, a64 = wp.array(dtype=wp.float32), wp.array(dtype=wp.float64)
    one = scaled.add_overload([a32, wp.float32, a32])
    two = scaled.add_overload([a64, wp.float64, a64])
    again = scaled.get_overload([a32, wp.float32, a32])
    return (
        *outputs(wp, one, 6, [wp.array(NUMBERS), 2.0], float),
        *outputs(wp, two, 6, [wp.array(NUMBERS.astype(float)), 2.0], wp.float64),
        np.array([scaled.is_generic, again.is_generic, again is one]),
    )


@program
def constructors_with_keywords_in_kernels(wp):
    @wp.kernel
    def made(out: wp.array(dtype=float)):
        t = wp.transformation(p=wp.vec3(5.0, 6.0, 7.0), q=wp.quat_identity(), dtype=float)
        u = wp.transform(p=wp.vec3(1.0), q=wp.quat(0.0, 0.6, 0.0, 0.8))
        v = wp.vector(wp.vec3i(1, 2, 3), dtype=float)
        m = wp.matrix(0.5, shape=(2, 3), dtype=float)
        n = wp.matrix(wp.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2)), shape=(2, 2), dtype=float)
        out[0] = t[1] + t[6]
        out[1] = u.p[0] + u.q[1]
        out[2] = v[2] + m[1, 2] + n[1, 0]

    return outputs(wp, made, 1, [], (3, float))
