"""Programs of NVIDIA Warp's users with structs, references, tuples and results by reference."""

# They are written for another library.
# ruff: noqa: UP018
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.arange(6.0, dtype=np.float32)


@program
def struct_with_arrays_from_a_function(wp):
    @wp.struct
    class Pair:
        a: wp.array(dtype=float)
        b: wp.array(dtype=float)
        s: float

    @wp.func
    def paired(a: wp.array(dtype=float), b: wp.array(dtype=float), s: float):
        p = Pair()
        p.a = a
        p.b = b
        p.s = s
        return p

    @wp.kernel
    def summed(a: wp.array(dtype=float), b: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        p = paired(a, b, 2.0)
        out[i] = p.a[i] + p.s * p.b[i]

    return outputs(wp, summed, 6, [wp.array(NUMBERS), wp.array(NUMBERS + 1.0)], float)


@program
def struct_with_an_unset_array(wp):
    @wp.struct
    class Optional:
        a: wp.array(dtype=float)
        s: float

    @wp.kernel
    def filled(o: Optional, out: wp.array(dtype=float)):
        i = wp.tid()
        if o.a:
            out[i] = o.a[i]
        else:
            out[i] = o.s

    without, with_array = Optional(), Optional()
    without.s = 7.0
    with_array.a = wp.array(NUMBERS)
    return *outputs(wp, filled, 6, [without], float), *outputs(wp, filled, 6, [with_array], float)


@program
def arrays_of_structs(wp):
    @wp.struct
    class Body:
        x: wp.vec3
        m: float
        n: int

    @wp.kernel
    def moved(bodies: wp.array(dtype=Body), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        b = bodies[i]
        b.x = b.x + wp.vec3(1.0, 0.0, 0.0) * b.m
        bodies[i] = b
        bodies[i].n = 2 * i
        out[i] = bodies[i].x * float(bodies[i].n)

    bodies = []
    for k in range(3):
        b = Body()
        b.x, b.m, b.n = wp.vec3(float(k), 1.0, 2.0), 0.5, k
        bodies.append(b)
    return outputs(wp, moved, 3, [wp.array(bodies, dtype=Body)], wp.vec3)


@program
def nested_structs(wp):
    @wp.struct
    class Inner:
        v: wp.vec2
        m: wp.mat22

    @wp.struct
    class Outer:
        first: Inner
        second: Inner
        n: int

    @wp.kernel
    def combined(o: Outer, out: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        t = o.first
        t.v = t.v * float(o.n)
        out[i] = o.second.m * t.v + o.first.v

    o = Outer()
    o.first.v = wp.vec2(1.0, 2.0)
    o.second.m = wp.mat22(0.0, 1.0, 2.0, 3.0)
    o.n = 3
    return outputs(wp, combined, 2, [o], wp.vec2)


@program
def structs_are_copied(wp):
    @wp.struct
    class State:
        a: float
        b: float

    @wp.func
    def changed(s: State):
        s.a = 10.0
        return s

    @wp.kernel
    def copies(s: State, out: wp.array(dtype=float)):
        t = s
        t.b = 5.0
        u = changed(t)
        out[0] = s.a + 100.0 * s.b
        out[1] = u.a + 100.0 * u.b

    s = State()
    s.a, s.b = 1.0, 2.0
    return outputs(wp, copies, 1, [s], (2, float))


@program
def constructors_of_structs(wp):
    @wp.struct
    class Ray:
        start: wp.vec3
        length: float

    @wp.kernel
    def ends(out: wp.array(dtype=float)):
        r = Ray()
        s = Ray(wp.vec3(1.0, 2.0, 3.0), 4.0)
        out[0] = r.length + r.start[1]
        out[1] = s.length + s.start[1]

    return outputs(wp, ends, 1, [], (2, float))


@program
def arrays_of_structs_as_numbers(wp):
    @wp.struct
    class Particle:
        v: wp.vec3
        n: int

    a = wp.zeros(2, dtype=Particle, device="cpu")

    @wp.kernel
    def numbered(a: wp.array(dtype=Particle)):
        i = wp.tid()
        p = Particle()
        p.v = wp.vec3(1.0, 2.0, float(i))
        p.n = i + 5
        a[i] = p

    wp.launch(numbered, 2, [a], device="cpu")
    rows = a.numpy()
    return rows["v"].astype(np.float32), rows["n"].astype(np.int32)


@program
def struct_of_arrays_of_structs(wp):
    @wp.struct
    class Link:
        parent: int
        length: float

    @wp.struct
    class Chain:
        links: wp.array(dtype=Link)
        scale: float

    @wp.kernel
    def lengths(c: Chain, out: wp.array(dtype=float)):
        i = wp.tid()
        total = float(0.0)
        k = i
        while k >= 0:
            total += c.links[k].length * c.scale
            k = c.links[k].parent
        out[i] = total

    links = []
    for k in range(4):
        link = Link()
        link.parent, link.length = k - 1, float(k + 1)
        links.append(link)
    c = Chain()
    c.links, c.scale = wp.array(links, dtype=Link), 0.5
    return outputs(wp, lengths, 4, [c], float)


@program
def gradients_through_structs(wp):
    @wp.struct
    class Weights:
        w: wp.array(dtype=float)
        s: float

    @wp.kernel
    def loss(p: Weights, out: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(out, 0, p.s * p.w[i] * p.w[i])

    p = Weights()
    p.w, p.s = wp.array(NUMBERS, requires_grad=True), 3.0
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(loss, 6, [p], [out], device="cpu")
    tape.backward(out)
    return out.numpy(), p.w.grad.numpy()


@program
def references(wp):
    @wp.func
    def doubled(x: wp.ref[wp.float32], by: float):
        x = x * by

    @wp.kernel(enable_backward=False)
    def applied(a: wp.array(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        x = a[i]
        doubled(x, 2.0)
        out[i] = x

    return outputs(wp, applied, 6, [wp.array(NUMBERS)], float)


@program
def several_results_of_functions(wp):
    @wp.func
    def polar(v: wp.vec2):
        return wp.length(v), wp.atan2(v[1], v[0])

    @wp.kernel
    def converted(v: wp.array(dtype=wp.vec2), r: wp.array(dtype=float), a: wp.array(dtype=float)):
        i = wp.tid()
        length, angle = polar(v[i])
        r[i] = length
        a[i] = angle

    v = wp.array(np.array([[3.0, 4.0], [-1.0, 1.0]], np.float32), dtype=wp.vec2)
    return outputs(wp, converted, 2, [v], float, float)


@program
def vectors_as_arguments(wp):
    @wp.func
    def total(a: float, b: float, c: float):
        return a + 2.0 * b + 3.0 * c

    @wp.kernel
    def applied(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = total(*v[i])

    v = wp.array(np.arange(6.0, dtype=np.float32).reshape(2, 3), dtype=wp.vec3)
    return outputs(wp, applied, 2, [v], float)


@program
def results_by_reference_of_svd3(wp):
    @wp.kernel
    def composed(
        m: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33), s: wp.array(dtype=wp.vec3)
    ):
        i = wp.tid()
        U = wp.mat33()
        sigma = wp.vec3()
        V = wp.mat33()
        wp.svd3(m[i], U, sigma, V)
        s[i] = sigma
        out[i] = U * wp.diag(sigma) * wp.transpose(V)

    m = wp.array(
        np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.3, 0.2, 2.0]], np.float32)[None],
        dtype=wp.mat33,
    )
    return outputs(wp, composed, 1, [m], wp.mat33, wp.vec3)


@program
def results_of_svd3_qr3_and_eig3(wp):
    @wp.kernel
    def composed(m: wp.array(dtype=wp.mat33), out: wp.array2d(dtype=wp.mat33)):
        i = wp.tid()
        U, sigma, V = wp.svd3(m[i])
        Q, R = wp.qr3(m[i])
        vectors, values = wp.eig3(m[i])
        out[i, 0] = U * wp.diag(sigma) * wp.transpose(V)
        out[i, 1] = Q * R
        out[i, 2] = vectors * wp.diag(values) * wp.transpose(vectors)

    m = wp.array(
        np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]], np.float32)[None],
        dtype=wp.mat33,
    )
    out = wp.zeros((1, 3), dtype=wp.mat33)
    wp.launch(composed, 1, [m], [out], device="cpu")
    return out.numpy()


