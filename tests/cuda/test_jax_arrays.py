"""Arrays and devices of JAX that are GPUs, as far as JAX without one can have them."""

from __future__ import annotations

from dataclasses import dataclass
from mmap import mmap
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import kernelcore as kc
from jax_ffi import device_from_jax, device_to_jax, from_jax, interop, to_jax
from tests.cuda.fake import FakeDriver


@dataclass
class Gpu:
    """What JAX says of a GPU."""

    local_hardware_id: int
    platform: str = "gpu"


class OnGpu(mmap):
    """An array that JAX has on a GPU: of its type, with buffers that it refuses, and DLPack."""

    def __new__(cls, memory: kc.Array) -> OnGpu:
        self = super().__new__(cls, -1, 1)
        self.close()
        self.memory = memory
        return self

    memory: kc.Array

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return type(jnp.zeros(1))

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, **options: Any) -> Any:
        return self.memory.__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.memory.__dlpack_device__()


def test_devices_are_those_of_the_hardware(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert device_from_jax(Gpu(1)) == "cuda:1"
    # A process of several uses some of the GPUs, whose numbers JAX keeps.
    only: list[Any] = [Gpu(1)]
    monkeypatch.setattr(interop.jax, "local_devices", lambda backend=None: only)
    assert device_to_jax("cuda:1") is only[0]
    with pytest.raises(kc.KernelArgumentError, match="JAX does not use 'cuda:0'"):
        device_to_jax("cuda:0")


def test_jax_without_gpus_says_so(driver: FakeDriver) -> None:
    with pytest.raises(kc.KernelArgumentError, match="JAX does not use 'cuda:0'"):
        device_to_jax("cuda:0")


def test_arrays_of_jax_are_shared(driver: FakeDriver) -> None:
    memory = kc.array(np.arange(6, dtype=np.float32).reshape(2, 3), device="cuda:1")
    given: Any = OnGpu(memory)
    driver.clear()
    found = from_jax(given, kc.vec3)
    assert (found.device, found.ptr, found.shape) == ("cuda:1", memory.ptr, (2,))
    assert driver.calls("cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuStreamSynchronize") == []


@pytest.mark.parametrize("dtype", [kc.uint16, kc.bfloat16], ids=str)
@pytest.mark.parametrize("is_read_only", [False, True])
def test_arrays_are_given_to_jax(
    is_read_only: bool, dtype: Any, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def take(array: Any, *, copy: bool | None) -> Any:
        assert copy is False
        assert not array.is_read_only
        taken.append((array.__dlpack_device__(), array.dtype, kc.from_dlpack(array).ptr))

    monkeypatch.setattr(interop.jnp, "from_dlpack", take)
    memory = kc.ones(8, dtype=kc.uint16, device="cuda:1")
    face = {**memory.__cuda_array_interface__, "data": (memory.ptr, is_read_only)}
    bits = kc.Array.sharing(interop.Interface(face, memory))
    array = bits.view(dtype) if dtype is kc.bfloat16 else bits
    assert array.is_read_only == is_read_only
    to_jax(array)
    assert taken == [((2, 1), array.dtype, array.ptr)]
