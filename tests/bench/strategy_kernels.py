"""Kernels and shapes for ``bench_strategies``: rows, columns, row-major loops, few long rows."""

# pyright: basic, reportInvalidTypeForm=false

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.bench import framework_kernels as kernels

# Name, kernel, operands, shape of the result, grid.
Subject = tuple[str, Callable[[Any, Any], Any], Sequence[Any], tuple[int, ...], tuple[int, ...]]


def mixture(m: Any, real: Any) -> Any:
    """Distances of points to centres, each in a loop over dimensions, row-major."""

    @m.kernel
    def mixture(
        x: m.array2d(dtype=real),
        mean: m.array2d(dtype=real),
        scale: m.array2d(dtype=real),
        y: m.array2d(dtype=real),
    ):
        i, k = m.tid()
        total = real(0.0)
        for b in range(x.shape[1]):
            d = (x[i, b] - mean[k, b]) * scale[k, b]
            total += d * d
        y[i, k] = real(-0.5) * total

    return mixture


def log_sum_exp(m: Any, real: Any) -> Any:
    @m.kernel
    def log_sum_exp(x: m.array2d(dtype=real), y: m.array(dtype=real)):
        i = m.tid()
        top = x[i, 0]
        for k in range(x.shape[1]):
            top = m.max(top, x[i, k])
        total = real(0.0)
        for k in range(x.shape[1]):
            total += m.exp(x[i, k] - top)
        y[i] = top + m.log(total)

    return log_sum_exp


def matrix_vector(m: Any, real: Any) -> Any:
    @m.kernel
    def matrix_vector(a: m.array2d(dtype=real), x: m.array(dtype=real), y: m.array(dtype=real)):
        i = m.tid()
        total = real(0.0)
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        y[i] = m.tanh(total)

    return matrix_vector


def linear(m: Any, real: Any) -> Any:
    """A linear layer of a network, for a batch."""

    @m.kernel
    def linear(w: m.array2d(dtype=real), x: m.array2d(dtype=real), y: m.array2d(dtype=real)):
        b, i = m.tid()
        total = real(0.0)
        for k in range(x.shape[1]):
            total += w[i, k] * x[b, k]
        y[b, i] = total

    return linear


def gain(m: Any, real: Any) -> Any:
    """A gain and an offset per column."""

    @m.kernel
    def gain(
        x: m.array2d(dtype=real),
        w: m.array(dtype=real),
        b: m.array(dtype=real),
        y: m.array2d(dtype=real),
    ):
        i, j = m.tid()
        y[i, j] = x[i, j] * w[j] + b[j]

    return gain


def wave(m: Any, real: Any) -> Any:
    """A periodic stencil."""

    @m.kernel
    def wave(u: m.array2d(dtype=real), y: m.array2d(dtype=real)):
        i, j = m.tid()
        n, k = u.shape[0], u.shape[1]
        around = u[(i + 1) % n, j] + u[(i + n - 1) % n, j]
        around += u[i, (j + 1) % k] + u[i, (j + k - 1) % k]
        y[i, j] = u[i, j] + real(0.1) * (around - real(4.0) * u[i, j])

    return wave


def added(m: Any, real: Any) -> Any:
    """A product whose sums are elements of the result."""

    @m.kernel
    def added(a: m.array2d(dtype=real), b: m.array2d(dtype=real), y: m.array2d(dtype=real)):
        i, j = m.tid()
        for k in range(a.shape[1]):
            y[i, j] += a[i, k] * b[k, j]

    return added


def neighbours(m: Any, real: Any) -> Any:
    """For every column a costly sum over rows that are anywhere."""

    @m.kernel
    def neighbours(
        x: m.array2d(dtype=real), at: m.array2d(dtype=m.int32), y: m.array2d(dtype=real)
    ):
        i = m.tid()
        for j in range(x.shape[1]):
            total = real(0.0)
            for k in range(at.shape[1]):
                total += m.tanh(x[i, j] - x[at[i, k], j])
            y[i, j] = total

    return neighbours


def cases(random: Callable[[str], Any]) -> Iterator[Subject]:
    """All kernels at all shapes."""
    for dtype in ("float32", "float64"):
        suffix = "" if dtype == "float32" else ", float64"
        r = random(dtype)
        for rows, columns in ((512, 512), (4096, 16), (25, 1000), (8, 32000)):
            name = f"{rows} x {columns}{suffix}"
            x = r.floats(rows, columns)
            w, b = r.floats(columns), r.floats(columns)
            yield f"row sum {name}", kernels.row_sum, [x], (rows,), (rows,)
            yield f"softmax {name}", kernels.softmax, [x], x.shape, (rows,)
            yield f"layer norm {name}", kernels.layer_norm, [x, w, b], x.shape, (rows,)
            yield f"log-sum-exp {name}", log_sum_exp, [x], (rows,), (rows,)
            yield f"matrix-vector {name}", matrix_vector, [x, w], (rows,), (rows,)
            yield f"column sum {name}", kernels.column_sum, [x], (columns,), x.shape
            yield f"gain {name}", gain, [x, w, b], x.shape, x.shape
            yield f"gelu + bias {name}", kernels.gelu_bias, [x, b], x.shape, x.shape
            yield f"wave {name}", wave, [x], x.shape, x.shape
        a, b = r.floats(128, 128), r.floats(128, 128)
        yield f"product 128{suffix}", kernels.product, [a, b], (128, 128), (128, 128)
        a, b = r.floats(1000, 64), r.floats(25, 64)
        mixed = [a, b, r.floats(25, 64)]
        yield f"mixture 1000 x 64, 25{suffix}", mixture, mixed, (1000, 25), (1000, 25)
        for rows, columns, size in ((256, 64, 64), (16, 16, 4096)):
            name = f"linear {rows} x {columns} of {size}{suffix}"
            w, x = r.floats(columns, size), r.floats(rows, size)
            yield name, linear, [w, x], (rows, columns), (rows, columns)
        x, k = r.floats(128, 128), r.floats(3, 3)
        yield f"convolution 128{suffix}", kernels.convolution, [x, k], (126, 126), (126, 126)
        for rows, columns in ((4096, 32), (4096, 4)):
            x = r.floats(rows, columns)
            at = r.indices(rows, rows, 8)
            name = f"neighbours {rows} x {columns}{suffix}"
            yield name, neighbours, [x, at], x.shape, (rows,)
