"""register_ffi_callback: a Python function as a target of jax.ffi.ffi_call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.ffi
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from jax_ffi.interop import dtype_from_jax, shared_at
from kernelcore import Array, Device
from kernelcore.base.errors import KernelArgumentError, KernelDeviceError
from kernelcore.operators import CPU, _native, cuda_device

Numbers = npt.NDArray[Any]
# As native code gives them: dtype, address and shape.
RawBuffer = tuple[str, int, tuple[int, ...]]
Handler = Callable[[Sequence[RawBuffer], Sequence[RawBuffer], Mapping[str, Any], int, int], object]
Callback = Callable[[list[Any], list[Any], dict[str, Any], "Context"], object]

_PLATFORMS = {"cpu": "cpu", "CUDA": "cuda"}
_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
# XLA keeps the address of a target, which it registers once, for as long as the process lives.
_targets: dict[tuple[str, str], _Target] = {}


@dataclass(frozen=True, slots=True)
class Context:
    """Where a callback runs.

    Attributes:
        stream: The CUDA stream as an address; None on the CPU.
        device: The device.
    """

    stream: int | None
    device: Device


def call_loan() -> Any:
    """What the memory of one call is lent by; it ends when the function returns."""
    return _native.Loan(
        "one over memory of XLA, kept beyond the call that it was made for",
        "copy it during the call, with kc.array(x) or x.clone()",
    )


class HostBuffer:
    """Memory of an operand or a result on the CPU, lent until the callback returns.

    Data arrays of it refuse every use after that. NumPy and other libraries cannot: copy the arrays
    that are made with ``numpy()``, ``numpy.asarray`` or DLPack if they are kept.

    Attributes:
        dtype: The NumPy dtype.
        shape: The extents, components of elements included.
    """

    def __init__(self, raw: RawBuffer, loan: Any, *, is_read_only: bool) -> None:
        name, address, self.shape = raw
        self._loan = loan
        self.dtype = np.dtype(jnp.dtype(name))
        size_bytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        memory: Any = (ctypes.c_char * size_bytes).from_address(address) if size_bytes else b""
        self._memory: Numbers = np.frombuffer(memory, self.dtype).reshape(self.shape)
        if is_read_only:
            self._memory.flags.writeable = False

    @property
    def _array(self) -> Numbers:
        self._loan.require()
        return self._memory

    def numpy(self) -> Numbers:
        """A NumPy array of the same memory; that of an operand is read-only."""
        return self._array

    def array(self, dtype: Any = None) -> Array:
        """A data array of the same memory, likewise.

        Args:
            dtype: The type of an element; the last dimensions are its components.
        """
        found = Array.sharing(self._array, dtype)
        found.limit_to(self._loan)
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Numbers:
        return np.array(self._array, dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.dtype.isbuiltin != 1:
            raise AttributeError("a dtype of ml_dtypes: NumPy asks __array__ then, which keeps it")
        return self._array.__array_interface__

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class CudaBuffer:
    """Memory of an operand or a result on a GPU, lent until the callback returns; see HostBuffer.

    Attributes:
        dtype: The NumPy dtype.
        shape: The extents, components of elements included.
    """

    def __init__(self, raw: RawBuffer, loan: Any, stream: int, *, is_read_only: bool) -> None:
        name, self._address, self.shape = raw
        self.dtype = np.dtype(jnp.dtype(name))
        self._loan = loan
        self._stream = stream
        self._is_read_only = is_read_only

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.dtype.isbuiltin != 1:
            raise AttributeError("a dtype of ml_dtypes: the protocol has none, but DLPack has")
        return self._interface()

    def _interface(self) -> dict[str, Any]:
        self._loan.require()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._address, self._is_read_only),
            "version": 3,
            "stream": self._stream,
        }

    def numpy(self) -> Numbers:
        """A copy of the elements, behind what is queued in the stream."""
        return self.array().numpy()

    def array(self, dtype: Any = None) -> Array:
        """A data array of the same memory; that of an operand is read-only.

        Args:
            dtype: The type of an element; the last dimensions are its components.
        """
        found = shared_at(self._interface(), dtype_from_jax(self.dtype))
        if dtype is not None:
            found = Array.sharing(found, dtype)
        found.limit_to(self._loan)
        return found

    def __dlpack__(self, **options: Any) -> Any:
        return self.array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array().__dlpack_device__()


def register_ffi_callback(name: str, func: Callback, graph_compatible: bool = True) -> None:
    """Make ``func`` the target ``name`` of ``jax.ffi.ffi_call``, on CPUs and CUDA GPUs.

    Args:
        name: The target. A function that was registered before is replaced, in compiled programs
            too.
        func: Called as ``func(inputs, outputs, attrs, ctx)`` whenever the program runs: lists of
            buffers, which launches and NumPy take as arrays; the attributes of the call by name;
            and a Context. It writes all elements of ``outputs``. What it does to buffers of GPUs,
            which have the ``__cuda_array_interface__``, it does in the stream of the Context. If
            it raises, so does the program.
        graph_compatible: Whether a CUDA graph may capture the call: ``func`` is not called when
            the graph is replayed. One that reads elements or waits is none that a graph captures.

    Raises:
        KernelArgumentError: ``name`` is not a string, or ``func`` cannot be called.
    """
    if not isinstance(name, str) or not name:
        raise KernelArgumentError(
            f"register_ffi_callback: expected a name, found {name!r}", remedy="give it as text"
        )
    if not callable(func):
        raise KernelArgumentError(
            f"register_ffi_callback: expected a function, found {type(func).__name__}",
            remedy="give a function func(inputs, outputs, attrs, ctx)",
        )
    for platform, kind in _PLATFORMS.items():
        register_handler(name, _handler(func, kind), platform, graph_compatible)


def register_handler(name: str, handler: Handler, platform: str, graph_compatible: bool) -> None:
    """Make ``handler``, which takes what native code gives, the target ``name``."""
    known = _targets.get((name, platform))
    if known is not None:
        known.handler, known.is_graph_compatible = handler, graph_compatible
        return
    target = _targets[name, platform] = _Target(handler, graph_compatible)
    address = ctypes.cast(target.entry, ctypes.c_void_p).value
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(address), platform=platform)


class _Target:
    """A native function that calls ``handler``, whichever that is by then."""

    def __init__(self, handler: Handler, is_graph_compatible: bool) -> None:
        self.handler = handler
        self.is_graph_compatible = is_graph_compatible
        self.entry = _HANDLER(self._run)

    def _run(self, frame: int) -> int:
        return _native.run_xla_callback(frame, self.handler, self.is_graph_compatible)


def _handler(func: Callback, kind: str) -> Handler:
    def handler(
        inputs: Sequence[RawBuffer],
        outputs: Sequence[RawBuffer],
        attributes: Mapping[str, Any],
        stream: int,
        device: int,
    ) -> None:
        def buffer(raw: RawBuffer, *, is_read_only: bool) -> Any:
            if kind == "cpu":
                return HostBuffer(raw, loan, is_read_only=is_read_only)
            return CudaBuffer(raw, loan, stream, is_read_only=is_read_only)

        loan = call_loan()
        try:
            func(
                [buffer(raw, is_read_only=True) for raw in inputs],
                [buffer(raw, is_read_only=False) for raw in outputs],
                {key: _attribute(value) for key, value in attributes.items()},
                Context(None, CPU) if kind == "cpu" else Context(stream, device_at(device, stream)),
            )
        finally:
            loan.end()

    return handler


def device_at(ordinal: int, stream: int) -> Device:
    """The GPU that XLA names, where a call is for ``stream``.

    Raises:
        KernelDeviceError: It names none, or no stream.
    """
    if ordinal < 0:
        raise KernelDeviceError("XLA does not say which GPU a call is for")
    if stream == 0:
        raise KernelDeviceError("XLA does not say in which stream a call is")
    return cuda_device(ordinal)


def _attribute(value: Any) -> Any:
    """An attribute as Python has it: text, a number, an array, or a dictionary of these."""
    if isinstance(value, Mapping):
        return {key: _attribute(one) for key, one in value.items()}
    if isinstance(value, str):
        return value
    dtype, data, is_scalar = value
    numbers = np.frombuffer(data, jnp.dtype(dtype))
    return numbers[0].item() if is_scalar else numbers
