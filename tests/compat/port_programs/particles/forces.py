"""Forces between particles, and steps in time."""

import warp as wp
import warp.optim
from particles import common
from particles.common import Material, kernel_poly6, safe_normalize, vec5


@wp.kernel
def density(
    x: wp.array(dtype=wp.vec3),
    start: wp.array(dtype=int),
    neighbor: wp.array(dtype=int),
    h: float,
    rho: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)
    for k in range(start[i], start[i + 1]):
        total += kernel_poly6(wp.length(x[i] - x[neighbor[k]]), h)
    rho[i] = total


@wp.kernel
def pressure(rho: wp.array(dtype=float), material: Material, p: wp.array(dtype=float)):
    i = wp.tid()
    p[i] = material.stiffness * wp.max(rho[i] - material.density, 0.0)  # port: differs max


@wp.kernel
def friction(v: wp.array(dtype=wp.vec3), normal: wp.array(dtype=wp.vec3), material: Material):
    i = wp.tid()
    n = safe_normalize(normal[i])
    vn = wp.dot(v[i], n)
    vt = v[i] - n * vn
    limit = wp.min(material.friction * wp.abs(vn), wp.length(vt))  # port: differs min
    v[i] = v[i] - safe_normalize(vt) * limit


@wp.kernel
def bounce(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), low: float, high: float):
    i = wp.tid()
    p = x[i]
    for k in range(3):
        q = wp.clamp(p[k], low, high)  # port: differs clamp
        if q != p[k]:
            v[i][k] = -v[i][k]
        p[k] = q
    x[i] = p


@wp.kernel
def springs(
    x: wp.array(dtype=wp.vec3),
    ends: wp.array2d(dtype=int),
    rest: wp.array(dtype=float),
    f: wp.array(dtype=wp.vec3),
):
    s = wp.tid()
    i, j = ends[s, 0], ends[s, 1]
    d = x[i] - x[j]
    force = safe_normalize(d) * (wp.length(d) - rest[s])
    wp.atomic_sub(f, i, force)
    wp.atomic_add(f, j, force)


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + f[i] * dt + wp.vec3(0.0, -9.81, 0.0) * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def periodic(x: wp.array(dtype=wp.vec3), size: float):
    i = wp.tid()
    p = x[i]
    x[i] = wp.vec3(p[0] % size, wp.mod(p[1], size), p[2])  # port: differs % mod


@wp.kernel
def snap(x: wp.array(dtype=wp.vec3), spacing: float):
    i = wp.tid()
    p = x[i] / spacing
    x[i] = wp.vec3(wp.round(p[0]), wp.rint(p[1]), round(p[2])) * spacing  # port: differs round


@wp.kernel
def directions(v: wp.array(dtype=float), n: wp.array(dtype=int), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.sign(v[i]) * float(wp.sign(n[i]))  # port: differs sign


@wp.kernel
def five_largest(v: wp.array(dtype=vec5), top: wp.array(dtype=float), at: wp.array(dtype=int)):
    i = wp.tid()
    top[i] = wp.max(v[i])  # port: differs max
    at[i] = int(wp.argmax(v[i]))


@wp.kernel
def bad(x: wp.array(dtype=wp.vec3), out: wp.array(dtype=int)):
    i = wp.tid()
    if wp.isnan(x[i]) or wp.isinf(x[i][0]):  # port: differs isnan
        out[i] = 1
    if not wp.isfinite(x[i]):  # port: differs isfinite
        out[i] = 2


@wp.kernel
def jitter(seed: int, x: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    x[i] = x[i] + 0.01 * wp.vec3(wp.randf(state), wp.randn(state), wp.randf(state, -1.0, 1.0))
    if wp.randi(state) % 2 == 0:  # port: differs %
        x[i] = -x[i]


@wp.kernel
def energy(v: wp.array(dtype=wp.vec3), m: wp.array(dtype=common.Real), e: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(e, 0, 0.5 * m[i] * wp.dot(v[i], v[i]))


@wp.kernel
def fastest(v: wp.array(dtype=wp.vec3), best: wp.array(dtype=float)):
    wp.atomic_max(best, 0, wp.length(v[wp.tid()]))


@wp.kernel(enable_backward=False)
def groups(material: wp.array(dtype=Material), out: wp.array(dtype=int)):
    i = wp.tid()
    out[i] = wp.min(material[i].group, 3) + max(material[i].group / 4, 1)  # port: differs /


@wp.kernel
def average(x: wp.array(dtype=wp.vec3), count: int, center: wp.array(dtype=wp.vec3)):
    wp.atomic_add(center, 0, x[wp.tid()] / float(count))


def fit(x: wp.array, target: float):
    e = wp.zeros(1, dtype=float, requires_grad=True)
    optimizer = warp.optim.Adam([x], lr=0.01)
    for _ in range(10):
        tape = wp.Tape()
        with tape:
            wp.launch(energy, dim=x.shape, inputs=[x, wp.ones(x.shape[0], dtype=float)], outputs=[e])
        tape.backward(e)
        optimizer.step([x.grad])
        tape.zero()
        e.zero_()
    with wp.ScopedTimer("fit", active=target > 0.0):
        wp.synchronize()
    wp.synchronize_device(wp.get_device())
