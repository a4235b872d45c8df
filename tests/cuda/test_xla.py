"""The handlers for XLA on devices: stages, streams, launches, graphs, errors."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import GraphMode, jax_callable, jax_kernel, platforms, registration
from jax_ffi.platforms import embeds
from kernelcore import _native
from kernelcore.base.errors import KernelAssertionError
from kernelcore.compiler import code_store
from kernelcore.operators.gpu import GpuOperation, common_architecture, gpu_operation
from tests.cuda.fake import OUT_OF_MEMORY, FakeDriver
from tests.cuda.xla_frames import COMMAND_BUFFER_COMPATIBLE, CallSite, XlaError
from tests.cuda.xla_programs import HANDLERS, Program


@kc.kernel
def wave(x: kc.array(dtype=float), w: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = kc.sin(w * x[i]) * x[i]


@kc.kernel
def sums(x: kc.array2d(dtype=float), total: kc.array(dtype=float), seen: kc.array2d(dtype=float)):
    i, j = kc.tid()
    kc.atomic_add(total, i, x[i, j])
    if x[i, j] > 2.0:
        seen[i, j] = x[i, j]


@kc.kernel
def step(x: kc.array(dtype=float), s: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] + s * x[i]


@kc.kernel
def positive(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    assert x[i] > 0.0, "positive"
    y[i] = x[i]


@kc.kernel
def shifted(offset: kc.vec3, points: kc.array(dtype=kc.vec3), out: kc.array(dtype=kc.vec3)):
    i = kc.tid()
    out[i] = points[i] + offset


@kc.struct
class Body:
    mass: float
    place: kc.vec3


@kc.kernel
def energy(bodies: kc.array(dtype=Body), g: float, sun: Body, e: kc.array(dtype=float)):
    i = kc.tid()
    e[i] = g * sun.mass * bodies[i].mass / kc.length(bodies[i].place - sun.place)


@kc.kernel
def narrow(
    x: kc.array(dtype=kc.float16),
    b: kc.array(dtype=kc.bfloat16),
    n: kc.int8,
    u: kc.uint32,
    is_counted: kc.bool,
    y: kc.array(dtype=kc.float16),
    count: kc.array(dtype=kc.uint32),
):
    i = kc.tid()
    y[i] = x[i] * kc.float16(b[i]) + kc.float16(n)
    if is_counted:
        count[i] = u + kc.uint32(i)


def twice(x: kc.array(dtype=float), s: float, y: kc.array(dtype=float)):
    half = kc.zeros(x.shape, dtype=float)
    kc.launch(step, x.shape, [x, 0.5], [half])
    y.zero_()
    kc.launch(step, x.shape, [half, s], [y])


def of_wave(x: Any, w: Any) -> Any:
    return jax_kernel(wave)(x, w)[0]


def pullback(x: Any, w: Any, ct: Any) -> Any:
    return jax.vjp(of_wave, x, w)[1](ct)


def force(mass: Any, place: Any, g: Any, sun_mass: Any, sun_place: Any, ct: Any) -> Any:
    def of(mass: Any, place: Any, g: Any) -> Any:
        bodies, sun = {"mass": mass, "place": place}, {"mass": sun_mass, "place": sun_place}
        return jax_kernel(energy)(bodies, g, sun)[0]

    return jax.vjp(of, mass, place, g)[1](ct)


def in_program(mode: GraphMode) -> Callable[[Any, Any], Any]:
    return jax_callable(twice, graph_mode=mode)


X = jnp.linspace(-1.0, 3.0, 300, dtype=jnp.float32)
TABLE = jnp.arange(12, dtype=jnp.float32).reshape(3, 4)
POINTS = jnp.arange(15, dtype=jnp.float32).reshape(5, 3)


@pytest.fixture
def known(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The fake driver, which knows all kernels of programs that are lowered."""

    def learnt(operation: Any, architecture: str, on_device: Any) -> GpuOperation:
        on_gpu = gpu_operation(operation, architecture, on_device)
        driver.know(on_gpu.func, architecture)
        return on_gpu

    monkeypatch.setattr(platforms, "gpu_operation", learnt)
    return driver


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "traced_number": (of_wave, (X, 2.0)),
    "gradient": (pullback, (X, jnp.float32(2.0), X)),
    "batch": (jax.vmap(of_wave, (0, None)), (TABLE, 3.0)),
    "sums": (
        jax_kernel(sums, num_outputs=2, output_dims={"total": 3, "seen": (3, 4)}),
        (TABLE,),
    ),
    "in_out": (jax_kernel(step, in_out_argnames="y"), (X, 2.0, X)),
    "components": (jax_kernel(shifted), (POINTS[0], POINTS)),
    "struct_gradient": (
        force,
        (1 + POINTS[:, 0], POINTS, jnp.float32(2), jnp.float32(3), -1 - POINTS[1], POINTS[:, 1]),
    ),
    "narrow_types": (
        jax_kernel(narrow, 2),
        (
            *(X.astype(jnp.float16), X.astype(jnp.bfloat16)),
            *(jnp.int8(-3), jnp.uint32(2**31), jnp.bool_(True)),
        ),
    ),
    "no_elements": (of_wave, (jnp.zeros(0, jnp.float32), 2.0)),
    "program": (in_program(GraphMode.JAX), (X, jnp.float32(2.0))),
    "graph": (in_program(GraphMode.WARP), (X, jnp.float32(2.0))),
}


