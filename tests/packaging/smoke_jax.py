"""An operator in JAX: jit, second derivatives, vmap."""

import jax
import jax.numpy as jnp

import kernelcore as kc


@kc.kernel
def cube(x: kc.array[float], y: kc.array[float]):
    i = kc.tid()
    y[i] = x[i] * x[i] * x[i]


op = kc.op(cube)
x = jnp.array([1.0, 2.0])
assert jax.jit(op)(x).tolist() == [1.0, 8.0]
assert jax.hessian(lambda x: op(x).sum())(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
assert jax.vmap(op)(jnp.ones((2, 3))).shape == (2, 3)
print(f"kernelcore {kc.__version__}, JAX {jax.__version__}")
