"""Launches over short rows, and arrays of structs, on one thread: beside Warp and numba."""

# The types of parameters belong to a module that is known when a kernel is made.
# pyright: basic, reportInvalidTypeForm=false

from collections.abc import Callable
from typing import Any

import numba  # pyright: ignore[reportMissingImports]
import numpy as np

import kernelcore as kc
from tests.bench.suite.contenders import quiet_warp, use_threads
from tests.bench.timing import interleaved, report

ROWS, COLUMNS = 100_000, 3
FIELDS = 7


def scaled(m: Any) -> Any:
    """A multiple of what is there, added to another array."""

    @m.kernel
    def scaled(a: float, x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i, j = m.tid()
        y[i, j] = a * x[i, j] + y[i, j]

    return scaled


def waves(m: Any) -> Any:
    """Elementary functions of every element."""

    @m.kernel
    def waves(a: float, x: m.array2d(dtype=float), y: m.array2d(dtype=float)):
        i, j = m.tid()
        v = x[i, j]
        y[i, j] = a * m.sin(v) * m.exp(-v * v)

    return waves


@numba.njit(parallel=True, error_model="numpy")
def scaled_by_numba(a: Any, x: Any, y: Any) -> None:
    for i in numba.prange(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = a * x[i, j] + y[i, j]


@numba.njit(parallel=True, error_model="numpy")
def waves_by_numba(a: Any, x: Any, y: Any) -> None:
    for i in numba.prange(x.shape[0]):
        for j in range(x.shape[1]):
            v = x[i, j]
            y[i, j] = a * np.sin(v) * np.exp(-v * v)


def particle(m: Any) -> Any:
    """A struct of 7 floats."""

    @m.struct
    class Particle:
        x: m.vec3
        v: m.vec3
        mass: float

    return Particle


def energy(m: Any, struct: Any) -> Any:
    """Much to compute per element."""

    @m.kernel
    def energy(p: m.array(dtype=struct), out: m.array(dtype=float)):
        i = m.tid()
        s = p[i]
        out[i] = 0.5 * s.mass * m.dot(s.v, s.v) + m.exp(-m.length(s.x))

    return energy


def energy_by_numpy(s: np.ndarray) -> np.ndarray:
    """``energy`` of rows of fields."""
    kinetic = 0.5 * s[:, 6] * (s[:, 3:6] ** 2).sum(1)
    return kinetic + np.exp(-np.linalg.norm(s[:, :3], axis=1))


def moved(m: Any, struct: Any) -> Any:
    """Little to compute per element."""

    @m.kernel
    def moved(p: m.array(dtype=struct), out: m.array(dtype=float)):
        i = m.tid()
        s = p[i]
        s.x = s.x + s.v * 1.0e-3
        p[i] = s
        out[i] = s.mass

    return moved


def measure_rows(make: Callable[[Any], Any], by_numba: Any, expected: Callable[..., Any]) -> None:
    """Time a kernel over ``ROWS`` rows, whose results are those of ``expected``."""
    warp = quiet_warp()
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (ROWS, COLUMNS)).astype(np.float32)
    runs: dict[str, Callable[[], object]] = {}
    arrays: dict[str, Any] = {}
    for name, m in (("kernelcore", kc), ("Warp", warp)):
        kernel, source = make(m), m.array(x, dtype=m.float32, device="cpu")
        arrays[name] = m.zeros((ROWS, COLUMNS), dtype=m.float32, device="cpu")
        args = [0.5, source, arrays[name]]
        runs[name] = lambda m=m, k=kernel, a=args: m.launch(k, (ROWS, COLUMNS), a, device="cpu")
    arrays["numba"] = np.zeros_like(x)
    runs["numba"] = lambda: by_numba(np.float32(0.5), x, arrays["numba"])
    for name, run in runs.items():
        run()
        found = arrays[name] if name == "numba" else arrays[name].numpy()
        np.testing.assert_allclose(found, expected(x), rtol=1e-4, atol=1e-6, err_msg=name)
    title = f"{make.__name__}, {ROWS} rows of {COLUMNS}"
    report(title, interleaved(runs), "kernelcore", goal_times=("numba", 1.0))


def measure_structs(make: Callable[[Any, Any], Any], expected: Callable[..., Any]) -> None:
    """Time a kernel on an array of structs, whose results are those of ``expected``."""
    rng = np.random.default_rng(0)
    numbers = rng.uniform(0.5, 2, (ROWS, FIELDS)).astype(np.float32)
    runs: dict[str, Callable[[], object]] = {}
    for name, m in (("kernelcore", kc), ("Warp", quiet_warp())):
        struct = particle(m)
        kernel = make(m, struct)
        data = numbers.view(struct.numpy_dtype()).reshape(ROWS)
        args = [m.array(data.copy(), dtype=struct, device="cpu")]
        args.append(m.zeros(ROWS, dtype=m.float32, device="cpu"))
        m.launch(kernel, ROWS, args, device="cpu")
        np.testing.assert_allclose(args[1].numpy(), expected(numbers), rtol=1e-4, err_msg=name)
        runs[name] = lambda m=m, k=kernel, a=args: m.launch(k, ROWS, a, device="cpu")
    title = f"{make.__name__}, {ROWS} structs of {FIELDS} floats"
    report(title, interleaved(runs), "kernelcore", goal_times=("Warp", 0.9))


def main() -> None:
    use_threads(1)
    measure_rows(scaled, scaled_by_numba, lambda x: 0.5 * x)
    measure_rows(waves, waves_by_numba, lambda x: 0.5 * np.sin(x) * np.exp(-x * x))
    measure_structs(energy, energy_by_numpy)
    measure_structs(moved, lambda s: s[:, 6])


if __name__ == "__main__":
    main()