@program
def results_by_reference_of_qr3_and_eig3(wp):
    @wp.kernel
    def composed(m: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33)):
        i = wp.tid()
        Q = wp.mat33()
        R = wp.mat33()
        wp.qr3(m[i], Q, R)
        P = wp.mat33()
        d = wp.vec3()
        wp.eig3(m[i], P, d)
        out[i] = Q * R + P * wp.diag(d) * wp.transpose(P)

    m = wp.array(
        np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]], np.float32)[None],
        dtype=wp.mat33,
    )
    return outputs(wp, composed, 1, [m], wp.mat33)


@program
def axis_and_angle_by_reference(wp):
    @wp.kernel
    def split(
        q: wp.array(dtype=wp.quat), axes: wp.array(dtype=wp.vec3), angles: wp.array(dtype=float)
    ):
        i = wp.tid()
        axis = wp.vec3()
        angle = float(0.0)
        wp.quat_to_axis_angle(q[i], axis, angle)
        axes[i] = axis
        angles[i] = angle

    q = wp.array(
        np.array([[0.0, 0.0, 0.6, 0.8], [0.48, 0.6, 0.0, 0.64]], np.float32), dtype=wp.quat
    )
    return outputs(wp, split, 2, [q], wp.vec3, float)


@program
def structs_in_host_lists(wp):
    @wp.struct
    class Key:
        i: wp.int64
        b: bool
        h: wp.float16

    k = Key()
    k.i, k.b, k.h = 5, True, 0.5
    a = wp.array([k, k], dtype=Key, device="cpu")

    @wp.kernel
    def read(a: wp.array(dtype=Key), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = float(a[i].i) + float(a[i].h)
        if a[i].b:
            out[i] += 100.0

    return outputs(wp, read, 2, [a], float)
