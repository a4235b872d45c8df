"""The XLA custom-call target that runs every kernel."""

from __future__ import annotations

import jax.ffi

from jax_ffi import compat
from kernelcore import _native
from kernelcore.compile import load_portable, resolve
from kernelcore.runtime import native

TARGET = "kernelcore_launch"

compat.register_state_type("kernelcore_plan", _native.xla_type_id, _native.xla_type_info)
jax.ffi.register_ffi_target(
    TARGET,
    {"instantiate": _native.xla_instantiate, "execute": _native.xla_execute},
    platform="cpu",
)


def _register_known(key: str, code: bytes) -> None:
    """Register the kernel of a stored program, where this process, the disk or ``code`` has it.

    Raises:
        KernelCompileError: ``code`` cannot be used here.
    """
    address = resolve(key)
    if address is None and code:
        address = load_portable(key, code)
    if address is not None:
        native.register_kernel(key, address)


native.set_resolver(_register_known)
