"""Programs of NVIDIA Warp's users that make vectors and arrays on the host, and count with them."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

import numpy as np

from tests.compat.programs import outputs, program

NUMBERS = np.array([3.0, -1.0, 4.0, -1.5, 5.0, 9.0], np.float32)


def numbers(*values):
    """Vectors, matrices and numbers as one array."""
    return np.concatenate([np.asarray(v, float).reshape(-1) for v in values])


@program
def vectors_of_own_lengths(wp):
    vec5 = wp.types.vector(length=5, dtype=float)
    vec3d = wp.types.vector(length=3, dtype=wp.float64)
    return numbers(
        vec5(1.0, 2.0, 3.0, 4.0, 5.0),
        vec5(2.0),
        vec3d(1.0, 2.0, 3.0),
        vec5(),
        vec5([5, 4, 3, 2, 1]),
    )


@program
def matrices_of_own_shapes(wp):
    mat23 = wp.types.matrix(shape=(2, 3), dtype=float)
    m = mat23(1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    return numbers(m, mat23(7.0), m[1], m[1, 2], mat23([[1, 2, 3], [4, 5, 6]]))


@program
def matrices_from_numbers_and_rows(wp):
    return numbers(
        wp.mat22(1, 2, 3, 4),
        wp.mat22([1.0, 2.0, 3.0, 4.0]),
        wp.mat22([[1.0, 2.0], [3.0, 4.0]]),
        wp.mat33(np.arange(9.0)),
        wp.mat33(np.eye(3)),
    )


@program
def rows_and_columns_in_kernels(wp):
    @wp.kernel
    def made(out: wp.array(dtype=wp.mat22)):
        a = wp.vec2(1.0, 2.0)
        b = wp.vec2(3.0, 4.0)
        out[0] = wp.matrix_from_rows(a, b)
        out[1] = wp.matrix_from_cols(a, b)
        out[2] = wp.outer(a, b)
        out[3] = wp.identity(n=2, dtype=float)

    return outputs(wp, made, 1, [], (4, wp.mat22))


@program
def composites_made_in_kernels(wp):
    @wp.kernel
    def made(out: wp.array(dtype=float)):
        v = wp.vector(1.0, 2.0, 3.0, 4.0, 5.0)
        z = wp.vector(length=3, dtype=float)
        m = wp.matrix(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, shape=(2, 3))
        q = wp.quaternion(wp.vec3(1.0, 2.0, 3.0), 4.0)
        t = wp.transformation(wp.vec3(1.0, 2.0, 3.0), q)
        out[0] = v[4] + z[0]
        out[1] = m[1, 0]
        out[2] = q[3] + q[0]
        out[3] = wp.transform_get_translation(t)[2] + wp.transform_get_rotation(t)[1]

    return outputs(wp, made, 1, [], (4, float))


@program
def transforms_by_keywords(wp):
    t = wp.transform(p=wp.vec3(1.0, 2.0, 3.0), q=wp.quat_identity())
    u = wp.transform((1.0, 2.0, 3.0), (0.0, 0.6, 0.0, 0.8))
    return numbers(t.p, t.q, u.p, u.q, t * u, wp.transform_identity())


@program
def conversions_of_vectors(wp):
    @wp.kernel
    def converted(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
        i = wp.tid()
        a = wp.vec3i(v[i])
        b = wp.vector(a, dtype=wp.float64)
        out[i] = wp.vec3(b) + wp.vec3(a)

    v = wp.array(NUMBERS.reshape(2, 3) * 1.25, dtype=wp.vec3)
    return outputs(wp, converted, 2, [v], wp.vec3)


@program
def flat_data_of_composites(wp):
    return (
        wp.array([1.0, 2.0, 3.0, 4.0], dtype=wp.vec2, device="cpu").numpy(),
        wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=wp.vec2, device="cpu").numpy(),
        wp.array([wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0)], dtype=wp.vec2, device="cpu").numpy(),
        wp.array(np.arange(8.0), dtype=wp.mat22, device="cpu").numpy(),
        wp.array([(0.0, 0.0, 0.0, 1.0)], dtype=wp.quat, device="cpu").numpy(),
        wp.array([wp.transform_identity()], dtype=wp.transform, device="cpu").numpy(),
    )


@program
def arithmetic_of_vectors(wp):
    a, b = wp.vec3(1.0, 2.0, -3.0), wp.vec3(4.0, -5.0, 6.0)
    return numbers(
        a + b, a - b, a * 2.0, 2.0 * a, a / 2.0, -a, +a, wp.cw_mul(a, b), wp.cw_div(a, b)
    )


@program
def arithmetic_of_vectors_in_place(wp):
    a = wp.vec3(1.0, 2.0, -3.0)
    a += wp.vec3(1.0, 1.0, 1.0)
    a -= wp.vec3(0.5, 0.5, 0.5)
    a *= 2.0
    a /= 4.0
    a[1] = 7.0
    a[2] += 1.0
    return numbers(a, a[-1], len(a), a[0:2])


@program
def functions_of_vectors_on_the_host(wp):
    a, b = wp.vec3(1.0, 2.0, -3.0), wp.vec3(4.0, -5.0, 6.0)
    return numbers(
        wp.dot(a, b),
        wp.cross(a, b),
        wp.length(a),
        wp.length_sq(a),
        wp.normalize(a),
        wp.ddot(wp.outer(a, b), wp.outer(b, a)),
    )


@program
def functions_of_matrices_on_the_host(wp):
    m = wp.mat33(4.0, 1.0, 0.5, 1.0, 3.0, 0.2, 0.3, 0.2, 2.0)
    v = wp.vec3(1.0, 2.0, 3.0)
    return numbers(
        m * v,
        v * m,
        m * m,
        m + m,
        m - m * 2.0,
        wp.transpose(m),
        wp.determinant(m),
        wp.inverse(m),
        wp.trace(m),
    )


@program
def functions_of_quaternions_on_the_host(wp):
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5)
    r = wp.quat_rpy(wp.float32(0.1), wp.float32(0.2), wp.float32(0.3))
    v = wp.vec3(1.0, 2.0, 3.0)
    return numbers(
        q,
        q * r,
        wp.quat_rotate(q, v),
        wp.quat_rotate_inv(r, v),
        wp.quat_inverse(r),
        wp.quat_to_matrix(r),
        wp.quat_slerp(q, r, 0.3),
    )


@program
def functions_of_numbers_on_the_host(wp):
    return numbers(
        wp.sin(1.0),
        wp.sqrt(2.0),
        wp.abs(-3.0),
        wp.pow(2.0, 0.5),
        wp.exp(1.0),
        wp.atan2(1.0, -2.0),
        wp.floor(-1.5),
        wp.degrees(1.0),
    )


@program
def equal_vectors(wp):
    a, b = wp.vec3(1.0, 2.0, 3.0), wp.vec3(1.0, 2.0, 3.0)
    return np.array(
        [
            a == b,
            a != b,
            a == wp.vec3(1.0, 2.0, 4.0),
            wp.mat22(1.0) == wp.mat22(1.0),
            list(a) == [1.0, 2.0, 3.0],
        ]
    )


@program
def attributes_of_types(wp):
    v = wp.vec3
    return numbers(
        wp.types.type_size(v),
        len(v()),
        wp.types.types_equal(v, wp.vec3f),
        wp.types.type_size_in_bytes(wp.mat33),
    )


@program
def names_of_types(wp):
    return np.array(
        [
            wp.float32.__name__ == "float32",
            wp.vec3.__name__.startswith("vec3"),
            wp.int8.__name__ == "int8",
        ]
    )


@program
def numbers_of_scalar_types(wp):
    return numbers(
        float(wp.float32(1.5)), int(wp.int32(7)), int(wp.uint8(200)), float(wp.float64(0.1))
    )


@program
def operators_of_whole_arrays(wp):
    a = wp.array(NUMBERS, device="cpu")
    n = wp.array(np.array([7, 7, 5], np.int32), device="cpu")
    m = wp.array(np.array([2, 4, 3], np.int32), device="cpu")
    a *= 2.0
    b = 3.0 * a - 1.0
    return a.numpy(), b.numpy(), (n % m).numpy(), (n // m).numpy(), (a / 2.0).numpy()


@program
def shapes_of_arrays(wp):
    a = wp.zeros((2, 3, 4), dtype=wp.vec2, device="cpu")
    return numbers(
        a.shape, a.ndim, a.size, a.strides, len(a), a.is_contiguous, a.transpose((2, 0, 1)).shape
    )


@program
def views_of_arrays(wp):
    a = wp.array(np.arange(24.0, dtype=np.float32).reshape(2, 3, 4), device="cpu")
    return (
        a[1].numpy(),
        a[:, 1].numpy(),
        a[0, :, 1:3].numpy(),
        a.flatten().numpy(),
        a.reshape((6, 4)).numpy(),
        a.transpose().numpy(),
        a[:, ::2].numpy(),
    )


@program
def fills_and_copies(wp):
    a = wp.full((2, 3), 7.0, dtype=float, device="cpu")
    b = wp.full(2, wp.vec2(1.0, 2.0), dtype=wp.vec2, device="cpu")
    c = wp.ones(3, dtype=wp.int64, device="cpu")
    d = wp.clone(a)
    d.fill_(3.0)
    e = wp.empty_like(a)
    wp.copy(e, d)
    e[0].zero_()
    f = wp.full_like(b, 5.0)
    g = wp.ones_like(d)
    return a.numpy(), b.numpy(), c.numpy(), d.numpy(), e.numpy(), f.numpy(), g.numpy()


@program
def partial_copies(wp):
    a = wp.array(NUMBERS, device="cpu")
    b = wp.zeros(6, dtype=float, device="cpu")
    wp.copy(b, a, dest_offset=1, src_offset=2, count=3)
    b.assign(b.numpy() + 1.0)
    return b.numpy()


@program
def truths_as_elements(wp):
    a = wp.ones(3, dtype=wp.bool, device="cpu")
    b = wp.array([True, False, True], dtype=bool, device="cpu")

    @wp.kernel
    def both(a: wp.array(dtype=wp.bool), b: wp.array(dtype=bool), out: wp.array(dtype=int)):
        i = wp.tid()
        if a[i] and b[i]:
            out[i] = 1

    return *outputs(wp, both, 3, [a, b], int), a.numpy(), b.numpy()


@program
def indexed_arrays(wp):
    a = wp.array(NUMBERS, device="cpu")
    rows = wp.array(np.array([4, 0, 2], np.int32), device="cpu")
    picked = wp.indexedarray(a, [rows])

    @wp.kernel
    def doubled(x: wp.indexedarray(dtype=float), out: wp.array(dtype=float)):
        i = wp.tid()
        out[i] = 2.0 * x[i]

    found = outputs(wp, doubled, 3, [picked], float)
    by_index = a[rows].numpy()
    first = picked.numpy().copy()
    picked.fill_(8.0)
    return *found, first, by_index, a.numpy(), numbers(picked.shape)


@program
def arrays_with_strides(wp):
    a = np.arange(12.0, dtype=np.float32)
    b = wp.array(
        ptr=a.ctypes.data, dtype=float, shape=(3, 2), strides=(16, 8), device="cpu", capacity=48
    )
    c = wp.array(a.reshape(3, 4)[:, ::2], dtype=float, device="cpu", copy=False)
    return b.numpy(), c.numpy(), numbers(b.strides, c.strides)


@program
def deleters_are_called(wp):
    called = []
    a = np.arange(4.0, dtype=np.float32)
    b = wp.array(
        ptr=a.ctypes.data,
        dtype=float,
        shape=(4,),
        device="cpu",
        deleter=lambda p, n: called.append(n),
    )
    sums = b.numpy().sum()
    del b
    return numbers(called, sums)


@program
def attributes_of_ones_own_on_arrays(wp):
    class Field(wp.array):
        pass

    a = wp.zeros(3, dtype=float, device="cpu")
    a.label = "velocity"
    return np.array([a.label == "velocity", issubclass(Field, wp.array)])


@program
def numpy_of_arrays(wp):
    a = wp.array(NUMBERS, device="cpu")
    a.numpy()[0] = 42.0
    b = wp.from_numpy(np.arange(6, dtype=np.int64), dtype=float, device="cpu")
    c = wp.array(np.arange(3.0), device="cpu")
    return a.numpy(), b.numpy(), np.array(c.dtype is wp.float64), np.asarray(a)[:2], a.list()[:2]


@program
def dtypes_between_libraries(wp):
    return np.array(
        [
            wp.dtype_from_numpy(np.int16) is wp.int16,
            wp.dtype_to_numpy(wp.float16) == np.float16,
            wp.types.types_equal(wp.vec3, wp.vec3f),
        ]
    )


@program
def gradients_of_integer_arrays(wp):
    a = wp.array(np.arange(3, dtype=np.int32), requires_grad=True, device="cpu")
    x = wp.array(NUMBERS[:3], requires_grad=True, device="cpu")

    @wp.kernel
    def picked(a: wp.array(dtype=int), x: wp.array(dtype=float), out: wp.array(dtype=float)):
        wp.atomic_add(out, 0, x[a[wp.tid()]] * 2.0)

    out = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    with wp.Tape() as tape:
        wp.launch(picked, 3, [a, x], [out], device="cpu")
    tape.backward(out)
    return x.grad.numpy(), out.numpy()
