"""Programs in the manner of Warp's examples: fluids, springs, bodies, rays, hash tables."""

# They are written for another library.
# pyright: basic, reportInvalidTypeForm=false
# mypy: ignore-errors
# ruff: noqa: UP018, RUF046

import numpy as np

from tests.compat.programs import program

POINTS = np.random.default_rng(3).normal(size=(40, 3)).astype(np.float32)


@program
def a_fluid_on_a_grid(wp):
    N = wp.constant(8)

    @wp.func
    def lookup_float(f: wp.array2d(dtype=float), x: int, y: int):
        x = wp.clamp(x, 0, N - 1)
        y = wp.clamp(y, 0, N - 1)
        return f[x, y]

    @wp.func
    def sample_float(f: wp.array2d(dtype=float), x: float, y: float):
        lx = int(wp.floor(x))
        ly = int(wp.floor(y))
        tx = x - float(lx)
        ty = y - float(ly)
        s0 = wp.lerp(lookup_float(f, lx, ly), lookup_float(f, lx + 1, ly), tx)
        s1 = wp.lerp(lookup_float(f, lx, ly + 1), lookup_float(f, lx + 1, ly + 1), tx)
        s = wp.lerp(s0, s1, ty)
        return s

    @wp.func
    def lookup_vel(f: wp.array2d(dtype=wp.vec2), x: int, y: int):
        if x < 0 or x >= N:
            return wp.vec2()
        if y < 0 or y >= N:
            return wp.vec2()
        return f[x, y]

    @wp.kernel
    def advect(
        u0: wp.array2d(dtype=wp.vec2),
        u1: wp.array2d(dtype=wp.vec2),
        rho0: wp.array2d(dtype=float),
        rho1: wp.array2d(dtype=float),
        dt: float,
    ):
        i, j = wp.tid()
        u = u0[i, j]
        p = wp.vec2(float(i), float(j))
        p = p - u * dt
        u1[i, j] = lookup_vel(u0, int(p[0]), int(p[1])) * 0.99
        rho1[i, j] = sample_float(rho0, p[0], p[1])

    @wp.kernel
    def divergence(u: wp.array2d(dtype=wp.vec2), div: wp.array2d(dtype=float)):
        i, j = wp.tid()
        if i == N - 1:
            return
        if j == N - 1:
            return
        dx = (u[i + 1, j][0] - u[i, j][0]) * 0.5
        dy = (u[i, j + 1][1] - u[i, j][1]) * 0.5
        div[i, j] = dx + dy

    @wp.kernel
    def pressure_solve(
        p0: wp.array2d(dtype=float), p1: wp.array2d(dtype=float), div: wp.array2d(dtype=float)
    ):
        i, j = wp.tid()
        s1 = lookup_float(p0, i - 1, j)
        s2 = lookup_float(p0, i + 1, j)
        s3 = lookup_float(p0, i, j - 1)
        s4 = lookup_float(p0, i, j + 1)
        err = s1 + s2 + s3 + s4 - div[i, j]
        p1[i, j] = err * 0.25

    r = np.random.default_rng(0)
    u0 = wp.array(r.normal(size=(8, 8, 2)).astype(np.float32), dtype=wp.vec2)
    u1 = wp.zeros_like(u0)
    rho0 = wp.array(r.normal(size=(8, 8)).astype(np.float32), dtype=float)
    rho1 = wp.zeros_like(rho0)
    div = wp.zeros((8, 8), dtype=float)
    p0 = wp.zeros((8, 8), dtype=float)
    p1 = wp.zeros((8, 8), dtype=float)
    shape = (8, 8)
    wp.launch(advect, dim=shape, inputs=[u0, u1, rho0, rho1, 0.7])
    wp.launch(divergence, dim=shape, inputs=[u1, div])
    for _ in range(4):
        wp.launch(pressure_solve, dim=shape, inputs=[p0, p1, div])
        p0, p1 = (p1, p0)
    return (u1.numpy(), rho1.numpy(), div.numpy(), p0.numpy())


