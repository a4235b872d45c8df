"""Finite differences and lattice Boltzmann on grids."""

import warp

from warp import array2d, array3d, float32, tid, vec2


@warp.func
def left(i: int, n: int):
    return (i - 1 + n) % n  # port: differs %


@warp.func
def right(i: int, n: int):
    return warp.where(i + 1 == n, 0, i + 1)


@warp.func
def minmod(a: float, b: float):
    return 0.5 * (warp.sign(a) + warp.sign(b)) * warp.min(warp.abs(a), warp.abs(b))  # port: differs sign min


@warp.func
def lookup(f: array2d(dtype=float32), x: float, y: float):
    i = warp.clamp(int(warp.floor(x)), 0, f.shape[0] - 1)
    j = min(int(y), f.shape[1] - 1)
    return f[i, j]


@warp.func
def average(a: warp.Any, b: warp.Any):
    return (a + b) / (type(a)(2))  # port: differs /


@warp.kernel
def laplacian(f: array2d(dtype=float), out: array2d(dtype=float)):
    i, j = tid()
    n = f.shape[0]
    m = f.shape[1]
    out[i, j] = f[left(i, n), j] + f[right(i, n), j] + f[i, left(j, m)] + f[i, right(j, m)] - 4.0 * f[i, j]


@warp.kernel
def heat(f: array2d(dtype=float), k: float, dt: float, out: array2d(dtype=float)):
    i, j = tid()
    if i > 0 and j > 0 and i < f.shape[0] - 1 and j < f.shape[1] - 1:
        flow = f[i - 1, j] + f[i + 1, j] + f[i, j - 1] + f[i, j + 1] - 4.0 * f[i, j]
        out[i, j] = f[i, j] + k * dt * flow


@warp.kernel
def advect(f: array2d(dtype=float), v: array2d(dtype=vec2), dt: float, out: array2d(dtype=float)):
    i, j = tid()
    back = vec2(float(i), float(j)) - v[i, j] * dt
    out[i, j] = lookup(f, back[0], back[1])


@warp.kernel
def limited_slope(f: array2d(dtype=float), out: array2d(dtype=float)):
    i, j = tid()
    out[i, j] = minmod(f[i, j] - f[left(i, f.shape[0]), j], f[right(i, f.shape[0]), j] - f[i, j])


@warp.kernel
def divergence(v: array2d(dtype=vec2), out: array2d(dtype=float)):
    i, j = tid()
    n, m = v.shape[0], v.shape[1]
    dx = v[(i + 1) % n, j][0] - v[(i + n - 1) % n, j][0]  # port: differs %
    dy = v[i, (j + 1) % m][1] - v[i, j][1]
    out[i, j] = 0.5 * (dx + dy)


@warp.kernel
def coarsen(fine: array2d(dtype=float), coarse: array2d(dtype=float)):
    i, j = tid()
    total = float(0.0)
    for a in range(2):
        for b in range(2):
            total += fine[2 * i + a, 2 * j + b]
    coarse[i, j] = total / 4.0


@warp.kernel
def refine(coarse: array2d(dtype=float), fine: array2d(dtype=float)):
    i, j = tid()
    fine[i, j] = fine[i, j] + coarse[i / 2, j / 2]  # port: differs /


@warp.kernel
def red_black(f: array2d(dtype=float), b: array2d(dtype=float), color: int):
    i, j = tid()
    if (i + j) % 2 == color and i * j > 0:
        f[i, j] = 0.25 * (f[i - 1, j] + f[i, j - 1] - b[i, j])


@warp.kernel
def collide(f: array3d(dtype=float), omega: float):
    i, j = tid()
    rho = float(0.0)
    for q in range(9):
        rho += f[q, i, j]
    for q in range(9):
        f[q, i, j] = f[q, i, j] * (1.0 - omega) + omega * rho / 9.0


@warp.kernel
def stream(f: array3d(dtype=float), cx: warp.array(dtype=int), cy: warp.array(dtype=int), out: array3d(dtype=float)):
    q, i, j = tid()
    n = f.shape[1]
    m = f.shape[2]
    out[q, (i + cx[q] + n) % n, (j + cy[q] + m) % m] = f[q, i, j]  # port: differs %


@warp.kernel
def dithered(f: array2d(dtype=float), levels: int, out: array2d(dtype=int)):
    i, j = tid()
    step = 256 / levels  # port: differs /
    value = int(f[i, j] * 255.0)
    value /= step  # port: differs /
    out[i, j] = value * step


@warp.kernel
def shifted(f: array2d(dtype=float), by: int, out: array2d(dtype=float)):
    i, j = tid()
    k = j
    k -= by
    k %= f.shape[1]  # port: differs %
    out[i, j] = f[i, k]


@warp.kernel
def phases(t: warp.array(dtype=float32), period: float32, out: warp.array(dtype=float32)):
    i = tid()
    count = float32(i) % 8.0
    out[i] = count + t[i] % period  # port: differs %


@warp.kernel
def angles(v: array2d(dtype=vec2), out: array2d(dtype=float)):
    i, j = tid()
    u = warp.normalize(v[i, j])
    out[i, j] = warp.acos(u[0]) + warp.asin(u[1]) + warp.atan2(u[1], u[0])  # port: differs acos asin


@warp.kernel
def levels(t: warp.array(dtype=float), x: warp.array(dtype=float), out: warp.array(dtype=int)):
    i = tid()
    out[i] = warp.lower_bound(t, 0, t.shape[0], x[i]) - 1  # port: differs lower_bound


@warp.kernel
def means(f: warp.array(dtype=float), g: warp.array(dtype=float), out: warp.array(dtype=float)):
    i = tid()
    out[i] = average(f[i], g[i])


def solve(f, steps: int, device: str = "cpu"):
    with warp.ScopedDevice(device):
        a = warp.from_numpy(f, dtype=float32)
        b = warp.empty_like(a)
        with warp.ScopedCapture() as capture:
            for _ in range(steps):
                warp.launch(heat, dim=a.shape, inputs=[a, 0.1, 0.1], outputs=[b])
                warp.copy(a, b)
        warp.capture_launch(capture.graph)
        bits = warp.array(f.astype("uint16"), dtype=warp.bfloat16)  # port: differs array
        return warp.to_torch(a), bits.numpy()
