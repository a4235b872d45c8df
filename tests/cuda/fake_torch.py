"""Operators as torch calls them, on tensors of the fake driver; see ``fake_torch.cc``."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import kernelcore as kc
from kernelcore import _native
from kernelcore.language.types import Scalar
from kernelcore.operators.gpu import gpu_operation
from kernelcore.operators.operation import Operation
from tests.cuda.fake import FakeDriver
from torch_ext import native

CPU, CUDA = 0, 1
ARCHITECTURE = "sm_90"


class FakeTorch:
    """A torch whose tensors are in memory of the fake driver's devices, or of the host."""

    def __init__(self, driver: FakeDriver, library: Path) -> None:
        self.driver = driver
        self._fake = ctypes.CDLL(str(library))
        self._fake.fake_torch_call.restype = ctypes.c_char_p
        _native.torch_bind(str(library))

    def set_stream(self, ordinal: int, handle: int) -> None:
        """Make a stream the current one of a device."""
        self._fake.fake_torch_stream(ordinal, ctypes.c_void_p(handle))

    def set_gradients(self, are_enabled: bool) -> None:
        """Whether autograd records calls of this thread."""
        self._fake.aoti_torch_grad_mode_set_enabled(ctypes.c_bool(are_enabled))

    def tensor(
        self, values: Any, dtype: Any = np.float32, *, ordinal: int | None = 0, step: int = 1
    ) -> int:
        """The handle of a new tensor, on a device or the host; each stride is ``step`` times it."""
        array = np.asarray(values, dtype)
        strides = [step * s // array.itemsize for s in np.empty(array.shape, dtype).strides]
        words = ctypes.c_int64 * max(array.ndim, 1)
        handle = ctypes.c_void_p()
        self._fake.aoti_torch_empty_strided(
            ctypes.c_int64(array.ndim),
            words(*array.shape),
            words(*strides),
            kc.dtype_from_numpy(array.dtype).index,
            CPU if ordinal is None else CUDA,
            ordinal or 0,
            ctypes.byref(handle),
        )
        self._fake.fake_torch_fill(handle, np.ascontiguousarray(array).tobytes())
        assert handle.value is not None
        return handle.value

    def read(self, tensor: int, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The elements of a tensor of the shape and dtype of ``like``."""
        buffer = ctypes.create_string_buffer(max(like.nbytes, 1))
        self._fake.fake_torch_read(ctypes.c_void_p(tensor), buffer)
        return np.frombuffer(buffer.raw[: like.nbytes], like.dtype).reshape(like.shape)

    def delete(self, tensor: int) -> None:
        """Let a tensor go."""
        self._fake.aoti_torch_delete_tensor_object(ctypes.c_void_p(tensor))


class FakeOperator:
    """An operation as torch's dispatcher calls it on CUDA tensors."""

    def __init__(self, torch: FakeTorch, operation: Operation, tensor_values: bool = False) -> None:
        scalars = [i for i, o in enumerate(operation.operands) if isinstance(o.type, Scalar)]
        on_gpu = gpu_operation(operation, ARCHITECTURE, scalars if tensor_values else [])
        torch.driver.know(on_gpu.func, ARCHITECTURE)
        self._torch = torch
        self._native = native.described(operation, tensor_values)
        self._results = operation.outputs

    def __call__(self, *stack: int | float) -> list[int]:
        """The handles of the results; tensors that are given belong to the call.

        Raises:
            RuntimeError: As torch says it.
        """
        slots = [_slot(value) for value in stack]
        words = (ctypes.c_uint64 * max(len(slots), len(self._results)))(*slots)
        function, context = _native.torch_boxed(self._native)
        call = self._torch._fake.fake_torch_call
        error = call(ctypes.c_void_p(function), words, ctypes.c_void_p(context))
        if error is not None:
            raise RuntimeError(error.decode())
        return list(words[: len(self._results)])

    def prepare(self, ordinal: int) -> None:
        """As eager calls do first."""
        self._native.prepare(ordinal)


def _slot(value: int | float) -> int:
    if isinstance(value, float):
        return int(np.float64(value).view(np.uint64))
    return value & (1 << 64) - 1
