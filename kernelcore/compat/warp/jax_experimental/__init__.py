"""``warp.jax_experimental``: kernels and functions that launch them in programs of JAX."""

from kernelcore import GraphMode as GraphMode
from kernelcore import jax_callable as jax_callable
from kernelcore import register_ffi_callback as register_ffi_callback
from kernelcore.compat.warp.jax_experimental.custom_call import jax_kernel as jax_kernel
