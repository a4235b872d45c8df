"""The XLA custom-call targets that run every kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import jax.ffi

from jax_ffi import compat
from kernelcore.base.errors import KernelError
from kernelcore.operators import (
    Operation,
    _native,
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


# By what wraps a kernel, the operation of its calls with default shapes; forgotten once compiled.
_not_compiled: WeakKeyDictionary[Any, Callable[[Any], Operation]] = WeakKeyDictionary()


def compile_if_stored(wrapper: Any, operation: Callable[[Any], Operation]) -> None:
    """Let stored programs find ``operation(wrapper)``, which is compiled when one misses a kernel.

    It lives as long as ``wrapper``.
    """
    _not_compiled[wrapper] = operation


def register_known(key: str, code: bytes) -> None:
    """Register the kernel of a stored program.

    It comes from this process, from the disk, from ``code``, or a kernel that was wrapped here is
    compiled.

    Raises:
        KernelCompileError: ``code`` cannot be used here.
    """
    address = resolve(key)
    if address is None and code:
        address = load_portable(key, code)
    if address is None:
        address = _compiled(key)
    if address is not None:
        native.register_kernel(key, address)
        return
    image = stored_image(key)
    if image is not None:
        native.register_image(key, image)


def _compiled(key: str) -> int | None:
    """The address of the kernel of ``key``, once one of the wrapped kernels turns out to be it."""
    for wrapper, operation in list(_not_compiled.items()):
        del _not_compiled[wrapper]
        try:
            compiled = operation(wrapper).compiled
        except KernelError:
            # Its calls have to say more, or fail as well.
            continue
        if compiled.key == key:
            return compiled.address
    return None


native.set_resolver(register_known)
