"""Compute kernels written once in Python syntax, native operators everywhere, exact derivatives."""

import sys
from typing import TYPE_CHECKING
from typing import Any as _Any

from kernelcore import _exports
from kernelcore.base.lazy import export as _export
from kernelcore.language import types
from kernelcore.language.composite_types import CLASSES as _CLASSES
from kernelcore.language.composite_types import matrix as matrix
from kernelcore.language.composite_types import quaternion as quaternion
from kernelcore.language.composite_types import transformation as transformation
from kernelcore.language.composite_types import vector as vector
from kernelcore.language.types import ArrayType as ArrayType
from kernelcore.language.types import bfloat16 as bfloat16
from kernelcore.language.types import boolean as boolean
from kernelcore.language.types import float16 as float16
from kernelcore.language.types import float32 as float32
from kernelcore.language.types import float64 as float64
from kernelcore.language.types import int8 as int8
from kernelcore.language.types import int16 as int16
from kernelcore.language.types import int32 as int32
from kernelcore.language.types import int64 as int64
from kernelcore.language.types import uint8 as uint8
from kernelcore.language.types import uint16 as uint16
from kernelcore.language.types import uint32 as uint32
from kernelcore.language.types import uint64 as uint64

# The kernel language's name of the type.
bool = boolean

# They make types, and are looked for beside them.
types.__dict__.update(
    vector=vector, matrix=matrix, quaternion=quaternion, transformation=transformation
)

