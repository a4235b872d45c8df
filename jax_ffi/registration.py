"""The XLA custom-call target that runs every kernel."""

from __future__ import annotations

import jax.ffi

from jax_ffi import compat
from kernelcore import _native

TARGET = "kernelcore_launch"

compat.register_state_type("kernelcore_plan", _native.xla_type_id, _native.xla_type_info)
jax.ffi.register_ffi_target(
    TARGET,
    {"instantiate": _native.xla_instantiate, "execute": _native.xla_execute},
    platform="cpu",
)
