"""Compute kernels written once in Python syntax, native operators everywhere, exact derivatives."""

import sys
from typing import TYPE_CHECKING
from typing import Any as _Any

from kernelcore import public
from kernelcore import types as types
from kernelcore.lazy import export as _export
from kernelcore.types import ArrayType as ArrayType
from kernelcore.types import bfloat16 as bfloat16
from kernelcore.types import boolean as boolean
from kernelcore.types import float16 as float16
from kernelcore.types import float32 as float32
from kernelcore.types import float64 as float64
from kernelcore.types import int8 as int8
from kernelcore.types import int16 as int16
from kernelcore.types import int32 as int32
from kernelcore.types import int64 as int64
from kernelcore.types import uint8 as uint8
from kernelcore.types import uint16 as uint16
from kernelcore.types import uint32 as uint32
from kernelcore.types import uint64 as uint64
from kernelcore.values import CLASSES as _CLASSES
from kernelcore.values import matrix as matrix
from kernelcore.values import quaternion as quaternion
from kernelcore.values import transformation as transformation
from kernelcore.values import vector as vector

# The kernel language's name of the type.
bool = boolean

# They make types, and are looked for beside them.
types.__dict__.update(
    vector=vector, matrix=matrix, quaternion=quaternion, transformation=transformation
)

