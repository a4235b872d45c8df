"""The kernels of ``bench_frameworks``, in the language of a module: kernelcore or Warp.

They are plain: a thread per element or per row, and loops over what it needs.
"""

# The types of parameters belong to a module that is known when a kernel is made.
# pyright: basic, reportInvalidTypeForm=false

from typing import Any

EPSILON = 1e-5
# Components of a query, a key and a value.
HEAD = 64
SCALE = 1.0 / HEAD**0.5


def gelu_bias(m: Any, real: Any) -> Any:
    @m.kernel
    def gelu_bias(x: m.array2d(dtype=real), b: m.array(dtype=real), y: m.array2d(dtype=real)):
        i, j = m.tid()
        v = x[i, j] + b[j]
        y[i, j] = real(0.5) * v * (real(1.0) + m.erf(v * real(0.7071067811865476)))

    return gelu_bias


def softmax(m: Any, real: Any) -> Any:
    @m.kernel
    def softmax(x: m.array2d(dtype=real), y: m.array2d(dtype=real)):
        i = m.tid()
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = m.max(top, x[i, j])
        total = real(0.0)
        for j in range(x.shape[1]):
            total += m.exp(x[i, j] - top)
        for j in range(x.shape[1]):
            y[i, j] = m.exp(x[i, j] - top) / total

    return softmax


def layer_norm(m: Any, real: Any) -> Any:
    @m.kernel
    def layer_norm(
        x: m.array2d(dtype=real),
        w: m.array(dtype=real),
        b: m.array(dtype=real),
        y: m.array2d(dtype=real),
    ):
        i = m.tid()
        count = real(x.shape[1])
        mean = real(0.0)
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean = mean / count
        variance = real(0.0)
        for j in range(x.shape[1]):
            variance += (x[i, j] - mean) * (x[i, j] - mean)
        scale = real(1.0) / m.sqrt(variance / count + real(EPSILON))
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - mean) * scale * w[j] + b[j]

    return layer_norm


def row_sum(m: Any, real: Any) -> Any:
    @m.kernel
    def row_sum(x: m.array2d(dtype=real), y: m.array(dtype=real)):
        i = m.tid()
        total = real(0.0)
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total

    return row_sum


def column_sum(m: Any, real: Any) -> Any:
    @m.kernel
    def column_sum(x: m.array2d(dtype=real), y: m.array(dtype=real)):
        i, j = m.tid()
        m.atomic_add(y, j, x[i, j])

    return column_sum


def product(m: Any, real: Any) -> Any:
    @m.kernel
    def product(a: m.array2d(dtype=real), b: m.array2d(dtype=real), y: m.array2d(dtype=real)):
        i, j = m.tid()
        total = real(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        y[i, j] = total

    return product


def attention(m: Any, real: Any) -> Any:
    head = m.types.vector(length=HEAD, dtype=real)

    @m.kernel
    def attention(
        q: m.array(dtype=head),
        k: m.array(dtype=head),
        v: m.array(dtype=head),
        y: m.array(dtype=head),
    ):
        i = m.tid()
        query = q[i] * real(SCALE)
        top = m.dot(query, k[0])
        total = real(1.0)
        found = v[0]
        for j in range(1, k.shape[0]):
            score = m.dot(query, k[j])
            higher = m.max(top, score)
            kept = m.exp(top - higher)
            weight = m.exp(score - higher)
            total = total * kept + weight
            found = found * kept + v[j] * weight
            top = higher
        y[i] = found / total

    return attention


def convolution(m: Any, real: Any) -> Any:
    @m.kernel
    def convolution(x: m.array2d(dtype=real), w: m.array2d(dtype=real), y: m.array2d(dtype=real)):
        i, j = m.tid()
        total = real(0.0)
        for a in range(3):
            for b in range(3):
                total += w[a, b] * x[i + a, j + b]
        y[i, j] = total

    return convolution


def csr_product(m: Any, real: Any) -> Any:
    @m.kernel
    def csr_product(
        start: m.array(dtype=m.int32),
        column: m.array(dtype=m.int32),
        value: m.array(dtype=real),
        x: m.array2d(dtype=real),
        y: m.array2d(dtype=real),
    ):
        i, j = m.tid()
        total = real(0.0)
        for at in range(start[i], start[i + 1]):
            total += value[at] * x[column[at], j]
        y[i, j] = total

    return csr_product


def scatter_add(m: Any, real: Any) -> Any:
    @m.kernel
    def scatter_add(
        x: m.array2d(dtype=real), row: m.array(dtype=m.int32), n: int, y: m.array2d(dtype=real)
    ):
        i, j = m.tid()
        m.atomic_add(y, row[i], j, x[i, j])

    return scatter_add