# Type checkers see the names; a running program imports what it uses.
if TYPE_CHECKING:
    from kernelcore._native import ArrayMemory as ArrayMemory
    from kernelcore.autograd.gradcheck import gradcheck as gradcheck
    from kernelcore.autograd.gradcheck import jacobian as jacobian
    from kernelcore.autograd.gradcheck import jacobian_fd as jacobian_fd
    from kernelcore.autograd.tape import Tape as Tape
    from kernelcore.base.config import config as config
    from kernelcore.base.config import get_module_options as get_module_options
    from kernelcore.base.config import set_module_options as set_module_options
    from kernelcore.base.errors import KernelArgumentError as KernelArgumentError
    from kernelcore.base.errors import KernelAssertionError as KernelAssertionError
    from kernelcore.base.errors import KernelAttributeError as KernelAttributeError
    from kernelcore.base.errors import KernelCompileError as KernelCompileError
    from kernelcore.base.errors import KernelDeviceError as KernelDeviceError
    from kernelcore.base.errors import KernelError as KernelError
    from kernelcore.base.errors import KernelGradError as KernelGradError
    from kernelcore.base.errors import KernelIndexError as KernelIndexError
    from kernelcore.base.errors import KernelMemoryError as KernelMemoryError
    from kernelcore.base.errors import KernelNameError as KernelNameError
    from kernelcore.base.errors import KernelPlacementError as KernelPlacementError
    from kernelcore.base.errors import KernelSyntaxError as KernelSyntaxError
    from kernelcore.base.errors import KernelTypeError as KernelTypeError
    from kernelcore.base.native import num_threads as num_threads
    from kernelcore.base.native import set_num_threads as set_num_threads
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
    from kernelcore.frontend.calls.compile_time import constant as constant
    from kernelcore.frontend.calls.compile_time import static as static
    from kernelcore.frontend.calls.intrinsics import atomic_add as atomic_add
    from kernelcore.frontend.calls.intrinsics import atomic_and as atomic_and
    from kernelcore.frontend.calls.intrinsics import atomic_cas as atomic_cas
    from kernelcore.frontend.calls.intrinsics import atomic_exch as atomic_exch
    from kernelcore.frontend.calls.intrinsics import atomic_max as atomic_max
    from kernelcore.frontend.calls.intrinsics import atomic_min as atomic_min
    from kernelcore.frontend.calls.intrinsics import atomic_or as atomic_or
    from kernelcore.frontend.calls.intrinsics import atomic_sub as atomic_sub
    from kernelcore.frontend.calls.intrinsics import atomic_xor as atomic_xor
    from kernelcore.frontend.calls.intrinsics import printf as printf
    from kernelcore.frontend.calls.intrinsics import tid as tid
    from kernelcore.frontend.calls.snippet import NativeFunction as NativeFunction
    from kernelcore.frontend.calls.snippet import func_native as func_native
    from kernelcore.frontend.derivatives.adjoint_syntax import adjoint as adjoint
    from kernelcore.frontend.derivatives.gradient import grad as grad
    from kernelcore.frontend.derivatives.rules import func_grad as func_grad
    from kernelcore.frontend.derivatives.rules import func_jvp as func_jvp
    from kernelcore.frontend.derivatives.rules import func_replay as func_replay
    from kernelcore.language.composite_types import *  # noqa: F403
    from kernelcore.language.function import Function as Function
    from kernelcore.launch.capture import ScopedCapture as ScopedCapture
    from kernelcore.launch.capture import capture_begin as capture_begin
    from kernelcore.launch.capture import capture_end as capture_end
    from kernelcore.launch.capture import capture_if as capture_if
    from kernelcore.launch.capture import capture_launch as capture_launch
    from kernelcore.launch.capture import capture_while as capture_while
    from kernelcore.launch.capture import is_capturing as is_capturing
    from kernelcore.launch.graph import Graph as Graph
    from kernelcore.launch.kernel import Kernel as Kernel
    from kernelcore.launch.kernel import func as func
    from kernelcore.launch.kernel import kernel as kernel
    from kernelcore.launch.kernel import overload as overload
    from kernelcore.launch.launch import launch as launch
    from kernelcore.launch.map import map as map
    from kernelcore.launch.precompile import CompileReport as CompileReport
    from kernelcore.launch.precompile import compile_all as compile_all
    from kernelcore.launch.recorded_launch import Launch as Launch
    from kernelcore.runtime.array.annotations import array as array
    from kernelcore.runtime.array.annotations import array1d as array1d
    from kernelcore.runtime.array.annotations import array2d as array2d
    from kernelcore.runtime.array.annotations import array3d as array3d
    from kernelcore.runtime.array.annotations import array4d as array4d
    from kernelcore.runtime.array.annotations import indexedarray as indexedarray
    from kernelcore.runtime.array.annotations import indexedarray1d as indexedarray1d
    from kernelcore.runtime.array.annotations import indexedarray2d as indexedarray2d
    from kernelcore.runtime.array.annotations import indexedarray3d as indexedarray3d
    from kernelcore.runtime.array.annotations import indexedarray4d as indexedarray4d
    from kernelcore.runtime.array.array import Array as Array
    from kernelcore.runtime.array.creation import clone as clone
    from kernelcore.runtime.array.creation import copy as copy
    from kernelcore.runtime.array.creation import dtype_from_numpy as dtype_from_numpy
    from kernelcore.runtime.array.creation import dtype_to_numpy as dtype_to_numpy
    from kernelcore.runtime.array.creation import empty as empty
    from kernelcore.runtime.array.creation import empty_like as empty_like
    from kernelcore.runtime.array.creation import from_dlpack as from_dlpack
    from kernelcore.runtime.array.creation import from_numpy as from_numpy
    from kernelcore.runtime.array.creation import full as full
    from kernelcore.runtime.array.creation import full_like as full_like
    from kernelcore.runtime.array.creation import ones as ones
    from kernelcore.runtime.array.creation import ones_like as ones_like
    from kernelcore.runtime.array.creation import to_dlpack as to_dlpack
    from kernelcore.runtime.array.creation import zeros as zeros
    from kernelcore.runtime.array.creation import zeros_like as zeros_like
    from kernelcore.runtime.array.indexed_array import IndexedArray as IndexedArray
    from kernelcore.runtime.device import Device as Device
    from kernelcore.runtime.device import ScopedDevice as ScopedDevice
    from kernelcore.runtime.device import get_cuda_devices as get_cuda_devices
    from kernelcore.runtime.device import get_device as get_device
    from kernelcore.runtime.device import get_devices as get_devices
    from kernelcore.runtime.device import get_preferred_device as get_preferred_device
    from kernelcore.runtime.device import init as init
    from kernelcore.runtime.device import is_cpu_available as is_cpu_available
    from kernelcore.runtime.device import is_cuda_available as is_cuda_available
    from kernelcore.runtime.device import set_device as set_device
    from kernelcore.runtime.device import synchronize as synchronize
    from kernelcore.runtime.device import synchronize_device as synchronize_device
    from kernelcore.runtime.memory_tracker import ScopedMemoryTracker as ScopedMemoryTracker
    from kernelcore.runtime.stream import Event as Event
    from kernelcore.runtime.stream import ScopedStream as ScopedStream
    from kernelcore.runtime.stream import Stream as Stream
    from kernelcore.runtime.stream import get_event_elapsed_time as get_event_elapsed_time
    from kernelcore.runtime.stream import get_stream as get_stream
    from kernelcore.runtime.stream import record_event as record_event
    from kernelcore.runtime.stream import set_stream as set_stream
    from kernelcore.runtime.stream import synchronize_event as synchronize_event
    from kernelcore.runtime.stream import synchronize_stream as synchronize_stream
    from kernelcore.runtime.stream import wait_event as wait_event
    from kernelcore.runtime.stream import wait_stream as wait_stream
    from kernelcore.runtime.structs import struct as struct
    from kernelcore.runtime.timer import ScopedTimer as ScopedTimer

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
    _export(sys.modules[__name__], {**_exports.ADAPTERS, **_exports.HOMES}, _exports.operations)