# Type checkers see the names; a running program imports what it uses.
if TYPE_CHECKING:
    from kernelcore._native import ArrayMemory as ArrayMemory
    from kernelcore.array import IndexedArray as IndexedArray
    from kernelcore.array import array as array
    from kernelcore.array import array1d as array1d
    from kernelcore.array import array2d as array2d
    from kernelcore.array import array3d as array3d
    from kernelcore.array import array4d as array4d
    from kernelcore.array import indexedarray as indexedarray
    from kernelcore.array import indexedarray1d as indexedarray1d
    from kernelcore.array import indexedarray2d as indexedarray2d
    from kernelcore.array import indexedarray3d as indexedarray3d
    from kernelcore.array import indexedarray4d as indexedarray4d
    from kernelcore.autodiff import gradcheck as gradcheck
    from kernelcore.autodiff import jacobian as jacobian
    from kernelcore.autodiff import jacobian_fd as jacobian_fd
    from kernelcore.builtins.arithmetic import *  # noqa: F403
    from kernelcore.builtins.curlnoise import *  # noqa: F403
    from kernelcore.builtins.decomposition import *  # noqa: F403
    from kernelcore.builtins.elementary import *  # noqa: F403
    from kernelcore.builtins.interpolate import *  # noqa: F403
    from kernelcore.builtins.logic import *  # noqa: F403
    from kernelcore.builtins.matrix import *  # noqa: F403
    from kernelcore.builtins.noise import *  # noqa: F403
    from kernelcore.builtins.quaternion import *  # noqa: F403
    from kernelcore.builtins.random import *  # noqa: F403
    from kernelcore.builtins.search import *  # noqa: F403
    from kernelcore.builtins.spatial import *  # noqa: F403
    from kernelcore.builtins.transform import *  # noqa: F403
    from kernelcore.builtins.vector import *  # noqa: F403
    from kernelcore.command import Launch as Launch
    from kernelcore.compile_all import CompileReport as CompileReport
    from kernelcore.compile_all import compile_all as compile_all
    from kernelcore.creation import clone as clone
    from kernelcore.creation import copy as copy
    from kernelcore.creation import dtype_from_numpy as dtype_from_numpy
    from kernelcore.creation import dtype_to_numpy as dtype_to_numpy
    from kernelcore.creation import empty as empty
    from kernelcore.creation import empty_like as empty_like
    from kernelcore.creation import from_dlpack as from_dlpack
    from kernelcore.creation import from_numpy as from_numpy
    from kernelcore.creation import full as full
    from kernelcore.creation import full_like as full_like
    from kernelcore.creation import ones as ones
    from kernelcore.creation import ones_like as ones_like
    from kernelcore.creation import to_dlpack as to_dlpack
    from kernelcore.creation import zeros as zeros
    from kernelcore.creation import zeros_like as zeros_like
    from kernelcore.data import Array as Array
    from kernelcore.device import Device as Device
    from kernelcore.device import ScopedDevice as ScopedDevice
    from kernelcore.device import get_cuda_devices as get_cuda_devices
    from kernelcore.device import get_device as get_device
    from kernelcore.device import get_devices as get_devices
    from kernelcore.device import get_preferred_device as get_preferred_device
    from kernelcore.device import init as init
    from kernelcore.device import is_cpu_available as is_cpu_available
    from kernelcore.device import is_cuda_available as is_cuda_available
    from kernelcore.device import set_device as set_device
    from kernelcore.device import synchronize as synchronize
    from kernelcore.device import synchronize_device as synchronize_device
    from kernelcore.errors import KernelArgumentError as KernelArgumentError
    from kernelcore.errors import KernelAssertionError as KernelAssertionError
    from kernelcore.errors import KernelAttributeError as KernelAttributeError
    from kernelcore.errors import KernelCompileError as KernelCompileError
    from kernelcore.errors import KernelDeviceError as KernelDeviceError
    from kernelcore.errors import KernelError as KernelError
    from kernelcore.errors import KernelGradError as KernelGradError
    from kernelcore.errors import KernelIndexError as KernelIndexError
    from kernelcore.errors import KernelMemoryError as KernelMemoryError
    from kernelcore.errors import KernelNameError as KernelNameError
    from kernelcore.errors import KernelPlacementError as KernelPlacementError
    from kernelcore.errors import KernelSyntaxError as KernelSyntaxError
    from kernelcore.errors import KernelTypeError as KernelTypeError
    from kernelcore.frontend.compile_time import constant as constant
    from kernelcore.frontend.compile_time import static as static
    from kernelcore.frontend.cotangents import adjoint as adjoint
    from kernelcore.frontend.gradient import grad as grad
    from kernelcore.frontend.intrinsics import atomic_add as atomic_add
    from kernelcore.frontend.intrinsics import atomic_and as atomic_and
    from kernelcore.frontend.intrinsics import atomic_cas as atomic_cas
    from kernelcore.frontend.intrinsics import atomic_exch as atomic_exch
    from kernelcore.frontend.intrinsics import atomic_max as atomic_max
    from kernelcore.frontend.intrinsics import atomic_min as atomic_min
    from kernelcore.frontend.intrinsics import atomic_or as atomic_or
    from kernelcore.frontend.intrinsics import atomic_sub as atomic_sub
    from kernelcore.frontend.intrinsics import atomic_xor as atomic_xor
    from kernelcore.frontend.intrinsics import printf as printf
    from kernelcore.frontend.intrinsics import tid as tid
    from kernelcore.frontend.native import NativeFunction as NativeFunction
    from kernelcore.frontend.native import func_native as func_native
    from kernelcore.frontend.rules import func_grad as func_grad
    from kernelcore.frontend.rules import func_jvp as func_jvp
    from kernelcore.frontend.rules import func_replay as func_replay
    from kernelcore.function import Function as Function
    from kernelcore.graph import Graph as Graph
    from kernelcore.graph import ScopedCapture as ScopedCapture
    from kernelcore.graph import capture_begin as capture_begin
    from kernelcore.graph import capture_end as capture_end
    from kernelcore.graph import capture_if as capture_if
    from kernelcore.graph import capture_launch as capture_launch
    from kernelcore.graph import capture_while as capture_while
    from kernelcore.graph import is_capturing as is_capturing
    from kernelcore.kernel import Kernel as Kernel
    from kernelcore.kernel import func as func
    from kernelcore.kernel import kernel as kernel
    from kernelcore.kernel import overload as overload
    from kernelcore.launch import launch as launch
    from kernelcore.map import map as map
    from kernelcore.runtime.native import num_threads as num_threads
    from kernelcore.runtime.native import set_num_threads as set_num_threads
    from kernelcore.settings import config as config
    from kernelcore.settings import get_module_options as get_module_options
    from kernelcore.settings import set_module_options as set_module_options
    from kernelcore.stream import Event as Event
    from kernelcore.stream import ScopedStream as ScopedStream
    from kernelcore.stream import Stream as Stream
    from kernelcore.stream import get_event_elapsed_time as get_event_elapsed_time
    from kernelcore.stream import get_stream as get_stream
    from kernelcore.stream import record_event as record_event
    from kernelcore.stream import set_stream as set_stream
    from kernelcore.stream import synchronize_event as synchronize_event
    from kernelcore.stream import synchronize_stream as synchronize_stream
    from kernelcore.stream import wait_event as wait_event
    from kernelcore.stream import wait_stream as wait_stream
    from kernelcore.structs import struct as struct
    from kernelcore.tape import Tape as Tape
    from kernelcore.timing import ScopedTimer as ScopedTimer
    from kernelcore.tracking import ScopedMemoryTracker as ScopedMemoryTracker
    from kernelcore.values import *  # noqa: F403

    # Of the adapters, which know kernelcore and not the other way round.
    GraphMode: _Any
    device_from_jax: _Any
    device_from_paddle: _Any
    device_from_torch: _Any
    device_to_jax: _Any
    device_to_paddle: _Any
    device_to_torch: _Any
    dtype_from_jax: _Any
    dtype_from_paddle: _Any
    dtype_from_torch: _Any
    dtype_to_jax: _Any
    dtype_to_paddle: _Any
    dtype_to_torch: _Any
    from_jax: _Any
    from_paddle: _Any
    from_torch: _Any
    jax_callable: _Any
    jax_kernel: _Any
    paddle_op: _Any
    register_ffi_callback: _Any
    stream_from_paddle: _Any
    stream_from_torch: _Any
    stream_to_torch: _Any
    to_jax: _Any
    to_paddle: _Any
    to_torch: _Any
    torch_callable: _Any
    torch_op: _Any
else:
    globals().update(_CLASSES)
    # Importing the compiler takes longer than the rest, and declaring kernels does not need it.
    _export(sys.modules[__name__], {**public.ADAPTERS, **public.HOMES}, public.operations)
