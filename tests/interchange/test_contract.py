"""What holds of every library's arrays that kernelcore takes: one table, one set of claims."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import paddle
import pytest
import torch

import kernelcore as kc
from tests.interchange.producers import (
    DTYPES,
    PRODUCERS,
    CudaInterfaceOnly,
    DLPackOnly,
    InterfaceOnly,
    OldDLPack,
    Producer,
    elements,
    read_only,
)

EVERY = pytest.mark.parametrize("producer", PRODUCERS.values(), ids=list(PRODUCERS))
SHARE = {
    "array": lambda source: kc.array(source, copy=False),
    "handle": lambda source: kc.ArrayMemory(source),
}


@kc.kernel
def double(x: kc.array(dtype=float), y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = 2.0 * x[i]


@kc.kernel
def double2(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i, j = kc.tid()
    y[i, j] = 2.0 * x[i, j]


def shared(source: Any, dtype: Any = None) -> kc.Array:
    return kc.array(source, dtype=dtype, copy=False)


@EVERY
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_shared_at_its_address(producer: Producer, dtype: str) -> None:
    if dtype not in producer.dtypes:
        assert producer.name in ("paddle", "interface", "method")
        return
    values = elements(dtype)
    source = producer.make(values.copy())
    for make in SHARE.values():
        found = make(source)
        assert found.ptr == producer.address(source)
        assert found.is_read_only is not producer.is_writable
    array = shared(source)
    assert str(array.dtype) == dtype
    assert array.numpy().dtype == values.dtype
    np.testing.assert_array_equal(array.numpy(), values)


@EVERY
def test_writes_are_seen_on_both_sides(producer: Producer) -> None:
    if not producer.is_writable:
        return
    source = producer.make(elements("float32"))
    array = shared(source)
    array[1, 1] = 50.0
    assert shared(source).numpy()[1, 1] == 50.0
    kc.launch(double2, dim=(4, 3), inputs=[array], outputs=[source])
    assert array.numpy()[1, 1] == 100.0


@EVERY
def test_complex_numbers_are_refused(producer: Producer) -> None:
    source = producer.make(np.zeros(3, np.complex64))
    with pytest.raises((kc.KernelArgumentError, kc.KernelTypeError), match=r"complex|no dtype"):
        shared(source)
    if producer.name not in ("interface", "method"):
        with pytest.raises(kc.KernelArgumentError, match="elements of the kernel language"):
            kc.from_dlpack(source)
    with pytest.raises(kc.KernelArgumentError, match="expected array of float32"):
        kc.launch(double, dim=3, inputs=[source], outputs=[kc.zeros(3)])


@EVERY
def test_strides_and_offsets(producer: Producer) -> None:
    if not producer.has_strides:
        return
    values = np.arange(60, dtype=np.float32).reshape(6, 10)
    part = values[1::2, 2:8:2].T
    source = producer.make(part)
    array = shared(source)
    assert array.strides == part.strides
    assert array.ptr == producer.address(source)
    np.testing.assert_array_equal(array.numpy(), part)
    out = kc.zeros(part.shape)
    kc.launch(double2, dim=part.shape, inputs=[source], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), 2 * part)


@pytest.mark.parametrize("name", ["numpy", "interface", "method"])
def test_negative_strides(name: str) -> None:
    values = np.arange(6, dtype=np.float32)
    array = shared(PRODUCERS[name].make(values[::-1]))
    np.testing.assert_array_equal(array.numpy(), values[::-1])
    assert array.strides == (-4,)


@EVERY
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()])
def test_empty_arrays_and_arrays_without_dimensions(
    producer: Producer, shape: tuple[int, ...]
) -> None:
    values = elements("float32", shape)
    array = shared(producer.make(values.copy()))
    assert array.shape == shape
    np.testing.assert_array_equal(array.numpy(), values)


@EVERY
def test_components_are_the_last_dimensions(producer: Producer) -> None:
    values = elements("float32", (4, 3))
    source = producer.make(values.copy())
    array = shared(source, dtype=kc.vec3)
    assert (array.shape, array.dtype, array.ptr) == ((4,), kc.vec3, producer.address(source))
    with pytest.raises(kc.KernelArgumentError, match="vec4"):
        shared(source, dtype=kc.vec4)
    with pytest.raises(kc.KernelArgumentError, match="int32"):
        shared(source, dtype=kc.int32)


READ_ONLY = {
    "numpy": lambda: read_only(elements("float32", (3,))),
    "jax": lambda: PRODUCERS["jax"].make(elements("float32", (3,))),
    "dlpack": lambda: DLPackOnly(read_only(elements("float32", (3,)))),
    "interface": lambda: InterfaceOnly(read_only(elements("float32", (3,)))),
    "bytes": lambda: memoryview(bytes(12)).cast("f"),
}


@pytest.mark.parametrize("make", READ_ONLY.values(), ids=list(READ_ONLY))
def test_read_only_memory_is_read_and_not_written(make: Any) -> None:
    source = make()
    array = shared(source)
    assert array.is_read_only
    before = array.numpy().copy()
    for target in (source, array, kc.ArrayMemory(source)):
        with pytest.raises(kc.KernelArgumentError, match="read-only"):
            kc.launch(double, dim=3, inputs=[kc.ones(3)], outputs=[target])
    with pytest.raises(kc.KernelArgumentError, match="read-only"):
        array.fill_(1.0)
    out = kc.zeros(3)
    kc.launch(double, dim=3, inputs=[source], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), 2 * before)
    np.testing.assert_array_equal(array.numpy(), before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arrays_of_jax_are_never_written(dtype: str) -> None:
    source = PRODUCERS["jax"].make(elements(dtype, (3,)))
    assert shared(source).is_read_only
    assert kc.ArrayMemory(source).is_read_only


@EVERY
def test_memory_outlives_its_producer(producer: Producer) -> None:
    values = elements("float32", (64, 64))
    source = producer.make(values.copy())
    arrays = [shared(source), shared(source)[3:, ::2], shared(shared(source))]
    del source
    gc.collect()
    for array, expected in zip(arrays, (values, values[3:, ::2], values), strict=True):
        np.testing.assert_array_equal(array.numpy(), expected)


@EVERY
def test_memory_is_let_go_with_its_last_consumer(producer: Producer) -> None:
    source = producer.make(elements("float32", (64, 64)))
    owner = source if producer.name in ("numpy", "torch", "jax") else None
    for _ in range(3):
        array, handle = shared(source), kc.ArrayMemory(source)
        array.numpy()
        del array, handle
    gc.collect()
    np.testing.assert_array_equal(shared(source).numpy()[0, :3], [0.0, 1.0, 2.0])
    if owner is not None:
        gone = weakref.ref(owner)
        del source, owner
        gc.collect()
        assert gone() is None


CONSUMERS = {
    "numpy": (np.from_dlpack, lambda a: a.ctypes.data),
    "torch": (torch.from_dlpack, lambda t: t.data_ptr()),
    "paddle": (paddle.from_dlpack, lambda t: t.data_ptr()),
    "kernelcore": (kc.from_dlpack, lambda a: a.ptr),
    "capsule": (lambda a: torch.from_dlpack(kc.to_dlpack(a)), lambda t: t.data_ptr()),
    "old_capsule": (lambda a: kc.from_dlpack(OldDLPack(a)), lambda a: a.ptr),
    "asarray": (np.asarray, lambda a: a.ctypes.data),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_consumers_share_and_keep_the_memory(name: str) -> None:
    take, address = CONSUMERS[name]
    array = kc.array(np.arange(12.0).reshape(4, 3), dtype=float)
    for part in (array, array[1:, ::2], array.transpose(), array[2], array[:0]):
        found = take(part)
        if part.size:
            assert address(found) == part.ptr
        np.testing.assert_array_equal(np.asarray(found), part.numpy())
    kept = take(array)
    expected = array.numpy().copy()
    gone = weakref.ref(array)
    del array, part, found
    gc.collect()
    # What only knows the array interface keeps the array itself.
    assert (gone() is None) is (name != "asarray")
    np.testing.assert_array_equal(np.asarray(kept), expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_exported(dtype: str) -> None:
    array = kc.array(elements(dtype))
    tensor = torch.from_dlpack(array)
    assert str(tensor.dtype) == f"torch.{dtype}"
    assert tensor.data_ptr() == array.ptr


def test_memory_is_freed_after_the_last_foreign_owner() -> None:
    values = np.arange(4.0)
    gone = weakref.ref(values)
    tensor = torch.from_dlpack(shared(values))
    del values
    assert gone() is not None
    del tensor
    for _ in range(2):  # The interpreter lets go between two steps of the main thread.
        gc.collect()
    assert gone() is None


def test_chains_through_all_libraries_end() -> None:
    values, take = np.arange(4, dtype=np.float32), CONSUMERS["paddle"][0]
    chain = take(shared(values))
    chain = torch.from_dlpack(shared(chain))
    chain = take(shared(chain))
    assert shared(chain).ptr == values.ctypes.data
    del chain
    assert values[3] == 3.0


def test_memory_that_no_driver_knows_is_refused() -> None:
    source = CudaInterfaceOnly()
    with pytest.raises(kc.KernelError, match=r"driver|of no memory of CUDA"):
        kc.ArrayMemory(source)
    with pytest.raises(kc.KernelError, match=r"driver|of no memory of CUDA"):
        kc.launch(double2, (3, 2), [source], [kc.zeros((3, 2))], device="cpu")


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (-1, 2)},
        {"shape": None},
        {"shape": (1 << 40, 1 << 40)},
        {"strides": (4,)},
        {"strides": (1 << 62, 4)},
        {"data": None},
        {"data": (0, False)},
        {"typestr": 7},
        {"mask": CudaInterfaceOnly()},
    ],
    ids=[
        *("shape below 0", "no shape", "vast shape", "few strides", "vast strides"),
        *("no data", "null", "typestr", "mask"),
    ],
)
def test_malformed_interfaces_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((BufferError, TypeError)):
        kc.ArrayMemory(CudaInterfaceOnly(**changes))


# Of every two libraries, each comes first in one of the orders.
ORDERS = (("kernelcore", "torch", "jax", "paddle"), ("paddle", "jax", "torch", "kernelcore"))

USE = """
import kernelcore as kc, jax.numpy as jnp, numpy as np, paddle, torch
for make in (torch.ones, jnp.ones, lambda n: paddle.ones([n]), lambda n: np.ones(n, np.float32)):
    array = kc.array(make(3), copy=False)
    assert array.list() == [1.0, 1.0, 1.0]
assert torch.from_dlpack(kc.ones(2)).sum() == 2.0
assert kc.from_torch is not kc.from_paddle
"""


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_every_order_works(order: tuple[str, ...]) -> None:
    run("\n".join(f"import {name}" for name in order) + USE)


def test_kernelcore_alone_imports_no_framework_and_no_compiler() -> None:
    code = (
        "import sys, kernelcore as kc\n"
        "array = kc.zeros(3); kc.from_numpy(array.numpy()); kc.from_dlpack(array)\n"
        "names = {'torch', 'jax', 'paddle', 'llvmlite', 'torch_ext', 'jax_ffi', 'paddle_ext'}\n"
        "print(sorted(names & set(sys.modules)))"
    )
    assert run(code) == "[]\n"