@program
def springs_between_particles(wp):

    @wp.kernel
    def eval_springs(
        x: wp.array(dtype=wp.vec3),
        v: wp.array(dtype=wp.vec3),
        spring_indices: wp.array(dtype=int),
        rest: wp.array(dtype=float),
        f: wp.array(dtype=wp.vec3),
    ):
        tid = wp.tid()
        i = spring_indices[tid * 2 + 0]
        j = spring_indices[tid * 2 + 1]
        ke = 100.0
        kd = 0.5
        xi = x[i]
        xj = x[j]
        vi = v[i]
        vj = v[j]
        xij = xi - xj
        vij = vi - vj
        distance = wp.length(xij)
        l_inv = 1.0 / distance
        direction = xij * l_inv
        c = distance - rest[tid]
        dcdt = wp.dot(direction, vij)
        fs = direction * (ke * c + kd * dcdt)
        wp.atomic_sub(f, i, fs)
        wp.atomic_add(f, j, fs)

    @wp.kernel
    def integrate(
        x: wp.array(dtype=wp.vec3),
        v: wp.array(dtype=wp.vec3),
        f: wp.array(dtype=wp.vec3),
        w: wp.array(dtype=float),
        gravity: wp.vec3,
        dt: float,
    ):
        tid = wp.tid()
        x0 = x[tid]
        v0 = v[tid]
        inv_mass = w[tid]
        g = wp.vec3()
        if inv_mass > 0.0:
            g = gravity
        v1 = v0 + (f[tid] * inv_mass + g) * dt
        x1 = x0 + v1 * dt
        x[tid] = x1
        v[tid] = v1
        f[tid] = wp.vec3()

    n = 10
    x = wp.array(POINTS[:n], dtype=wp.vec3)
    v = wp.zeros(n, dtype=wp.vec3)
    f = wp.zeros(n, dtype=wp.vec3)
    idx = np.stack([np.arange(n - 1), np.arange(1, n)], 1).astype(np.int32).ravel()
    for _ in range(3):
        wp.launch(
            eval_springs,
            n - 1,
            [x, v, wp.array(idx, dtype=int), wp.array(np.ones(n - 1, np.float32)), f],
        )
        wp.launch(
            integrate,
            n,
            [
                x,
                v,
                f,
                wp.array(np.r_[0.0, np.ones(n - 1)], dtype=float),
                wp.vec3(0.0, -9.8, 0.0),
                0.01,
            ],
        )
    return (x.numpy(), v.numpy())


@program
def rigid_bodies(wp):

    @wp.struct
    class Body:
        q: wp.transform
        qd: wp.spatial_vector
        inertia: wp.mat33
        mass: float
        flags: wp.uint32

    @wp.func
    def integrate_body(b: Body, f: wp.spatial_vector, dt: float) -> Body:
        x0 = wp.transform_get_translation(b.q)
        r0 = wp.transform_get_rotation(b.q)
        w0 = wp.spatial_top(b.qd)
        v0 = wp.spatial_bottom(b.qd)
        t0 = wp.spatial_top(f)
        f0 = wp.spatial_bottom(f)
        v1 = v0 + (f0 / b.mass + wp.vec3(0.0, -10.0, 0.0)) * dt
        x1 = x0 + v1 * dt
        wb = wp.quat_rotate_inv(r0, w0)
        tb = wp.quat_rotate_inv(r0, t0) - wp.cross(wb, b.inertia * wb)
        w1 = wp.quat_rotate(r0, wb + wp.inverse(b.inertia) * tb * dt)
        r1 = wp.normalize(r0 + wp.quat(w1, 0.0) * r0 * 0.5 * dt)
        out = b
        out.q = wp.transform(x1, r1)
        out.qd = wp.spatial_vector(w1, v1)
        out.flags = b.flags | wp.uint32(2)
        return out

    @wp.kernel
    def step(
        bodies: wp.array(dtype=Body),
        f: wp.array(dtype=wp.spatial_vector),
        dt: float,
        flags: wp.array(dtype=wp.uint32),
        q: wp.array(dtype=wp.transform),
    ):
        i = wp.tid()
        b = integrate_body(bodies[i], f[i], dt)
        bodies[i] = b
        flags[i] = bodies[i].flags
        q[i] = bodies[i].q

    bs = []
    for i in range(4):
        b = Body()
        b.q = wp.transform(
            wp.vec3(*POINTS[i].tolist()), wp.quat_from_axis_angle(wp.vec3(0.0, 1.0, 0.0), 0.3 * i)
        )
        b.qd = wp.spatial_vector(*POINTS[i].tolist(), *POINTS[i + 1].tolist())
        b.inertia = wp.mat33(np.diag([1.0, 2.0, 3.0]))
        b.mass = 1.0 + i
        b.flags = 1
        bs.append(b)
    bodies = wp.array(bs, dtype=Body)
    f = wp.array(np.arange(24).reshape(4, 6) * 0.1, dtype=wp.spatial_vector)
    flags = wp.zeros(4, dtype=wp.uint32)
    q = wp.zeros(4, dtype=wp.transform)
    wp.launch(step, 4, [bodies, f, 0.05], [flags, q])
    return (flags.numpy(), q.numpy(), bodies.numpy()["qd"], bodies.numpy()["mass"])


