"""Kernels keep denormals or flush them, as they ask, whatever mode torch has put a thread in."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp

import kernelcore as kc
from kernelcore.base.host import host
from kernelcore.compiler.native_code import content_hash
from kernelcore.launch.kernel import Kernel

ROWS, COLUMNS = 400, 200
LEAST = float(np.finfo(np.float32).tiny)


def softmax(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float), used: kc.array(dtype=float)):
    i = kc.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += kc.exp(x[i, j] - x[i, 0])
    for j in range(x.shape[1]):
        y[i, j] = kc.exp(x[i, j] - x[i, 0]) / total
        # The sums of one column in three are subnormal.
        kc.atomic_add(used, j, y[i, j] * 1.0e-3)


KEPT, FLUSHED = kc.kernel(softmax), kc.kernel(flush_denormals=True)(softmax)
OPTIONS: dict[str, Any] = {"launch_dims": "x.shape[0]", "outputs": ("y", "used")}
SHAPES = {"y": "x", "used": "x.shape[1]"}


@kc.kernel(flush_denormals=True)
def scaled(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


@kc.kernel
def plain(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


@kc.kernel(flush_denormals=False)
def kept(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = a * x[i]


@pytest.fixture
def config() -> Iterator[Any]:
    yield kc.config
    kc.config.flush_denormals = False


def rows() -> np.ndarray:
    """The weights of a softmax over a row go down to 1e-44; a third of them is subnormal."""
    x = np.linspace(0.0, -101.0, COLUMNS, dtype=np.float32)
    return np.repeat(x[None], ROWS, 0) * np.linspace(1, 1.001, ROWS, dtype=np.float32)[:, None]


def is_subnormal(x: Any) -> np.ndarray:
    x = np.abs(np.asarray(x))
    return (x > 0) & (x < np.finfo(x.dtype).tiny)


def launched(kernel: Kernel, threads: int) -> list[np.ndarray]:
    before = kc.num_threads()
    kc.set_num_threads(threads)
    x, y, used = rows(), np.zeros((ROWS, COLUMNS), np.float32), np.zeros(COLUMNS, np.float32)
    kc.launch(kernel, ROWS, [x], [y, used])
    kc.set_num_threads(before)
    return [y, used]


def by_torch(kernel: Kernel, threads: int) -> list[np.ndarray]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    op = kc.op(kernel, **OPTIONS, output_dims=SHAPES)
    x = torch.from_numpy(rows()).requires_grad_()
    y, used = op(x)
    (gradient,) = torch.autograd.grad((y, used), x, (torch.full_like(y, 1e-2), used.detach()))
    torch.set_num_threads(before)
    return [y.detach().numpy(), used.detach().numpy(), gradient.numpy()]


def by_jax(kernel: Kernel, threads: int) -> list[np.ndarray]:
    del threads
    op = kc.op(kernel, **OPTIONS, output_dims=SHAPES)

    @jax.jit
    def both(x: Any) -> Any:
        found, pull = jax.vjp(op, x)
        return *found, *pull(type(found)(jnp.full_like(found[0], 1e-2), found[1]))

    return [np.asarray(a) for a in both(jnp.asarray(rows()))]


def same_bits(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return all(
        np.array_equal(a.view("u4"), b.view("u4")) for a, b in zip(found, wanted, strict=True)
    )


@pytest.mark.parametrize("run", [launched, by_torch, by_jax])
@pytest.mark.parametrize("kernel", [KEPT, FLUSHED], ids=["kept", "flushed"])
@pytest.mark.usefixtures("eager_sharing")
def test_all_threads_and_frameworks_give_the_same_bits(
    kernel: Kernel, run: Callable[[Kernel, int], list[np.ndarray]]
) -> None:
    found = run(kernel, 1)
    assert same_bits(run(kernel, 2), found)
    assert same_bits(found[:2], launched(kernel, 2))
    for array in found:
        assert is_subnormal(array).any() == (kernel is KEPT)
    wanted = np.exp(rows().astype(float) - rows()[:, :1])
    wanted /= wanted.sum(1, keepdims=True)
    np.testing.assert_allclose(
        found[0], wanted, rtol=1e-4, atol=LEAST if kernel is FLUSHED else 1e-44
    )


def product(kernel: Kernel, x: float, a: float) -> float:
    return float(np.array(_bits(kernel, x, a), np.uint32).view(np.float32))


def _bits(kernel: Kernel, x: float, a: float) -> int:
    y = np.zeros(1, np.float32)
    kc.launch(kernel, 1, [np.full(1, x, np.float32), a], [y])
    return int(y.view(np.uint32)[0])


def test_operands_and_results_are_taken_for_zeros() -> None:
    assert product(kept, 1e-39, 1e8) == np.float32(1e-39) * np.float32(1e8)
    assert product(scaled, 1e-39, 1e8) == 0.0
    assert product(kept, 1e-30, 1e-10) == np.float32(1e-30) * np.float32(1e-10) > 0.0
    assert product(scaled, 1e-30, -1e-10) == 0.0
    assert np.signbit(product(scaled, 1e-30, -1e-10))


def test_the_mode_of_the_thread_is_given_back() -> None:
    assert product(scaled, 1e-30, 1e-10) == 0.0
    assert np.float32(1e-30) * np.float32(1e-10) > 0.0
    assert torch.set_flush_denormal(True)
    try:
        bits = [_bits(k, 1e-30, 1e-10) for k in (kept, scaled)]
        assert bits[0] > bits[1] == 0
        assert (torch.tensor([1e-30]) * 1e-10).item() == 0.0
    finally:
        torch.set_flush_denormal(False)


def test_doubles_are_flushed() -> None:
    @kc.kernel(flush_denormals=True)
    def halved(x: kc.array(dtype=kc.float64), y: kc.array(dtype=kc.float64)):
        i = kc.tid()
        y[i] = 0.5 * x[i]

    x, y = np.array([3e-308, 1.0]), np.zeros(2)
    kc.launch(halved, 2, [x], [y])
    assert y.tolist() == [0.0, 0.5]


def test_launches_and_operators_follow_the_setting(config: Any) -> None:
    ops = [kc.op(k) for k in (plain, scaled, kept)]
    x = torch.tensor([1e-30])
    for flushes in (False, True, False, True):
        config.flush_denormals = flushes
        assert (product(plain, 1e-30, 1e-10) == 0.0) is flushes
        assert product(scaled, 1e-30, 1e-10) == 0.0
        assert product(kept, 1e-30, 1e-10) > 0.0
        for given in (x, x.numpy(), jnp.asarray(x.numpy())):
            found = [float(np.asarray(op(given, 1e-10))[0]) for op in ops]
            assert [value == 0.0 for value in found] == [flushes, True, False]


def test_gradients_of_a_tape_are_flushed() -> None:
    x = kc.array([1.0], dtype=float, requires_grad=True)
    for kernel, flushes in ((scaled, True), (kept, False)):
        y = kc.zeros(1, dtype=float, requires_grad=True)
        with kc.Tape() as tape:
            kc.launch(kernel, 1, [x, 1e-30], [y])
        tape.backward(grads={y: kc.array([1e-10], dtype=float)})
        assert x.grad is not None
        assert x.grad.numpy()[0] == (0.0 if flushes else np.float32(1e-30) * np.float32(1e-10))
        tape.zero()


def test_compiled_graphs_and_batches_flush() -> None:
    op, x = kc.op(scaled), torch.full((3, 2), 1e-30)
    assert torch.compile(op, backend="aot_eager")(x[0], 1e-10).tolist() == [0.0, 0.0]
    assert not torch.vmap(lambda row: op(row, 1e-10))(x).any()
    batch = jax.vmap(lambda row: op(row, 1e-10))
    assert not np.asarray(jax.jit(batch)(jnp.asarray(x.numpy()))).any()
    assert not np.asarray(jax.jit(lambda x: op(x, 1e-10))(jnp.asarray(x[0].numpy()))).any()


def test_other_code_has_another_hash() -> None:
    hashes = {content_hash(k.func, host()) for k in (KEPT, FLUSHED)}
    assert len(hashes) == 2


def test_overloads_and_copies_keep_the_choice() -> None:
    @kc.kernel(flush_denormals=True)
    def twice(x: kc.array(dtype=Any), y: kc.array(dtype=Any)):
        i = kc.tid()
        y[i] = x[i] * x[i]

    for dtype in (np.float32, np.float64):
        small = np.full(1, np.sqrt(np.finfo(dtype).tiny) / 4, dtype)
        for kernel in (twice, copy.deepcopy(twice), pickle.loads(pickle.dumps(twice))):
            y = np.ones(1, dtype)
            kc.launch(kernel, 1, [small], [y])
            assert y[0] == 0.0


def test_gpus_flush_float32() -> None:
    wanted = {True: r"mul(\.rn)?\.ftz\.f32", False: r"mul(\.rn)?\.f32"}
    for kernel, flushes in ((scaled, True), (kept, False)):
        text = kernel.inspect("ptx")
        assert re.search(wanted[flushes], text)
        assert not re.search(wanted[not flushes], text)


def test_headers_of_exported_kernels_name_the_mode(tmp_path: Any) -> None:
    for kernel, word in ((scaled, "flush"), (kept, "keep")):
        _, header = kernel.export(tmp_path / f"{kernel.name}.o")
        assert f"and {word} denormals" in " ".join(header.read_text().split())


def test_gpus_flush_float32_in_remainders() -> None:
    @kc.kernel(flush_denormals=True)
    def rest(x: kc.array(dtype=float), d: float, y: kc.array(dtype=float)):
        i = kc.tid()
        y[i] = x[i] % d

    text = rest.inspect("ptx")
    assert re.search(r"sub(\.rn)?\.ftz\.f32", text)
    assert not re.search(r"\b(add|sub|mul|abs|setp\.\w+)(\.rn)?\.f32", text)


@pytest.mark.parametrize("value", [1, "yes"])
def test_other_values_are_refused(config: Any, value: object) -> None:
    with pytest.raises(kc.KernelArgumentError, match=r"flush_denormals: expected a bool, found"):
        kc.kernel(flush_denormals=value)(softmax)  # pyright: ignore
    with pytest.raises(kc.KernelArgumentError, match=r"flush_denormals: expected a bool, found"):
        config.flush_denormals = value


SIZE = 1 << 17
# Half of it is denormal, and so is a tenth, which is rounded.
SMALL = 2.0e-38


@kc.kernel
def shrink(
    x: kc.array(dtype=kc.float32), y: kc.array(dtype=kc.float32), total: kc.array(dtype=kc.float32)
):
    i = kc.tid()
    y[i] = x[i] * 0.5 + x[i] * 0.1
    kc.atomic_add(total, i % 7, x[i] * 1.0e-5)


@pytest.fixture
def flushing() -> Iterator[None]:
    threads = kc.num_threads()
    if not torch.set_flush_denormal(True):
        pytest.fail("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)
    kc.set_num_threads(threads)


def shrunk(threads: int) -> list[np.ndarray]:
    # Threads of the pool start in the mode of their maker.
    kc.set_num_threads(threads)
    x, y, total = np.full(SIZE, SMALL, np.float32), np.zeros(SIZE, "f4"), np.zeros(7, "f4")
    kc.launch(shrink, SIZE, [x], [y, total])
    return [a.view(np.uint32) for a in (y, total)]


def test_denormals_are_kept_on_every_thread(flushing: None) -> None:
    found = [shrunk(threads) for threads in (1, 2)]
    assert (torch.tensor([SMALL]) * 0.5).item() == 0.0
    torch.set_flush_denormal(False)
    wanted = shrunk(2)
    half = np.float32(SMALL) * np.float32(0.5) + np.float32(SMALL) * np.float32(0.1)
    assert (wanted[0].view(np.float32) == half).all()
    for arrays in found:
        for array, want in zip(arrays, wanted, strict=True):
            np.testing.assert_array_equal(array, want)


def test_a_mode_that_flushes_is_given_back(flushing: None) -> None:
    shrunk(2)
    assert (torch.tensor([SMALL]) * 0.5).item() == 0.0
