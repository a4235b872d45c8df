"""Calls of XLA handlers without XLA: the frames of its C API, filled in by hand."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, Structure, addressof, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

from kernelcore import _native

_CODES = {
    "bool": 1,
    "int8": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "uint8": 6,
    "uint16": 7,
    "uint32": 8,
    "uint64": 9,
    "float16": 10,
    "float32": 11,
    "float64": 12,
    "bfloat16": 16,
}
INSTANTIATE, INITIALIZE, EXECUTE = 0, 2, 3
COMMAND_BUFFER_COMPATIBLE = 1
_ARRAY, _DICTIONARY, _SCALAR, _STRING = 1, 2, 3, 4
_CALLBACK = ctypes.CFUNCTYPE(c_void_p, c_void_p)

# Functions of the API in the order of their fields.
_FUNCTIONS = (
    *("Error_Create", "Error_GetMessage", "Error_Destroy", "Handler_Register", "Stream_Get"),
    *("Type_Register", "ExecutionContext_Get", "State_Set", "State_Get", "DeviceMemory_Allocate"),
    *("DeviceMemory_Free", "ThreadPool_Schedule", "ThreadPool_NumThreads", "Future_Create"),
    *("Future_SetAvailable", "Future_SetError", "RunId_Get", "DeviceOrdinal_Get"),
)


def _struct(name: str, **fields: Any) -> Any:
    """A struct of the API, which starts with its size and its extensions."""
    rows = [("struct_size", c_size_t), ("extensions", c_void_p), *fields.items()]
    return type(name, (Structure,), {"_fields_": rows})


_Version = _struct("Version", major=c_int, minor=c_int)
_Api = _struct("Api", version=_Version, internal=c_void_p, **dict.fromkeys(_FUNCTIONS, c_void_p))
_Buffer = _struct("Buffer", dtype=c_int, data=c_void_p, rank=c_int64, dims=POINTER(c_int64))
_Values = _struct("Values", size=c_int64, types=POINTER(c_int), values=POINTER(c_void_p))
_Attrs = _struct(
    "Attrs",
    size=c_int64,
    types=POINTER(c_int),
    names=POINTER(c_void_p),
    values=POINTER(c_void_p),
)
_Frame = _struct(
    "Frame",
    api=c_void_p,
    ctx=c_void_p,
    stage=c_int,
    args=_Values,
    rets=_Values,
    attrs=_Attrs,
    future=c_void_p,
)
_Error = _struct("Error", message=c_char_p, code=c_int)
_State = _struct("State", ctx=c_void_p, stage=c_int, type_id=c_void_p, state=c_void_p)
_Stream = _struct("Stream", ctx=c_void_p, stream=c_void_p)
_TypeInfo = _struct("TypeInfo", deleter=c_void_p)
_Ordinal = _struct("Ordinal", ctx=c_void_p, ordinal=c_int)
_Metadata = type(
    "Metadata",
    (Structure,),
    {
        "_fields_": [
            *(("struct_size", c_size_t), ("version", _Version)),
            *(("traits", ctypes.c_uint32), ("state_type", c_int64)),
        ]
    },
)


class _Query(Structure):
    _fields_ = (
        *(("struct_size", c_size_t), ("type", c_int), ("next", c_void_p)),
        ("metadata", c_void_p),
    )


class _Span(Structure):
    _fields_ = (("data", c_char_p), ("size", c_size_t))


class _Scalar(Structure):
    _fields_ = (("dtype", c_int), ("value", c_void_p))


class _Array(Structure):
    _fields_ = (("dtype", c_int), ("size", c_size_t), ("data", c_void_p))


class XlaError(Exception):
    """What a handler returned: the code of the API and a message."""


class Memory:
    """A buffer of a call, in memory of a device."""

    def __init__(self, address: int, dtype: Any, shape: Sequence[int]) -> None:
        self.address, self.dtype, self.shape = address, np.dtype(dtype), tuple(shape)


class CallSite:
    """A custom call of a loaded program, driven as XLA drives it on GPUs."""

    def __init__(self, handlers: Mapping[str, object], attributes: Mapping[str, Any]) -> None:
        self._state: int | None = None
        self._handlers = {name: _address(capsule) for name, capsule in handlers.items()}
        self._kept: list[Any] = []
        self._attributes = self._attrs(attributes)
        self._error: tuple[int, str] | None = None
        self._stream = self._ordinal = 0
        self._api = _Api(struct_size=ctypes.sizeof(_Api))
        self._api.version = _Version(ctypes.sizeof(_Version), None, 0, 3)
        for name in ("Error_Create", "State_Set", "State_Get", "Stream_Get", "DeviceOrdinal_Get"):
            entry = self._keep(_CALLBACK(getattr(self, f"_{name.lower()}")))
            setattr(self._api, name, ctypes.cast(entry, c_void_p))
        if "instantiate" in handlers:
            self._call("instantiate", INSTANTIATE, (), ())

    def __del__(self) -> None:
        if self._state is not None:
            info = _TypeInfo.from_address(_address(_native.xla_cuda_type_info, None))
            _CALLBACK(info.deleter)(self._state)

    def initialize(self, ordinal: int, stream: int) -> None:
        """The stage before a run, on a device."""
        self._ordinal, self._stream = ordinal, stream
        if "initialize" in self._handlers:
            self._call("initialize", INITIALIZE, (), ())

    def execute(self, operands: Sequence[Memory], results: Sequence[Memory]) -> None:
        """A run, on the device of ``initialize``."""
        self._call("execute", EXECUTE, operands, results)

    def traits(self, stage: str) -> int:
        """What the handler of a stage says of itself."""
        metadata = _Metadata(ctypes.sizeof(_Metadata))
        query = _Query(ctypes.sizeof(_Query), 1, None, addressof(metadata))
        frame = _Frame(struct_size=ctypes.sizeof(_Frame), extensions=addressof(query))
        assert not _CALLBACK(self._handlers[stage])(addressof(frame))
        assert (metadata.version.major, metadata.version.minor) == (0, 1)
        return metadata.traits

    def _call(
        self, name: str, stage: int, operands: Sequence[Memory], results: Sequence[Memory]
    ) -> None:
        frame = _Frame(struct_size=ctypes.sizeof(_Frame), api=addressof(self._api), stage=stage)
        kept: list[Any] = []
        frame.args, frame.rets = _buffers(operands, kept), _buffers(results, kept)
        frame.attrs = self._attributes
        if _CALLBACK(self._handlers[name])(addressof(frame)):
            assert self._error is not None
            raise XlaError(*self._error)

    def _keep(self, item: Any) -> Any:
        self._kept.append(item)
        return item

    # What the API does.

    def _error_create(self, address: int) -> int:
        args = _Error.from_address(address)
        self._error = args.code, args.message.decode()
        return 1

    def _state_set(self, address: int) -> int:
        self._state = _State.from_address(address).state
        return 0

    def _state_get(self, address: int) -> int:
        args = _State.from_address(address)
        assert args.stage == INSTANTIATE
        args.state = self._state
        return 0

    def _stream_get(self, address: int) -> int:
        _Stream.from_address(address).stream = self._stream
        return 0

    def _deviceordinal_get(self, address: int) -> int:
        _Ordinal.from_address(address).ordinal = self._ordinal
        return 0

    # Attributes.

    def _attrs(self, attributes: Mapping[str, Any]) -> Any:
        rows = [(name, *self._attribute(attributes[name])) for name in sorted(attributes)]
        count = len(rows)
        names = [addressof(self._span(name)) for name, _, _ in rows]
        types = self._keep((c_int * count)(*(kind for _, kind, _ in rows)))
        values = self._keep((c_void_p * count)(*(addressof(value) for _, _, value in rows)))
        pointers = self._keep((c_void_p * count)(*names))
        return self._keep(_Attrs(ctypes.sizeof(_Attrs), None, count, types, pointers, values))

    def _attribute(self, value: Any) -> tuple[int, Any]:
        if isinstance(value, str):
            return _STRING, self._span(value)
        if isinstance(value, Mapping):
            return _DICTIONARY, self._attrs(value)
        data = self._keep(np.array(value, order="C"))
        code = _CODES[data.dtype.name]
        if data.ndim == 0:
            return _SCALAR, self._keep(_Scalar(code, data.ctypes.data))
        return _ARRAY, self._keep(_Array(code, data.size, data.ctypes.data))

    def _span(self, text: str) -> Any:
        return self._keep(_Span(text.encode(), len(text.encode())))


def _buffers(memory: Sequence[Memory], kept: list[Any]) -> Any:
    buffers = [
        _Buffer(
            *(ctypes.sizeof(_Buffer), None, _CODES[m.dtype.name], m.address, len(m.shape)),
            (c_int64 * len(m.shape))(*m.shape),
        )
        for m in memory
    ]
    types = (c_int * len(buffers))(*[1] * len(buffers))
    values = (c_void_p * len(buffers))(*map(addressof, buffers))
    kept += [buffers, types, values]
    return _Values(ctypes.sizeof(_Values), None, len(buffers), types, values)


def _address(handler: object, name: bytes | None = b"xla._CUSTOM_CALL_TARGET") -> int:
    if isinstance(handler, int):
        return handler
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    return pointer(handler, name)