@program
def rays_and_spheres(wp):

    @wp.struct
    class Material:
        albedo: wp.vec3
        rough: float

    @wp.struct
    class Scene:
        centers: wp.array(dtype=wp.vec3)
        radii: wp.array(dtype=float)
        count: int
        mat: Material
        view: wp.mat44

    @wp.func
    def hit(s: Scene, o: wp.vec3, d: wp.vec3):
        best = float(1000000000.0)
        which = int(-1)
        for k in range(s.count):
            oc = o - s.centers[k]
            b = wp.dot(oc, d)
            c = wp.dot(oc, oc) - s.radii[k] * s.radii[k]
            disc = b * b - c
            if disc > 0.0:
                t = -b - wp.sqrt(disc)
                if t > 0.0 and t < best:
                    best = t
                    which = k
        return (best, which)

    @wp.func
    def shade(m: Material, t: float):
        m2 = Material()
        m2.albedo = m.albedo * t
        m2.rough = m.rough
        return m2

    @wp.kernel
    def trace(
        s: Scene,
        dirs: wp.array(dtype=wp.vec3),
        out: wp.array(dtype=float),
        ids: wp.array(dtype=int),
        mats: wp.array(dtype=Material),
    ):
        i = wp.tid()
        d4 = s.view * wp.vec4(dirs[i][0], dirs[i][1], dirs[i][2], 0.0)
        d = wp.normalize(wp.vec3(d4[0], d4[1], d4[2]))
        t, k = hit(s, wp.vec3(0.0, 0.0, -5.0), d)
        out[i] = t
        ids[i] = k
        if k >= 0:
            mats[i] = shade(s.mat, 1.0 / t)

    s = Scene()
    s.centers = wp.array(POINTS[:5], dtype=wp.vec3)
    s.radii = wp.array(np.full(5, 0.7, np.float32))
    s.count = 5
    s.mat.albedo = wp.vec3(1.0, 0.5, 0.25)
    s.mat.rough = 0.1
    s.view = wp.mat44(np.eye(4))
    rays = np.stack(
        [np.linspace(-0.3, 0.3, 20), np.linspace(0.2, -0.2, 20), np.ones(20)], 1
    ).astype(np.float32)
    out = wp.zeros(20, dtype=float)
    ids = wp.zeros(20, dtype=int)
    mats = wp.zeros(20, dtype=Material)
    wp.launch(trace, 20, inputs=[s, wp.array(rays, dtype=wp.vec3)], outputs=[out, ids, mats])
    m = mats.numpy()
    return (out.numpy(), ids.numpy(), m["albedo"], m["rough"])


@program
def histograms_and_hash_tables(wp):

    @wp.kernel
    def k(
        x: wp.array(dtype=float),
        lo: wp.array(dtype=float),
        hi: wp.array(dtype=float),
        bins: wp.array(dtype=int),
        keys: wp.array(dtype=int),
        count: wp.array(dtype=int),
        vs: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        wp.atomic_min(lo, 0, x[i])
        wp.atomic_max(hi, 0, x[i])
        b = wp.clamp(int((x[i] + 3.0) * 2.0), 0, 11)
        wp.atomic_add(bins, b, 1)
        slot = b % 5
        while True:
            old = wp.atomic_cas(keys, slot, -1, b)
            if old == -1 or old == b:
                break
            slot = (slot + 1) % 16
        if x[i] > 0.0:
            wp.atomic_add(count, 0, 1)
        vs[0] += wp.vec3(1.0, 2.0, float(i))
        bins[b] -= 0
        wp.atomic_max(vs, 1, wp.vec3(x[i], -x[i], 1.0))
        wp.atomic_or(count, 1, 1 << i % 8)
        wp.atomic_exch(count, 2, 5)

    x = wp.array(POINTS[:, 0].copy())
    lo = wp.full(1, 1000000000.0, dtype=float)
    hi = wp.full(1, -1000000000.0, dtype=float)
    bins = wp.zeros(12, dtype=int)
    keys = wp.full(16, -1, dtype=int)
    count = wp.zeros(3, dtype=int)
    vs = wp.zeros(2, dtype=wp.vec3)
    wp.launch(k, 40, [x, lo, hi, bins, keys, count, vs])
    return (lo.numpy(), hi.numpy(), bins.numpy(), keys.numpy(), count.numpy(), vs.numpy())


@program
def spatial_algebra(wp):

    @wp.kernel
    def k(
        v: wp.array(dtype=wp.vec3),
        o: wp.array2d(dtype=wp.spatial_vector),
        s: wp.array2d(dtype=float),
        m: wp.array(dtype=wp.spatial_matrix),
    ):
        i = wp.tid()
        a = wp.spatial_vector(v[i], v[i + 1])
        b = wp.spatial_vector(v[i + 2], wp.vec3(1.0, 2.0, 3.0))
        o[i, 0] = wp.spatial_cross(a, b)
        o[i, 1] = wp.spatial_cross_dual(a, b)
        o[i, 2] = a * 2.0 + b / 3.0
        t = wp.transform(v[i], wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.4))
        M = wp.spatial_adjoint(wp.quat_to_matrix(t.q), wp.skew(t.p) * wp.quat_to_matrix(t.q))
        m[i] = M
        o[i, 3] = M * a
        s[i, 0] = wp.spatial_dot(a, b)
        s[i, 1] = wp.dot(wp.spatial_top(a), wp.spatial_bottom(b))
        s[i, 2] = a[4]

    o = wp.zeros((6, 4), dtype=wp.spatial_vector)
    s = wp.zeros((6, 3), dtype=float)
    m = wp.zeros(6, dtype=wp.spatial_matrix)
    wp.launch(k, 6, [wp.array(POINTS, dtype=wp.vec3)], [o, s, m])
    return (o.numpy(), s.numpy(), m.numpy())
