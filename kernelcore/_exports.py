"""Where the public names of kernelcore are that are imported when they are first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kernelcore.base.lazy import Deferred, homes

if TYPE_CHECKING:
    from kernelcore import builtins
else:
    builtins = Deferred("kernelcore.builtins")

# ``tools/public_stub.py`` makes a stub of these names for type checkers.
HOMES = homes(
    {
        "kernelcore.runtime.array.annotations": (
            "array1d array2d array3d array4d arraynd indexedarray "
            "indexedarray1d indexedarray2d indexedarray3d indexedarray4d"
        ),
        "kernelcore.autograd.gradcheck": "gradcheck gradcheck_tape",
        "kernelcore.autograd.jacobian": "jacobian jacobian_fd",
        "kernelcore.explain.report": "explain",
        "kernelcore.launch.tangent_launch": "jvp",
        "kernelcore.language.constants": (
            "E HALF_PI INF LN10 LN2 LOG10E LOG2E NAN PHI PI TAU "
            "e half_pi inf ln10 ln2 log10e log2e nan phi pi tau"
        ),
        "kernelcore.language.by_reference": "ref",
        "kernelcore.language.function": "Function func",
        "kernelcore.launch.recorded_launch": "Launch",
        "kernelcore.base.config": (
            "check_finite config get_module_options python_mode set_module_options"
        ),
        "kernelcore.launch.precompile": "CompileReport compile_all",
        "kernelcore.runtime.array.creation": (
            "dtype_from_numpy dtype_to_numpy empty from_dlpack from_numpy full ones to_dlpack zeros"
        ),
        "kernelcore.runtime.array.like": "clone copy empty_like full_like ones_like zeros_like",
        "kernelcore._native": "ArrayMemory",
        "kernelcore.runtime.array.array": "Array array",
        "kernelcore.runtime.array.indexed_array": "IndexedArray",
        "kernelcore.runtime.device": (
            "Device ScopedDevice get_cuda_devices get_device get_devices get_preferred_device init "
            "is_cpu_available is_cuda_available set_device synchronize synchronize_device"
        ),
        "kernelcore.base.errors": (
            "KernelArgumentError KernelAssertionError KernelAttributeError KernelCompileError "
            "KernelDeviceError KernelError KernelFiniteError KernelGradError KernelIndexError "
            "KernelMemoryError KernelNameError KernelPlacementError KernelRaceError "
            "KernelSyntaxError KernelTypeError KernelWarning"
        ),
        "kernelcore.frontend.calls.compile_time": "constant static",
        "kernelcore.frontend.derivatives.adjoint_syntax": "adjoint",
        "kernelcore.frontend.derivatives.gradient": "grad",
        "kernelcore.frontend.calls.intrinsics": (
            "address_of atomic_add atomic_and atomic_cas atomic_exch atomic_max atomic_min "
            "atomic_or atomic_sub atomic_xor bitcast printf tid"
        ),
        "kernelcore.frontend.calls.snippet": "NativeFunction func_native",
        "kernelcore.frontend.derivatives.rules": "func_grad func_jvp func_replay",
        "kernelcore.launch.capture": (
            "ScopedCapture capture_begin capture_end capture_if capture_launch capture_while "
            "is_capturing"
        ),
        "kernelcore.launch.graph": "Graph",
        "kernelcore.launch.declare": "kernel",
        "kernelcore.launch.kernel": "Kernel",
        "kernelcore.launch.overload": "overload",
        "kernelcore.launch.launch": "launch",
        "kernelcore.operators.op": "Op op",
        "kernelcore.launch.map": "map",
        "kernelcore.base.native": "num_threads set_num_threads",
        "kernelcore.runtime.stream": (
            "Event ScopedStream Stream get_event_elapsed_time get_stream record_event set_stream "
            "synchronize_event synchronize_stream wait_event wait_stream"
        ),
        "kernelcore.runtime.struct_definition": "struct",
        "kernelcore.autograd.tape": "Tape",
        "kernelcore.runtime.timer": "ScopedTimer",
        "kernelcore.runtime.memory_tracker": "ScopedMemoryTracker",
    }
)

# Packages of names that programs write out: ``kc.optim.Adam``.
PACKAGES = ("optim",)

# Names of the adapters, for programs that use one; each needs its framework.
ADAPTERS = homes(
    {
        "jax_ffi": (
            "GraphMode device_from_jax device_to_jax dtype_from_jax dtype_to_jax from_jax "
            "jax_callable jax_kernel register_ffi_callback to_jax"
        ),
        "paddle_ext": (
            "device_from_paddle device_to_paddle dtype_from_paddle dtype_to_paddle from_paddle "
            "paddle_op stream_from_paddle to_paddle"
        ),
        "torch_ext": (
            "device_from_torch device_to_torch dtype_from_torch dtype_to_torch from_torch "
            "stream_from_torch stream_to_torch to_torch torch_callable torch_op"
        ),
    }
)


def operations() -> Mapping[str, Any]:
    """Every built-in and library function."""
    return {**builtins.LIBRARY, **builtins.BUILTINS}
