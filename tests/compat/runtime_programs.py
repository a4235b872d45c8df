"""Programs of NVIDIA Warp's users: launches, maps, modules, settings, other libraries."""

# They are written for another library.
# ruff: noqa: E741, B023
# pyright: basic, reportInvalidTypeForm=false, reportRedeclaration=false, reportCallIssue=false
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false
# mypy: ignore-errors

import numpy as np

from tests.compat.programs import outputs, program
from tests.compat.tape_programs import squares_of, with_grad

NUMBERS = np.array([3.0, -1.0, 4.0, -1.5, 5.0, 9.0], np.float32)


@program
def launches_of_several_dimensions(wp):
    @wp.kernel
    def numbered(out: wp.array4d(dtype=int)):
        i, j, k, l = wp.tid()
        out[i, j, k, l] = i * 1000 + j * 100 + k * 10 + l

    out = wp.zeros((2, 3, 2, 4), dtype=int)
    wp.launch(numbered, (2, 3, 2, 4), outputs=[out], device="cpu")
    return out.numpy()


@program
def launches_with_named_arguments(wp):
    squares = squares_of(wp)
    x, y = wp.array(NUMBERS, device="cpu"), wp.zeros(6, dtype=float, device="cpu")
    wp.launch(
        kernel=squares,
        dim=[6],
        inputs=(x,),
        outputs=(y,),
        device="cpu",
        record_tape=False,
        max_blocks=0,
        block_dim=64,
    )
    return y.numpy()


@program
def launches_over_numpy_arrays(wp):
    squares = squares_of(wp)
    y = np.zeros(6, np.float32)
    wp.launch(squares, 6, [NUMBERS, y], device="cpu")
    return y


@program
def scalar_arguments_of_all_types(wp):
    @wp.kernel
    def taken(
        a: wp.int8,
        b: wp.uint64,
        c: wp.float64,
        d: bool,
        v: wp.vec2,
        m: wp.mat22,
        out: wp.array(dtype=wp.float64),
    ):
        out[0] = wp.float64(a) + wp.float64(b) + c
        out[1] = wp.float64(v[0] + m[1, 0])
        if d:
            out[2] = wp.float64(1.0)

    inputs = [-3, 2**40, 0.25, True, wp.vec2(1.0, 2.0), wp.mat22(1.0, 2.0, 3.0, 4.0)]
    return *outputs(wp, taken, 1, inputs, (3, wp.float64)), *outputs(
        wp, taken, 1, [wp.int8(-3), 7, 0.5, False, (5, 6), [[1, 2], [3, 4]]], (3, wp.float64)
    )


@program
def relaunched_commands(wp):
    squares = squares_of(wp)
    x, y = wp.array(NUMBERS, device="cpu"), wp.zeros(6, dtype=float, device="cpu")
    other = wp.array(NUMBERS + 1.0, device="cpu")
    command = wp.launch(squares, 6, [x], [y], device="cpu", record_cmd=True)
    command.set_param_at_index(0, other)
    command.set_dim(3)
    command.launch()
    return y.numpy()


@program
def commands_with_all_parameters(wp):
    squares = squares_of(wp)
    x, y = wp.array(NUMBERS, device="cpu"), wp.zeros(6, dtype=float, device="cpu")
    z = wp.zeros(6, dtype=float, device="cpu")
    command = wp.launch(squares, 6, [x], [y], device="cpu", record_cmd=True)
    command.set_params([y, z])
    command.launch()
    wp.launch(squares, 6, [x], [y], device="cpu")
    command.launch()
    return z.numpy()


@program
def mapped_functions(wp):
    @wp.func
    def scaled(x: float, s: float):
        return x * s + 1.0

    x = wp.array(NUMBERS, device="cpu")
    return wp.map(scaled, x, 2.0).numpy(), wp.map(wp.abs, x).numpy(), wp.map(wp.add, x, x).numpy()


@program
def mapped_lambdas(wp):
    n = wp.array(np.array([-7, 7, 5, 0], np.int32), device="cpu")
    x = wp.array(NUMBERS, device="cpu")
    rests = wp.map(lambda a: a % 4, n)
    squares = wp.map(lambda a: a * a + 1.0, x)
    return rests.numpy(), squares.numpy()


@program
def mapped_over_several_dimensions(wp):
    a = wp.array(np.arange(6.0, dtype=np.float32).reshape(2, 3), device="cpu")
    b = wp.array(np.arange(3.0, dtype=np.float32), device="cpu")
    out = wp.zeros((2, 3), dtype=float, device="cpu")
    wp.map(lambda x, y: x - y, a, b, out=out)
    return out.numpy()


@program
def mapped_functions_with_several_results(wp):
    @wp.func
    def both(x: float):
        return x + 1.0, int(x)

    a, b = wp.map(both, wp.array(NUMBERS, device="cpu"))
    return a.numpy(), b.numpy()


@program
def redefined_functions(wp):
    functions = []
    for k in range(3):
        s = wp.constant(float(k))

        @wp.func
        def scaled(x: float):
            return x * s

        functions.append(scaled)
    return np.array([functions[0] is not functions[1], functions[1] is not functions[2]])


@program
def settings(wp):
    wp.config.verify_fp = False
    wp.config.print_launches = False
    wp.set_module_options({"enable_backward": True, "fast_math": False, "max_unroll": 8})
    options = wp.get_module_options()
    return np.array(
        [
            wp.config.mode == "release",
            "enable_backward" in options,
            isinstance(wp.config.version, str),
        ]
    )