@pytest.mark.parametrize("name", CASES)
def test_devices_and_the_cpu_give_the_same_results(name: str, known: FakeDriver) -> None:
    function, args = CASES[name]
    program = Program(function, *args)
    expected = jax.tree.leaves(jax.jit(function)(*args))
    for device in ("cuda:0", "cuda:1"):
        for found, wanted in zip(program(*args, device=device), expected, strict=True):
            np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-6)


def test_every_stage_does_its_part(known: FakeDriver) -> None:
    program = Program(jax_kernel(sums, 2, output_dims={"total": 3, "seen": (3, 4)}), TABLE)
    known.clear()
    stream = kc.Stream("cuda:1")
    (args,) = program.place([TABLE], "cuda:1")
    before = set(known.calls())
    assert "cuModuleLoadDataEx" not in str(before)
    program.initialize("cuda:1", stream.cuda_stream)
    loads = known.calls("cuModuleLoadDataEx", "cuLaunchKernel")
    assert [line.split()[1] for line in loads] == ["1"]
    known.clear()
    program.run([args], "cuda:1")
    (launch,) = known.calls("cuLaunchKernel")
    queue = launch.split()[4]
    assert queue.startswith("own")
    calls = [line for line in known.calls() if queue in line.split()]
    names = [line.split()[0] for line in calls]
    assert names == ["cuMemsetD8Async", "cuMemsetD8Async", "cuLaunchKernel"]
    assert known.calls("cuModuleLoadDataEx", "cuCtxSynchronize", "cuStreamSynchronize") == []
    assert [line.split()[1:4] for line in calls[:2]] == [["0", "12", queue], ["0", "48", queue]]
    assert "3x4x1x1x1x1x1x1" in calls[2]


def test_numbers_that_the_device_computes_are_read_there(known: FakeDriver) -> None:
    program = Program(jax_kernel(wave, block_dim=64), X[:8], 0.5)
    x, w = program.place([X[:8], 0.5], "cuda:0")
    program.initialize("cuda:0", 1)
    known.clear()
    (y,) = program.run([x, w], "cuda:0")
    assert known.last_block() == struct.pack("<QqqQQqq", x.ptr, 8, 4, w.ptr, y.ptr, 8, 4)
    (launch,) = known.calls("cuLaunchKernel")
    assert launch.split()[2:4] == ["1", "64"]
    assert known.calls("cuMemcpyDtoHAsync") == []


def test_derivatives_choose_their_own_blocks(known: FakeDriver) -> None:
    def run(x: Any) -> Any:
        return jax.vjp(lambda x: jax_kernel(wave, block_dim=1024)(x, 0.5)[0], x)

    program = Program(lambda x, ct: (run(x)[0], run(x)[1](ct)[0]), X, X)
    program(X, X)
    launches = [line.split()[2:4] for line in known.calls("cuLaunchKernel")]
    assert sorted(launches) == [["1", "1024"], ["2", "256"]]


