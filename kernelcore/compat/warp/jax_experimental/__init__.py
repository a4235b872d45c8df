"""``warp.jax_experimental``: kernels as primitives of JAX, in the first form that Warp had."""

from kernelcore.compat.warp.jax_experimental.custom_call import jax_kernel as jax_kernel