@program
def devices(wp):
    cpu = wp.get_device("cpu")
    with wp.ScopedDevice("cpu") as found:
        inner = found == cpu
    return np.array(
        [
            cpu.is_cpu,
            not cpu.is_cuda,
            str(cpu) == "cpu",
            cpu.alias == "cpu",
            inner,
            wp.is_cpu_available(),
            wp.is_device_available("cpu"),
            wp.get_preferred_device() is not None,
            len(wp.get_devices()) >= 1,
            not wp.is_mempool_supported("cpu"),
        ]
    )


@program
def modules(wp):
    @wp.kernel
    def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    wp.load_module(__name__, device="cpu")
    wp.force_load(device="cpu", modules=[squares.module])
    x = wp.array(NUMBERS, device="cpu")
    return outputs(wp, squares, 6, [x], float)


@program
def timers_and_synchronization(wp):
    times = {}
    with wp.ScopedTimer("step", print=False, dict=times, active=True):
        wp.synchronize()
        wp.synchronize_device("cpu")
    return np.array([len(times["step"]) == 1, times["step"][0] >= 0.0])


@program
def random_numbers(wp):
    @wp.kernel
    def drawn(seed: int, out: wp.array2d(dtype=float)):
        i = wp.tid()
        state = wp.rand_init(seed, i)
        out[i, 0] = wp.randf(state)
        out[i, 1] = wp.randf(state, -2.0, 3.0)
        out[i, 2] = float(wp.randi(state, 0, 100))
        out[i, 3] = wp.randn(state)
        out[i, 4] = float(wp.poisson(state, 3.0))
        out[i, 5] = wp.sample_unit_disk(state)[0]

    out = wp.zeros((4, 6), dtype=float)
    wp.launch(drawn, 4, [42], [out], device="cpu")
    return out.numpy()


@program
def noises(wp):
    @wp.kernel
    def noisy(x: wp.array(dtype=float), out: wp.array2d(dtype=float)):
        i = wp.tid()
        state = wp.rand_init(7)
        out[i, 0] = wp.noise(state, x[i])
        out[i, 1] = wp.noise(state, wp.vec2(x[i], 0.3))
        out[i, 2] = wp.pnoise(state, wp.vec3(x[i] + 8.0, 0.3, 0.7), 4, 4, 4)
        out[i, 3] = wp.curlnoise(state, wp.vec2(x[i], 0.6))[1]

    out = wp.zeros((6, 4), dtype=float)
    wp.launch(noisy, 6, [wp.array(NUMBERS * 0.37)], [out], device="cpu")
    return out.numpy()


@program
def sums_and_products_of_arrays(wp):
    a = wp.array(np.arange(12.0, dtype=np.float32).reshape(3, 4), device="cpu")
    v = wp.array(np.arange(6.0, dtype=np.float32).reshape(2, 3), dtype=wp.vec3, device="cpu")
    b = wp.array(NUMBERS, device="cpu")
    return (
        wp.utils.array_sum(a, axis=0).numpy(),
        wp.utils.array_sum(a, axis=1).numpy(),
        np.array(wp.utils.array_sum(v)),
        np.array(wp.utils.array_inner(v, v)),
        np.array(wp.utils.array_sum(b, value_count=3)),
    )


@program
def captured_launches(wp):
    squares = squares_of(wp)
    x, y = wp.array(NUMBERS, device="cpu"), wp.zeros(6, dtype=float, device="cpu")
    with wp.ScopedCapture(device="cpu") as capture:
        wp.launch(squares, 6, [x], [y], device="cpu")
    x.fill_(2.0)
    wp.capture_launch(capture.graph)
    return y.numpy()


@program
def tensors_of_torch(wp):
    import torch

    squares = squares_of(wp)
    t = torch.tensor(NUMBERS, requires_grad=True)
    x = wp.from_torch(t)
    y = with_grad(wp, np.zeros(6, np.float32))
    with wp.Tape() as tape:
        wp.launch(squares, 6, [x], [y], device="cpu")
    tape.backward(grads={y: wp.ones_like(y)})
    v = wp.from_torch(torch.arange(6.0).reshape(2, 3), dtype=wp.vec3)
    plain = wp.from_torch(torch.ones(3), requires_grad=True)
    return (
        t.grad.numpy(),
        v.numpy(),
        wp.to_torch(y).detach().numpy(),
        np.array(plain.grad is not None),
    )


@program
def native_functions(wp):
    @wp.func_native("return x * x + 1.0f;")
    def square(x: float) -> float: ...

    @wp.kernel
    def applied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = square(x[i])

    return outputs(wp, applied, 6, [wp.array(NUMBERS)], float)


@program
def dlpack_and_numpy_protocols(wp):
    a = wp.array(NUMBERS, device="cpu")
    b = wp.from_dlpack(np.arange(3.0, dtype=np.float32))
    return np.from_dlpack(a), b.numpy(), np.array(a.__array_interface__["shape"])


@program
def curl_noise_of_space_and_time(wp):
    @wp.kernel
    def fields(p: wp.array(dtype=wp.vec4), out: wp.array2d(dtype=wp.vec3)):
        i = wp.tid()
        state = wp.rand_init(3, i)
        q = p[i]
        out[i, 0] = wp.curlnoise(state, wp.vec3(q[0], q[1], q[2]))
        out[i, 1] = wp.curlnoise(state, wp.vec3(q[0], q[1], q[2]), wp.uint32(3), 1.5, 0.25)
        out[i, 2] = wp.curlnoise(state, q, octaves=wp.uint32(2))

    points = np.linspace(-2.0, 2.0, 40, dtype=np.float32).reshape(10, 4)
    out = wp.zeros((10, 3), dtype=wp.vec3, device="cpu")
    wp.launch(fields, 10, [wp.array(points, dtype=wp.vec4, device="cpu")], [out], device="cpu")
    return out.numpy()
