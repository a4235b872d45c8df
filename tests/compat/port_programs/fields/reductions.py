"""Reductions with tiles, lookups in textures and volumes: only Warp has them."""

import numpy as np
import warp as wp
import warp.sparse as sparse  # port: missing sparse
from warp.fem import Field, integrand  # port: missing fem.Field fem.integrand

TILE = wp.constant(64)


@wp.kernel
def row_sums(f: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    total = wp.tile_zeros(shape=1, dtype=float)  # port: missing tile_zeros
    for j in range(f.shape[1] / TILE):  # port: differs /
        part = wp.tile_load(f[i], shape=TILE, offset=j * TILE)  # port: missing tile_load
        total += wp.tile_sum(part)  # port: missing tile_sum
    wp.tile_store(out, total, offset=i)  # port: missing tile_store


@wp.kernel
def product(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    ta = wp.tile_load(a, shape=(TILE, TILE), offset=(i * TILE, 0))  # port: missing tile_load
    tb = wp.tile_load(b, shape=(TILE, TILE), offset=(0, j * TILE))  # port: missing tile_load
    tc = wp.tile_matmul(ta, tb)  # port: missing tile_matmul
    wp.tile_store(c, tc, offset=(i * TILE, j * TILE))  # port: missing tile_store


@wp.kernel
def sampled(volume: wp.uint64, x: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    p = wp.volume_world_to_index(volume, x[i])  # port: missing volume_world_to_index
    out[i] = wp.volume_sample_f(volume, p, wp.Volume.LINEAR)  # port: missing volume_sample_f Volume.LINEAR


@wp.kernel
def textured(image: wp.Texture2D, uv: wp.array(dtype=wp.vec2), out: wp.array(dtype=float)):  # port: missing Texture2D
    i = wp.tid()
    out[i] = wp.texture_sample(image, uv[i], dtype=float)  # port: missing texture_sample


@wp.kernel
def by_threads(f: wp.array(dtype=float), out: wp.array(dtype=float)):
    t = wp.tile(f[wp.tid()])  # port: missing tile
    wp.tile_atomic_add(out, wp.tile_sum(t))  # port: missing tile_atomic_add tile_sum


@wp.kernel
def plain_sums(f: wp.array2d(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    for j in range(f.shape[1]):
        out[i] += f[i, j]


@wp.kernel
def plain_product(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    s = wp.float32(0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@wp.kernel
def histogram(x: wp.array(dtype=float), low: float, width: float, count: wp.array(dtype=int)):
    i = wp.tid()
    b = wp.clamp(int((x[i] - low) / width), 0, count.shape[0] - 1)
    wp.atomic_add(count, b, 1)


@wp.kernel
def extent(x: wp.array(dtype=wp.vec3), low: wp.array(dtype=wp.vec3), high: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    wp.atomic_min(low, 0, x[i])
    wp.atomic_max(high, 0, x[i])


@wp.kernel
def boxes(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.max(a[i], b[i]) - wp.min(a[i], b[i])  # port: differs max min


@integrand  # port: missing fem.integrand
def mass(u: Field, v: Field):  # port: missing fem.Field
    return u * v


def run(f: np.ndarray, blocks: int):
    a = wp.array(f, dtype=float)
    out = wp.zeros(a.shape[0], dtype=float)
    wp.launch_tiled(row_sums, dim=a.shape[0], inputs=[a], outputs=[out], block_dim=64)  # port: missing launch_tiled
    matrix = sparse.bsr_zeros(4, 4, block_type=float)  # port: missing sparse.bsr_zeros
    image = wp.Texture2D(f)  # port: missing Texture2D
    volume = wp.Volume.allocate(min=[0, 0, 0], max=[4, 4, 4], voxel_size=0.1)  # port: missing Volume.allocate
    return matrix, image, volume, out
