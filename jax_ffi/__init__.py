"""kernelcore kernels as JAX functions."""

import jax_ffi.framework  # noqa: F401
from jax_ffi.callable import GraphMode as GraphMode
from jax_ffi.callable import JaxCallable as JaxCallable
from jax_ffi.callable import jax_callable as jax_callable
from jax_ffi.callback import register_ffi_callback as register_ffi_callback
from jax_ffi.distributed import initialize_distributed as initialize_distributed
from jax_ffi.export import deserialize as deserialize
from jax_ffi.export import export as export
from jax_ffi.interop import device_from_jax as device_from_jax
from jax_ffi.interop import device_to_jax as device_to_jax
from jax_ffi.interop import dtype_from_jax as dtype_from_jax
from jax_ffi.interop import dtype_to_jax as dtype_to_jax
from jax_ffi.interop import from_jax as from_jax
from jax_ffi.interop import to_jax as to_jax
from jax_ffi.kernel import JaxKernel as JaxKernel
from jax_ffi.kernel import jax_kernel as jax_kernel
from jax_ffi.structs import register_struct as register_struct
