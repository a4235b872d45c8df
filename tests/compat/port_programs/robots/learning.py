"""Kernels in frameworks, old modules and new."""

import functools

try:
    import warp as wp, warp.torch
except ImportError:
    raise

import jax
import torch
from warp.jax_experimental import jax_kernel
from warp.jax_experimental.ffi import jax_callable, jax_kernel as ffi_kernel
from warp import sim  # port: missing sim
from kinematics import wrap_angle


@wp.kernel
def triple(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 3.0 * x[i]


@wp.kernel
def sum_and_product(a: wp.array(dtype=float), b: wp.array(dtype=float), s: wp.array(dtype=float), p: wp.array(dtype=float)):
    i = wp.tid()
    s[i] = a[i] + b[i]
    p[i] = a[i] * b[i]


@wp.kernel
def reward(q: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(out, i, -wp.abs(wrap_angle(q[i, j])))


@wp.kernel
def action(logits: wp.array2d(dtype=float), out: wp.array(dtype=int)):
    i = wp.tid()
    best = float(-1.0e30)
    for j in range(logits.shape[1]):
        if logits[i, j] > best:
            best = logits[i, j]
            out[i] = j


@wp.kernel
def noise(seed: int, x: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x[i] = wp.float64(wp.randn(wp.rand_init(seed, i)))


@wp.kernel
def bucket(step: int, x: wp.array(dtype=wp.int64), out: wp.array(dtype=wp.int64)):
    i = wp.tid()
    out[i] = (x[i] * wp.int64(2) + wp.int64(i)) % wp.int64(step)  # port: differs %


@wp.kernel
def delayed(age: wp.array(dtype=wp.uint8), out: wp.array(dtype=wp.uint8)):
    i = wp.tid()
    out[i] = age[i] / wp.uint8(2) + age[i] % wp.uint8(3)  # port: differs /


@wp.kernel
def bits(address: wp.uint64, n: int, out: wp.array(dtype=int)):
    i = wp.tid()
    a = wp.array(ptr=address, shape=(n,), dtype=float)
    out[i] = wp.cast(a[i], int)


@wp.kernel
def halved(v: wp.array(dtype=wp.vec3i), w: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3i)):
    i = wp.tid()
    out[i] = v[i] / 2 + wp.vec3i(w[i] / 2.0)  # port: differs /
    out[i] = wp.cw_div(v[i], out[i]) + wp.vec3i(wp.cw_div(w[i], w[i]))  # port: differs cw_div


jax_triple = jax_kernel(triple)  # port: differs jax_kernel
jax_both = ffi_kernel(sum_and_product, num_outputs=2)
jax_dims = functools.partial(jax_kernel, launch_dims=4)


@jax_callable
def chain(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    wp.launch(triple, dim=x.shape, inputs=[x], outputs=[y])


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = wp.from_torch(x)
        ctx.y = warp.torch.from_torch(torch.empty_like(x))
        wp.launch(triple, dim=x.shape, inputs=[ctx.x], outputs=[ctx.y])
        return wp.to_torch(ctx.y)


def model():
    builder = sim.ModelBuilder()  # port: missing sim.ModelBuilder
    wp.init()
    wp.load_module(device="cpu")
    return builder, jax.devices(), wp.context.runtime  # port: missing context.runtime
