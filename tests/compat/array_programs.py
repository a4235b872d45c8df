"""Programs of NVIDIA Warp's users that make arrays, look at them and record launches."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from tests.compat.programs import program


@program
def arrays_of_composites_from_flat_data(wp):
    return (
        np.array(wp.array([1, 2, 3], dtype=wp.vec3, device="cpu").shape),
        wp.array([1, 2, 3, 4, 5, 6], dtype=wp.vec3, device="cpu").numpy(),
        np.array(wp.array(np.zeros((2, 18)), dtype=wp.mat33, device="cpu").shape),
        np.array(wp.array(np.eye(3), dtype=wp.mat33, device="cpu").shape),
        wp.array(np.arange(12.0), dtype=wp.vec3, shape=(2, 2), device="cpu").numpy(),
    )


@program
def bits_of_bfloat16(wp):
    bits = np.array([0x3F80, 0xC040, 0x0000], np.uint16)

    @wp.kernel
    def widened(x: wp.array(dtype=wp.bfloat16), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = float(x[i])

    y = wp.zeros(3, dtype=float, device="cpu")
    wp.launch(widened, 3, [wp.array(bits, dtype=wp.bfloat16, device="cpu")], [y], device="cpu")
    return y.numpy()


@program
def classes_of_arrays(wp):
    a = wp.zeros(3, dtype=float, device="cpu")
    note = wp.array(dtype=wp.vec3, ndim=2)
    return np.array(
        [
            isinstance(a, wp.array),
            isinstance(note, wp.array),
            note.dtype is wp.vec3,
            note.ndim == 2,
            note.shape == (0, 0),
            not isinstance(np.zeros(3), wp.array),
        ]
    )


@program
def operators_of_arrays(wp):
    a = wp.array(np.array([1.0, 2.0, 3.0], np.float32), device="cpu")
    b = wp.array(np.array([4.0, 5.0, 6.0], np.float32), device="cpu")
    v = wp.array(np.ones((2, 3), np.float32), dtype=wp.vec3, device="cpu")
    c = (a + b) * 2.0 - b / a
    c += 1.0
    return c.numpy(), (-c).numpy(), (v * 3.0 + v).numpy(), (b // a).numpy(), (a**2.0).numpy()


@program
def views(wp):
    v = wp.array(np.arange(12.0, dtype=np.float32).reshape(4, 3), dtype=wp.vec3, device="cpu")
    flat = v.view(wp.float32)
    back = flat.view(wp.vec3)
    return np.array(flat.shape), flat.numpy(), np.array(back.shape)


@program
def memory_at_an_address(wp):
    a = wp.array(np.arange(6.0, dtype=np.float32), device="cpu")
    b = wp.array(ptr=a.ptr, dtype=wp.vec3, shape=(2,), capacity=24, device="cpu")
    b.fill_(2.0)
    return a.numpy()


@program
def optimizers(wp):
    import importlib

    optim = importlib.import_module(f"{wp.__name__}.optim")
    x = wp.array(np.array([3.0, -2.0, 1.0], np.float32), device="cpu")
    y = wp.array(np.ones((2, 3), np.float32), dtype=wp.vec3, device="cpu")
    z = wp.array(np.array([3.0, -2.0], np.float32), device="cpu")
    adam = optim.Adam([x, y], lr=0.1)
    sgd = optim.SGD([z], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)
    for _ in range(3):
        adam.step([x, y])
        sgd.step([z])
    return x.numpy(), y.numpy(), z.numpy()


@program
def utilities(wp):
    a = wp.array(np.arange(6.0, dtype=np.float32), device="cpu")
    b = wp.array(np.arange(6, dtype=np.int32), device="cpu")
    sums, exclusive = wp.zeros_like(b), wp.zeros_like(b)
    wp.utils.array_scan(b, sums, inclusive=True)
    wp.utils.array_scan(b, exclusive, inclusive=False)
    keys = wp.array(np.array([3, 1, 2, 1, 0, 0, 0, 0], np.int32), device="cpu")
    values = wp.array(np.array([0, 1, 2, 3, 0, 0, 0, 0], np.int32), device="cpu")
    wp.utils.radix_sort_pairs(keys, values, 4)
    cast = wp.zeros(6, dtype=wp.float64, device="cpu")
    wp.utils.array_cast(a, cast)
    found, lengths = wp.zeros(6, dtype=int, device="cpu"), wp.zeros(6, dtype=int, device="cpu")
    runs = wp.array(np.array([1, 1, 1, 2, 2, 3], np.int32), device="cpu")
    count = wp.utils.runlength_encode(runs, found, lengths)
    return (
        np.array([wp.utils.array_sum(a), wp.utils.array_inner(a, a)]),
        sums.numpy(),
        exclusive.numpy(),
        keys.numpy()[:4],
        values.numpy()[:4],
        cast.numpy(),
        np.array([count]),
        found.numpy()[:3],
        lengths.numpy()[:3],
    )


@program
def questions_about_types(wp):
    types = wp.types
    return np.array(
        [
            types.type_is_vector(wp.vec3),
            types.type_is_matrix(wp.mat33),
            types.type_is_quaternion(wp.quat),
            types.type_is_transformation(wp.transform),
            types.type_is_float(wp.float64),
            types.type_is_int(wp.uint8),
            types.type_is_float(float),
            types.type_is_vector(float),
            types.type_size(wp.mat33),
            types.type_size_in_bytes(wp.vec3),
            types.is_array(wp.zeros(2, device="cpu")),
            types.types_equal(float, wp.float32),
        ]
    )


@program
def recorded_launches(wp):
    @wp.kernel
    def scaled(x: wp.array(dtype=float), s: float, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * s

    x = wp.array(np.arange(4.0, dtype=np.float32), device="cpu")
    y = wp.zeros(4, dtype=float, device="cpu")
    launch = wp.launch(scaled, 4, [x, 2.0], [y], device="cpu", record_cmd=True)
    launch.launch()
    first = y.numpy().copy()
    launch.set_param_by_name("s", 3.0)
    launch.launch()
    return first, y.numpy()
