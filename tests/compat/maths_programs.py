"""Programs of NVIDIA Warp's users that compute with its functions, at their edges, too."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.array([-2.5, -1.0, -0.0, 0.0, 0.3, 1.0, 2.5, 7.0], np.float32)
POINTS = np.array(
    [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0], [0.0, 0.0, 0.0], [4.0, -4.0, 2.0]], np.float32
)


def table(wp, kernel, columns, values=NUMBERS, dtype=float):
    """Rows of results of a kernel of numbers."""
    out = wp.zeros((len(values), columns), dtype=dtype, device="cpu")
    wp.launch(kernel, len(values), [wp.array(values, device="cpu")], [out], device="cpu")
    return out.numpy()


@program
def signs_of_zero(wp):
    @wp.kernel
    def signs(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.copysign(2.0, x[i])
        out[i, 1] = wp.sign(x[i])
        out[i, 2] = wp.abs(x[i])

    return table(wp, signs, 3)


@program
def elementary_functions(wp):
    @wp.kernel
    def elementary(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.sin(x[i]) + wp.cos(x[i])
        out[i, 1] = wp.tan(x[i])
        out[i, 2] = wp.exp(x[i])
        out[i, 3] = wp.sinh(x[i]) * wp.cosh(x[i])
        out[i, 4] = wp.tanh(x[i])
        out[i, 5] = wp.atan(x[i])
        out[i, 6] = wp.erf(x[i])
        out[i, 7] = wp.cbrt(x[i])
        out[i, 8] = wp.frac(x[i])

    return table(wp, elementary, 9)


@program
def logarithms_and_roots(wp):
    @wp.kernel
    def logs(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.log(x[i])
        out[i, 1] = wp.log2(x[i])
        out[i, 2] = wp.log10(x[i])
        out[i, 3] = wp.sqrt(x[i])
        out[i, 4] = wp.pow(x[i], 0.5)
        out[i, 5] = x[i] ** 2.0

    return table(wp, logs, 6)


@program
def floors_of_quotients(wp):
    @wp.kernel
    def floors(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.floordiv(x[i], 2.0)
        out[i, 1] = x[i] // -2.0
        out[i, 2] = wp.mod(x[i], -2.0)
        out[i, 3] = wp.ceil(x[i] / 2.0)

    return table(wp, floors, 4)


@program
def interpolation(wp):
    @wp.kernel
    def interpolated(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.lerp(1.0, 3.0, x[i])
        out[i, 1] = wp.smoothstep(0.0, 2.0, x[i])
        out[i, 2] = wp.step(x[i])
        out[i, 3] = wp.radians(x[i]) + wp.degrees(x[i])
        out[i, 4] = wp.lerp(wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0), x[i])[1]

    return table(wp, interpolated, 5)


@program
def division_by_zero(wp):
    @wp.kernel
    def divided(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = x[i] / 0.0
        out[i, 1] = x[i] / (x[i] - x[i])
        out[i, 2] = 1.0 / x[i]

    return table(wp, divided, 3)


@program
def integers_that_wrap_around(wp):
    @wp.kernel
    def wrapped(a: wp.array(dtype=int), out: wp.array2d(dtype=int)):
        i = wp.tid()
        out[i, 0] = a[i] * 1000003
        out[i, 1] = int(wp.int8(a[i]))
        out[i, 2] = int(wp.uint16(a[i]))
        out[i, 3] = -a[i]
        out[i, 4] = wp.abs(a[i])

    return table(
        wp, wrapped, 5, np.array([2**31 - 1, -(2**31) + 1, 300, -129, 65535], np.int32), int
    )


@program
def unsigned_integers(wp):
    @wp.kernel
    def unsigned(a: wp.array(dtype=wp.uint32), out: wp.array2d(dtype=wp.uint32)):
        i = wp.tid()
        out[i, 0] = a[i] - wp.uint32(5)
        out[i, 1] = a[i] / wp.uint32(3)
        out[i, 2] = a[i] % wp.uint32(7)
        out[i, 3] = a[i] >> wp.uint32(3)
        out[i, 4] = wp.min(a[i], wp.uint32(9))
        out[i, 5] = ~a[i]

    return table(wp, unsigned, 6, np.array([0, 3, 2**32 - 1, 2**31], np.uint32), wp.uint32).astype(
        np.int64
    )


@program
def divisions_of_all_widths(wp):
    @wp.kernel
    def divided(a: wp.array(dtype=wp.int64), out: wp.array2d(dtype=wp.int64)):
        i = wp.tid()
        out[i, 0] = wp.int64(wp.int8(a[i]) / wp.int8(3))
        out[i, 1] = wp.int64(wp.int16(a[i]) % wp.int16(-3))
        out[i, 2] = a[i] / wp.int64(-2)
        out[i, 3] = wp.int64(wp.uint8(a[i]) % wp.uint8(5))

    return table(wp, divided, 4, np.array([-7, 7, 100, -1], np.int64), wp.int64)


@program
def remainders_of_vectors(wp):
    @wp.kernel
    def rests(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        out[i] = wp.mod(v[i], wp.vec3(2.0, 2.0, -2.0))

    return outputs(wp, rests, 4, [wp.array(POINTS, dtype=wp.vec3)], wp.vec3)


@program
def vectors_of_integers_divided(wp):
    @wp.kernel
    def divided(out: wp.array(dtype=wp.vec3i)):
        v = wp.vec3i(-7, 7, 5)
        out[0] = v / 2
        out[1] = wp.cw_div(v, wp.vec3i(2, -2, 3))

    return outputs(wp, divided, 1, [], (2, wp.vec3i))


@program
def extrema_of_vectors(wp):
    @wp.kernel
    def extrema(
        v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3), at: wp.array(dtype=wp.vec2i)
    ):
        i = wp.tid()
        out[i] = wp.min(v[i], wp.vec3(0.5, 0.5, 0.5)) + wp.max(v[i], wp.vec3(0.0, 1.0, 2.0))
        at[i] = wp.vec2i(int(wp.argmin(v[i])), int(wp.argmax(v[i])))

    return outputs(wp, extrema, 4, [wp.array(POINTS, dtype=wp.vec3)], wp.vec3, wp.vec2i)


@program
def extrema_of_several_numbers(wp):
    @wp.kernel
    def extrema(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = min(x[i], 0.5)
        out[i, 1] = max(x[i], 0.5)
        out[i, 2] = wp.clamp(x[i], -1.0, 1.0)
        out[i, 3] = abs(x[i])

    return table(wp, extrema, 4)


@program
def norms_of_vectors(wp):
    @wp.kernel
    def norms(v: wp.array(dtype=wp.vec3), out: wp.array2d(dtype=float)):
        i = wp.tid()
        out[i, 0] = wp.length(v[i])
        out[i, 1] = wp.length_sq(v[i])
        out[i, 2] = wp.normalize(v[i])[0]
        out[i, 3] = wp.norm_l1(v[i])
        out[i, 4] = wp.norm_huber(v[i], 1.5)
        out[i, 5] = wp.norm_pseudo_huber(v[i], 1.5)
        out[i, 6] = wp.smooth_normalize(v[i], 1.5)[1]

    out = wp.zeros((4, 7), dtype=float)
    wp.launch(norms, 4, [wp.array(POINTS, dtype=wp.vec3)], [out], device="cpu")
    return out.numpy()


@program
def products_of_matrices(wp):
    @wp.kernel
    def products(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.mat33)):
        i = wp.tid()
        s = wp.skew(v[i])
        d = wp.diag(v[i])
        out[i] = s * d + wp.outer(v[i], v[i]) * 2.0 - wp.transpose(s) @ d

    return outputs(wp, products, 4, [wp.array(POINTS, dtype=wp.vec3)], wp.mat33)


@program
def inverses_of_matrices(wp):
    @wp.kernel
    def inverses(
        m: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33), d: wp.array(dtype=float)
    ):
        i = wp.tid()
        out[i] = wp.inverse(m[i])
        d[i] = wp.determinant(m[i]) + wp.trace(m[i]) + wp.ddot(m[i], m[i])

    m = np.array(
        [[[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.3, 0.2, 2.0]], np.diag([1.0, 2.0, 4.0])], np.float32
    )
    return outputs(wp, inverses, 2, [wp.array(m, dtype=wp.mat33)], wp.mat33, float)


@program
def rotations(wp):
    @wp.kernel
    def rotated(v: wp.array(dtype=wp.vec3), out: wp.array2d(dtype=wp.vec3)):
        i = wp.tid()
        q = wp.quat_from_axis_angle(wp.normalize(wp.vec3(1.0, 2.0, 2.0)), 0.7)
        r = wp.quat_rpy(0.1, -0.2, 0.3)
        out[i, 0] = wp.quat_rotate(q * r, v[i])
        out[i, 1] = wp.quat_rotate_inv(wp.quat_slerp(q, r, 0.25), v[i])
        out[i, 2] = wp.quat_to_matrix(r) * v[i]
        out[i, 3] = wp.quat_to_rpy(r)

    out = wp.zeros((4, 4), dtype=wp.vec3)
    wp.launch(rotated, 4, [wp.array(POINTS, dtype=wp.vec3)], [out], device="cpu")
    return out.numpy()


@program
def quaternions(wp):
    @wp.kernel
    def made(out: wp.array(dtype=wp.quat)):
        q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.6, 0.8), 0.9)
        out[0] = wp.quat_inverse(q)
        out[1] = wp.quat_from_matrix(wp.quat_to_matrix(q))
        out[2] = wp.quat_from_euler(wp.vec3(0.1, 0.2, 0.3), 0, 1, 2)
        out[3] = wp.quat_twist(wp.vec3(0.0, 0.0, 1.0), q)
        out[4] = wp.quat_between_vectors(wp.vec3(1.0, 0.0, 0.0), wp.vec3(1.0, 2.0, 0.5))
        out[5] = wp.quat_identity()
        out[6] = wp.normalize(q + q * 2.0)

    return outputs(wp, made, 1, [], (7, wp.quat))


@program
def transforms(wp):
    @wp.kernel
    def moved(v: wp.array(dtype=wp.vec3), out: wp.array2d(dtype=wp.vec3)):
        i = wp.tid()
        q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5)
        t = wp.transform(wp.vec3(1.0, 2.0, 3.0), q)
        s = wp.transform_inverse(t) * wp.transform(wp.vec3(0.0, 1.0, 0.0), wp.quat_identity())
        out[i, 0] = wp.transform_point(t, v[i])
        out[i, 1] = wp.transform_vector(t, v[i])
        out[i, 2] = wp.transform_point(s, v[i])
        out[i, 3] = wp.transform_get_translation(wp.transform_multiply(t, s))
        out[i, 4] = wp.spatial_bottom(wp.spatial_vector(v[i], wp.vec3(1.0, 1.0, 1.0)))

    out = wp.zeros((4, 5), dtype=wp.vec3)
    wp.launch(moved, 4, [wp.array(POINTS, dtype=wp.vec3)], [out], device="cpu")
    return out.numpy()


@program
def half_precision(wp):
    @wp.kernel
    def halves(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        h = wp.float16(x[i])
        b = wp.bfloat16(x[i])
        out[i, 0] = float(h * h + wp.float16(0.1))
        out[i, 1] = float(wp.sin(h))
        out[i, 2] = float(b * b)
        out[i, 3] = float(wp.max(h, wp.float16(0.5)))

    return table(wp, halves, 4)


@program
def double_precision(wp):
    @wp.kernel
    def doubles(x: wp.array(dtype=wp.float64), out: wp.array2d(dtype=wp.float64)):
        i = wp.tid()
        out[i, 0] = wp.sin(x[i]) / wp.float64(3.0)
        out[i, 1] = x[i] % wp.float64(1.5)
        out[i, 2] = wp.round(x[i])
        out[i, 3] = wp.acos(x[i])
        out[i, 4] = wp.sign(x[i])

    return table(wp, doubles, 5, NUMBERS.astype(float), wp.float64)


@program
def spatial_vectors(wp):
    @wp.kernel
    def crossed(out: wp.array(dtype=wp.spatial_vector), d: wp.array(dtype=float)):
        a = wp.spatial_vector(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
        b = wp.spatial_vector(wp.vec3(0.5, 1.0, -1.0), wp.vec3(2.0, 0.0, 1.0))
        out[0] = wp.spatial_cross(a, b)
        out[1] = wp.spatial_cross_dual(a, b)
        d[0] = wp.spatial_dot(a, b)
        d[1] = wp.spatial_top(a)[0] + wp.velocity_at_point(a, wp.vec3(1.0, 0.0, 0.0))[1]

    return outputs(wp, crossed, 1, [], (2, wp.spatial_vector), (2, float))


@program
def sampled_distributions(wp):
    @wp.kernel
    def sampled(cdf: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        state = wp.rand_init(3, i)
        out[i, 0] = float(wp.sample_cdf(state, cdf))
        out[i, 1] = wp.sample_triangle(state)[0]
        out[i, 2] = wp.sample_unit_sphere(state)[1]
        out[i, 3] = wp.sample_unit_hemisphere_surface(state)[2]
        out[i, 4] = wp.sample_unit_cube(state)[0]

    cdf = wp.array(np.array([0.1, 0.4, 0.8, 1.0], np.float32), device="cpu")
    out = wp.zeros((5, 5), dtype=float)
    wp.launch(sampled, 5, [cdf], [out], device="cpu")
    return out.numpy()


@program
def gradients_at_the_edges(wp):
    @wp.kernel
    def edges(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
        i = wp.tid()
        wp.atomic_add(
            loss, 0, wp.sign(x[i]) * x[i] + wp.max(x[i], 0.3) + wp.round(x[i]) + x[i] % 2.0
        )

    values = np.array([-2.5, -1.0, 0.4, 1.0, 2.5], np.float32)
    x = wp.array(values, requires_grad=True, device="cpu")
    loss = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        wp.launch(edges, 5, [x], [loss], device="cpu")
    tape.backward(loss)
    return loss.numpy(), x.grad.numpy()


@program
def rotations_made_on_the_host(wp):
    @wp.kernel
    def turned(q: wp.quat, v: wp.array(dtype=wp.vec3)):
        v[0] = wp.quat_rotate(q, wp.vec3(1.0, 2.0, 3.0))

    v = wp.zeros(1, dtype=wp.vec3, device="cpu")
    half = wp.quat_slerp(wp.quat_identity(), wp.quat_rpy(0.1, -0.2, 0.3), 0.5)
    wp.launch(turned, 1, [wp.quat_rpy(-0.3, -0.5, 0.25) * half], [v], device="cpu")
    return v.numpy(), np.array(half)
