"""kernelcore kernels as JAX functions."""

from jax_ffi.kernel import JaxKernel as JaxKernel
from jax_ffi.kernel import jax_kernel as jax_kernel
from jax_ffi.structs import register_struct as register_struct
