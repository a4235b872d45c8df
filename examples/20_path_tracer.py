"""A path tracer
=============

Light is followed backwards from the eye over diffuse and mirroring spheres, at random.

Each pixel has random numbers of its own: the picture has the same bits for any number of threads.
Sources: Kajiya, "The Rendering Equation", SIGGRAPH 1986; Shirley, "Ray Tracing in One Weekend".
"""

import sys

import matplotlib.pyplot as plt
import numpy as np

import kernelcore as kc


@kc.struct
class Sphere:
    centre: kc.vec3
    radius: float
    colour: kc.vec3
    mirror: float  # 1 for a mirror, 0 for a diffuse surface


@kc.func
def hit(s: Sphere, start: kc.vec3, ray: kc.vec3) -> float:
    """The distance to the sphere along the unit vector ``ray``, infinite if it is missed."""
    to = start - s.centre
    b = kc.dot(to, ray)
    d = b * b - kc.dot(to, to) + s.radius * s.radius
    if d <= 0.0:
        return kc.inf
    near, far = -b - kc.sqrt(d), -b + kc.sqrt(d)
    return near if near > 1e-3 else (far if far > 1e-3 else kc.inf)


@kc.op(launch_dims=("h", "w"))
@kc.kernel
def render(spheres: kc.array[Sphere], h: int, w: int, samples: int, image: kc.array2d[kc.vec3]):
    i, j = kc.tid()
    state = kc.philox_init(kc.uint64(1), kc.uint64(i * w + j), kc.uint64(0))
    total = kc.vec3()
    for _ in range(samples):
        x = (float(j) + kc.randf(state) - 0.5 * float(w)) / float(h)
        y = (0.5 * float(h) - float(i) - kc.randf(state)) / float(h)
        start = kc.vec3(0.0, 1.0, 4.0)
        ray = kc.normalize(kc.vec3(x, y - 0.12, -1.0))
        light = kc.vec3(1.0)  # The share of each colour that reaches the eye.
        for _bounce in range(8):
            distance, which = kc.inf, -1
            for k in range(len(spheres)):
                d = hit(spheres[k], start, ray)
                if d < distance:
                    distance, which = d, k
            if which < 0:
                sky = kc.lerp(kc.vec3(1.0), kc.vec3(0.45, 0.65, 1.0), 0.5 * ray.y + 0.5)
                total += kc.cw_mul(light, sky)
                break
            s = spheres[which]
            start = start + distance * ray
            normal = kc.normalize(start - s.centre)
            light = kc.cw_mul(light, s.colour)
            if s.mirror > 0.5:
                ray = ray - 2.0 * kc.dot(ray, normal) * normal
            else:
                ray = kc.normalize(normal + kc.sample_unit_sphere_surface(state))
    image[i, j] = total / float(samples)


def scene() -> np.ndarray:
    """A floor, three large spheres and many small ones."""
    rng = np.random.default_rng(3)
    spheres = np.zeros(40, kc.dtype_to_numpy(Sphere))
    spheres["colour"] = rng.uniform(0.2, 0.95, (40, 3))
    spheres["mirror"] = rng.random(40) < 0.3
    spheres["radius"] = 0.18
    angle, far = rng.uniform(0.0, 2.0 * np.pi, 40), rng.uniform(1.2, 3.5, 40)
    x, z = far * np.sin(angle), far * np.cos(angle) - 1.0
    spheres["centre"] = np.stack([x, spheres["radius"], z], 1)
    spheres[0] = ((0, -1000, 0), 1000, (0.5, 0.5, 0.5), 0)
    spheres[1] = ((0, 0.8, -1), 0.8, (0.95, 0.95, 0.95), 1)
    spheres[2] = ((-1.7, 0.8, -1), 0.8, (0.8, 0.3, 0.2), 0)
    spheres[3] = ((1.7, 0.8, -1), 0.8, (0.2, 0.4, 0.8), 0)
    return spheres


def main(small: bool) -> None:
    height, width, samples = (90, 150, 16) if small else (360, 600, 256)
    image = render(scene(), height, width, samples)
    print(f"{width} x {height} pixels, {samples} paths each: mean {image.mean():.4f}")
    figure, axis = plt.subplots(figsize=(width / 75, height / 75), constrained_layout=True)
    axis.imshow(np.clip(image, 0.0, 1.0) ** (1.0 / 2.2))
    axis.axis("off")
    figure.savefig("path_tracer.png", dpi=100)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
