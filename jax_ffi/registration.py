"""The XLA custom-call targets that run every kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any
from weakref import ref

import jax
import jax.ffi

from jax_ffi import compat
from kernelcore.base.errors import KernelError
from kernelcore.operators import (
    DEFAULT_ARCHITECTURE,
    Operation,
    _native,
    common_architecture,
    gpu_operation_of,
    load_portable,
    native,
    resolve,
    stored_image,
)

TARGET = "kernelcore_launch"
# The target of calls inside CUDA graphs (command buffers), which exist on GPUs only.
_CUDA_GRAPH_TARGET = "kernelcore_launch_graph"
GRAPH_TARGETS: Mapping[str, str] = MappingProxyType({"cpu": TARGET, "cuda": _CUDA_GRAPH_TARGET})

compat.register_state_type(
    "kernelcore_plan", _native.xla_type_id, _native.xla_type_info, platform="cpu"
)
jax.ffi.register_ffi_target(
    TARGET,
    {"instantiate": _native.xla_instantiate, "execute": _native.xla_execute},
    platform="cpu",
)
# What is registered for CUDA waits until JAX has a GPU.
compat.register_state_type(
    "kernelcore_call_site",
    _native.xla_cuda_type_id,
    _native.xla_cuda_type_info,
    platform="CUDA",
)
for _name, _execute in (
    (TARGET, _native.xla_cuda_execute),
    (_CUDA_GRAPH_TARGET, _native.xla_cuda_execute_graph),
):
    jax.ffi.register_ffi_target(
        _name,
        {
            "instantiate": _native.xla_cuda_instantiate,
            "initialize": _native.xla_cuda_initialize,
            "execute": _execute,
        },
        platform="CUDA",
    )


# What wraps a kernel, and the operation of its calls with default shapes, in the order they were
# made. By identity: wrappers of one kernel may be equal, and one of them outlives the others.
_wrapped: dict[int, tuple[ref[Any], Callable[[Any], Operation]]] = {}
# Those that were compiled for the CPU.
_compiled_wrappers: set[int] = set()


def compile_if_stored(wrapper: Any, operation: Callable[[Any], Operation]) -> None:
    """Let stored programs find ``operation(wrapper)``, which is compiled when one misses a kernel.

    It lives as long as ``wrapper``.
    """
    key = id(wrapper)

    def forget(_: ref[Any]) -> None:
        _wrapped.pop(key, None)
        _compiled_wrappers.discard(key)

    _compiled_wrappers.discard(key)
    _wrapped[key] = ref(wrapper, forget), operation


def _wrappers() -> Iterator[tuple[Any, Callable[[Any], Operation]]]:
    """The wrappers that live, and their operations."""
    for known, operation in _wrapped.copy().values():
        wrapper = known()
        if wrapper is not None:
            yield wrapper, operation


def register_known(key: str, code: bytes) -> None:
    """Register the kernel of a stored program.

    It comes from this process, from the disk, from ``code``, or a kernel that was wrapped here is
    compiled.

    Raises:
        KernelCompileError: ``code`` cannot be used here.
    """
    address = resolve(key)
    image = stored_image(key) if address is None else None
    if image is None and address is None and code:
        address = load_portable(key, code)
    if image is None and address is None and has_gpu():
        image = _image(key)
    if image is None and address is None:
        address = _compiled(key)
    if address is not None:
        native.register_kernel(key, address)
    elif image is not None:
        native.register_image(key, image)


def has_gpu() -> bool:
    """Whether JAX uses a GPU in this process."""
    try:
        return bool(jax.local_devices(backend="cuda"))
    except RuntimeError:  # JAX has no such backend.
        return False


def _image(key: str) -> bytes | None:
    """The code for GPUs of ``key``, if one of the wrapped kernels turns out to be it."""
    # That of this machine's GPUs, or of a machine that had none.
    architectures = dict.fromkeys((common_architecture(), DEFAULT_ARCHITECTURE))
    for wrapper, operation in _wrappers():
        for architecture in architectures:
            try:
                found = gpu_operation_of(operation(wrapper), architecture, key)
            except KernelError:
                # Its calls have to say more, or fail as well.
                break
            if found is not None:
                return found.code.image
    return None


def _compiled(key: str) -> int | None:
    """The address of the kernel of ``key``, once one of the wrapped kernels turns out to be it."""
    for wrapper, operation in _wrappers():
        if id(wrapper) in _compiled_wrappers:
            continue
        _compiled_wrappers.add(id(wrapper))
        try:
            compiled = operation(wrapper).compiled
        except KernelError:
            # Its calls have to say more, or fail as well.
            continue
        if compiled.key == key:
            return compiled.address
    return None


native.set_resolver(register_known)