def test_launches_may_be_captured_and_own_graphs_not(known: FakeDriver) -> None:
    args = X, jnp.float32(2.0)
    sites = [Program(in_program(mode), *args).site for mode in (GraphMode.JAX, GraphMode.WARP)]
    assert [s.traits("execute") for s in sites] == [COMMAND_BUFFER_COMPATIBLE, 0]


def test_graphs_are_captured_once_per_buffers(known: FakeDriver) -> None:
    program = Program(in_program(GraphMode.WARP), X, jnp.float32(2.0))
    program.initialize("cuda:0", 1)
    args = program.place([X, 2.0], "cuda:0")
    known.clear()
    (first,) = program.run(args, "cuda:0")
    assert len(known.calls("cuGraphInstantiate")) == 1
    known.clear()
    expected, address = first.numpy(), first.ptr
    del first
    gc.collect()
    (again,) = program.run(args, "cuda:0")
    assert again.ptr == address
    calls = known.calls("cuGraphLaunch", "cuGraphInstantiate", "cuLaunchKernel")
    assert [line.split()[0] for line in calls] == ["cuGraphLaunch"]
    np.testing.assert_array_equal(again.numpy(), expected)


def test_old_graphs_are_dropped(known: FakeDriver) -> None:
    program = Program(in_program(GraphMode.WARP), X[:4], jnp.float32(2.0))
    program.initialize("cuda:0", 1)
    args = program.place([X[:4], 2.0], "cuda:0")
    known.clear()
    kept = [program.run(args, "cuda:0") for _ in range(20)]
    assert len({made.ptr for (made,) in kept}) == 20
    assert len(known.calls("cuGraphInstantiate")) == 20
    assert len(known.calls("cuGraphExecDestroy")) == 4


def test_a_failed_assertion_is_told_by_the_next_run_once(known: FakeDriver) -> None:
    program = Program(jax_kernel(positive), X)
    program.initialize("cuda:0", 1)
    args = program.place([X], "cuda:0")
    program.run(args, "cuda:0")
    program.initialize("cuda:1", 1)
    program.run(program.place([jnp.ones(300)], "cuda:1"), "cuda:1")
    with pytest.raises(XlaError, match=r"positive[^$]*in an earlier run"):
        program.initialize("cuda:0", 1)
    program.initialize("cuda:0", 1)
    program.run(args, "cuda:0")
    with pytest.raises(KernelAssertionError, match="positive"):
        kc.synchronize()
    program.initialize("cuda:0", 1)


def test_no_device_is_guessed(known: FakeDriver) -> None:
    with pytest.raises(XlaError, match="XLA does not name the device"):
        Program(of_wave, X, 2.0).site.initialize(-1, 1)


@pytest.mark.parametrize("mode", [GraphMode.JAX, GraphMode.WARP])
def test_no_stream_is_guessed(mode: GraphMode, known: FakeDriver) -> None:
    program = Program(in_program(mode), X, jnp.float32(2.0))
    program.initialize("cuda:0", 0)
    args = program.place([X, 2.0], "cuda:0")
    with pytest.raises(XlaError, match="XLA does not name the stream"):
        program.run(args, "cuda:0")


def test_lowering_makes_no_context(known: FakeDriver) -> None:
    assert common_architecture() == "sm_90"
    Program(of_wave, X, 2.0)
    assert known.calls("cuDevicePrimaryCtxRetain") == []


def test_a_failure_of_the_driver_is_an_error_of_xla(known: FakeDriver) -> None:
    program = Program(of_wave, X, 2.0)
    known.fail("cuModuleLoadDataEx", 218)
    with pytest.raises(XlaError, match="the driver refuses the code of 'kc_"):
        program.initialize("cuda:0", 1)
    program.initialize("cuda:0", 1)
    args = program.place([X, 2.0], "cuda:0")
    known.fail("cuLaunchKernel", OUT_OF_MEMORY)
    with pytest.raises(XlaError, match="cuLaunchKernel") as found:
        program.run(args, "cuda:0")
    assert found.value.args[0] == 8
    program.run(args, "cuda:0")


