"""The XLA custom-call target that runs every kernel."""

from __future__ import annotations

import jax.ffi

from jax_ffi import compat
from kernelcore import _native
from kernelcore.compile import resolve
from kernelcore.runtime import native

TARGET = "kernelcore_launch"

compat.register_state_type("kernelcore_plan", _native.xla_type_id, _native.xla_type_info)
jax.ffi.register_ffi_target(
    TARGET,
    {"instantiate": _native.xla_instantiate, "execute": _native.xla_execute},
    platform="cpu",
)


def _register_known(key: str) -> None:
    """Register the kernel of a stored program, unless neither this process nor the disk has it."""
    address = resolve(key)
    if address is not None:
        native.register_kernel(key, address)


native.set_resolver(_register_known)
