"""Tensors of the fake torch as Python objects, for calls of operators; see ``fake_tensor.cc``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kernelcore import _native
from kernelcore.operators.gpu import gpu_operation
from kernelcore.operators.operation import Operation
from tests.cuda.fake_torch import ARCHITECTURE, FakeTorch
from torch_ext import native


class FakeTensor:
    """A tensor; native code takes it for torch's own between ``use_with`` and ``use_torch``."""

    torch: ClassVar[FakeTorch]

    def __init__(self, handle: int, requires_grad: bool = False) -> None:
        self.handle = handle
        self.requires_grad = requires_grad

    @classmethod
    def use_with(cls, torch: FakeTorch) -> None:
        """Make these the tensors that calls of operators take."""
        cls.torch = torch
        api = ctypes.PyDLL(str(torch.driver.library)).fake_tensor_api
        api.restype, api.argtypes = ctypes.py_object, [ctypes.py_object]
        cls.__dlpack_c_exchange_api__ = api(cls)
        native.use_tensors(cls, FakeParameter)

    @classmethod
    def of(cls, values: Any, dtype: Any = np.float32, **options: Any) -> FakeTensor:
        """A new tensor, as ``FakeTorch.tensor`` makes it."""
        return cls(cls.torch.tensor(values, dtype, **options))

    def numpy(self, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Its elements, of the shape and dtype of ``like``."""
        return self.torch.read(self.handle, like)

    def __del__(self) -> None:
        self.torch.delete(self.handle)


class FakeParameter(FakeTensor):
    """Another class that is as good."""


def described(torch: FakeTorch, operation: Operation) -> _native.Operation:
    """``operation`` as native code takes it, whose code the fake driver knows."""
    torch.driver.know(gpu_operation(operation, ARCHITECTURE).func, ARCHITECTURE)
    return native.described(operation, tensor_values=False)


def entry(
    torch: FakeTorch,
    operation: Operation,
    slow: Callable[..., Any],
    differentiated: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """The fast entry of ``operation``."""
    return native.fast_entry(described(torch, operation), "fake", differentiated, slow)