def test_call_sites_with_equal_attributes_share_a_plan(known: FakeDriver) -> None:
    # On the processor, by an eager call that keeps a plan of its own.
    want = of_wave(of_wave(of_wave(X, 2.0), 2.0), 2.0)
    gc.collect()
    count = _native.count_xla_plans()
    chain = Program(lambda x: of_wave(of_wave(of_wave(x, 2.0), 2.0), 2.0), X)
    assert len(chain.sites) == 3
    assert _native.count_xla_plans() == count + 1
    (found,) = chain(X)
    np.testing.assert_array_equal(found, want)
    del chain
    gc.collect()
    assert _native.count_xla_plans() == count


def test_devices_run_at_the_same_time(known: FakeDriver) -> None:
    # Of one plan, which both devices load and launch.
    programs = {d: Program(lambda x: of_wave(x, 2.0), X) for d in ("cuda:0", "cuda:1")}

    def runs(device: str) -> list[np.ndarray]:
        return [programs[device](X, device=device)[0] for _ in range(10)]

    with ThreadPoolExecutor(2) as pool:
        found = [made for several in pool.map(runs, programs) for made in several]
    assert len(found) == 20
    expected = of_wave(X, 2.0)
    for made in found:
        np.testing.assert_array_equal(made, expected)
    assert len(known.calls("cuModuleLoadDataEx")) == 2


def attributes_of(**changes: Any) -> dict[str, Any]:
    return {
        "key": "ab" * 16,
        "name": "unknown",
        "template": np.zeros(0, np.uint8),
        "slots": np.zeros(0, np.int64),
        "messages": np.zeros(0, np.uint8),
        "accumulated": np.zeros(0, np.int64),
        "grid": np.array([-1, 0, 4]),
        "block_dim": np.int64(0),
        **changes,
    }


def test_kernels_are_found_by_their_hash_or_in_the_program(driver: FakeDriver) -> None:
    site = HANDLERS["kernelcore_launch"]
    with pytest.raises(XlaError, match=r"'unknown'.*import the module that defines it") as found:
        CallSite(site, attributes_of())
    assert found.value.args[0] == 5
    CallSite(site, attributes_of(image=np.frombuffer(b".version 7.0", np.uint8)))
    _native.register_image("cd" * 16, b".version 7.0")
    CallSite(site, attributes_of(key="cd" * 16))


def test_code_is_found_in_the_disk_cache(
    known: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation = jax_kernel(wave, launch_dims=8).default_operation()
    on_gpu = gpu_operation(operation, "sm_86", (1,))
    monkeypatch.setattr(code_store.GPU, "known", {})
    count = _native.count_registered_kernels()
    CallSite(HANDLERS["kernelcore_launch"], attributes_of(key=on_gpu.code.key))
    assert _native.count_registered_kernels() == count + 1


@pytest.mark.parametrize("is_computed", [False, True])
def test_code_of_a_kernel_that_was_wrapped_here_is_made(
    known: FakeDriver, monkeypatch: pytest.MonkeyPatch, is_computed: bool
) -> None:
    wrapped = jax_kernel(wave)
    on_gpu = gpu_operation(wrapped.default_operation(), "sm_90", (1,) if is_computed else ())
    monkeypatch.setattr(registration, "stored_image", lambda key: None)
    monkeypatch.setattr(
        registration.native, "register_image", lambda key, image: made.append((key, image))
    )
    made: list[tuple[str, bytes]] = []
    registration.register_known(on_gpu.code.key, b"")
    assert made == []
    monkeypatch.setattr(registration, "has_gpu", lambda: True)
    registration.register_known("no-such-hash", b"")
    assert made == []
    registration.register_known(on_gpu.code.key, b"")
    assert made == [(on_gpu.code.key, on_gpu.code.image)]


def test_embedded_code_runs_on_every_gpu(known: FakeDriver) -> None:
    with embeds(True):
        program = Program(lambda x: of_wave(x, 2.0), X)
    assert ".target sm_75" in program.image().decode()
    np.testing.assert_array_equal(program(X)[0], of_wave(X, 2.0))
