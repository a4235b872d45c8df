"""The operators of ``bench_frameworks`` at their sizes, and the same in torch and JAX."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import torch
from jax import numpy as jnp
from torch.nn import functional

from tests.bench.framework_kernels import (
    EPSILON,
    HEAD,
    attention,
    column_sum,
    convolution,
    csr_product,
    gelu_bias,
    layer_norm,
    product,
    row_sum,
    scatter_add,
    softmax,
)

# Rows above this many times the best alternative miss the goal: kernels of a thread per element, or
# per query, do not use what blocks of threads could share.
LIMIT, LIMIT_OF_BLOCKS = 1.5, 3.0
# Longer arrays repeat their first elements: drawing them would take longer than the benchmark. The
# number is prime, so that rows differ.
MOST_DRAWN = 4_194_301


class Random:
    """Reproducible operands of one type of floats."""

    def __init__(self, dtype: Any) -> None:
        self._generator = np.random.default_rng(0)
        self._dtype = dtype

    def floats(self, *shape: int) -> np.ndarray:
        # Tensors begin where JAX can use them without a copy.
        found = torch.empty(shape, dtype=getattr(torch, self._dtype)).numpy()
        flat = found.reshape(-1)
        drawn = self._generator.standard_normal(min(flat.size, MOST_DRAWN), self._dtype)
        for begin in range(0, flat.size, drawn.size):
            part = flat[begin : begin + drawn.size]
            part[:] = drawn[: part.size]
        return found

    def indices(self, limit: int, *shape: int) -> np.ndarray:
        return self._generator.integers(0, limit, shape, np.int32)


@dataclass(frozen=True, slots=True)
class Case:
    """An operator at a size.

    Attributes:
        name: What tables call it.
        make: The kernel in the language of a module, kernelcore or Warp, for a type of floats.
        options: Those of ``kc.op``.
        args: Its operands, from a generator of random arrays: arrays, and integers.
        by_torch: The same operator of tensors.
        by_jax: The same operator of JAX arrays.
        grid: The launch shape, from the operands and the result.
        dtype: The type of its floats.
        limit: The largest multiple of the best alternative's time that is accepted.
        batched: Per operand, whether it has one more axis in front, where operators of one element
            of a batch run under ``vmap``; empty without a batch.
        adds: Whether the kernel adds to its result, which is zero before.
        is_long: Whether quick runs leave it out.
    """

    name: str
    make: Callable[[Any, Any], Any]
    options: Mapping[str, Any]
    args: Callable[[Random], tuple[Any, ...]]
    by_torch: Callable[..., torch.Tensor]
    by_jax: Callable[..., jax.Array]
    grid: Callable[[Sequence[Any], Any], Sequence[int]]
    dtype: str = "float32"
    limit: float = LIMIT
    batched: Sequence[bool] = ()
    adds: bool = False
    is_long: bool = False

    @property
    def tolerance(self) -> float:
        """How far an element may be off, as a part of the largest."""
        # The kernel's gradient of a long row is the difference of sums in order.
        return {"float32": 1e-2 if self.is_long else 1e-4, "float64": 1e-11}[self.dtype]


def jax_layer_norm(x: Any, w: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * w + b


def torch_csr_product(start: Any, column: Any, value: Any, x: Any) -> Any:
    rows = start.numel() - 1
    row = torch.repeat_interleave(torch.arange(rows), start.diff(), output_size=column.numel())
    terms = value[:, None] * x.index_select(0, column)
    return x.new_zeros(rows, x.shape[1]).index_add(0, row, terms)


def jax_csr_product(start: Any, column: Any, value: Any, x: Any) -> Any:
    rows = start.size - 1
    row = jnp.repeat(jnp.arange(rows), jnp.diff(start), total_repeat_length=column.size)
    terms = value[:, None] * x[column]
    return jax.ops.segment_sum(terms, row, rows, indices_are_sorted=True)


def jax_attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(q @ k.T * (1.0 / HEAD**0.5)) @ v


def torch_attention(q: Any, k: Any, v: Any) -> Any:
    return functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def jax_convolution(x: Any, w: Any) -> Any:
    return jax.lax.conv(x[None, None], w[None, None], (1, 1), "VALID")[0, 0]


def jax_scatter_add(x: Any, row: Any, n: int) -> Any:
    return jax.ops.segment_sum(x, row, n)


Args = Callable[[Random], tuple[Any, ...]]


def _csr(rows: int, each: int, columns: int) -> Args:
    """A matrix of ``each`` elements a row, and a dense one of ``columns`` columns."""
    start = np.arange(0, rows * each + 1, each, dtype=np.int32)

    def args(random: Random) -> tuple[Any, ...]:
        count = rows * each
        return (
            start,
            random.indices(rows, count),
            random.floats(count),
            random.floats(rows, columns),
        )

    return args


def _of_rows(case: str, rows: int, columns: int, dtype: str = "float32") -> Case:
    """A case whose threads loop over a row each."""
    name = f"{case} {rows} x {columns}{'' if dtype == 'float32' else ', ' + dtype}"
    to_row = {"launch_dims": "x.shape[0]", "output_dims": "x"}

    def grid(args: Sequence[Any], found: Any) -> Sequence[int]:
        del args
        return found.shape[:1]

    def of_x(random: Random) -> tuple[Any, ...]:
        return (random.floats(rows, columns),)

    def of_norm(random: Random) -> tuple[Any, ...]:
        return random.floats(rows, columns), random.floats(columns), random.floats(columns)

    if case == "softmax":
        return Case(
            name, softmax, to_row, of_x, lambda x: x.softmax(-1), jax.nn.softmax, grid, dtype
        )
    if case == "row sum":
        to_row["output_dims"] = "x.shape[0]"
        return Case(
            name, row_sum, to_row, of_x, lambda x: x.sum(-1), lambda x: x.sum(-1), grid, dtype
        )
    assert case == "layer norm"
    return Case(
        name,
        layer_norm,
        to_row,
        of_norm,
        lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b, EPSILON),
        jax_layer_norm,
        grid,
        dtype,
    )


def _product(size: int, dtype: str = "float32") -> Case:
    return Case(
        f"product {size}{'' if dtype == 'float32' else ', ' + dtype}",
        product,
        {"launch_dims": ("a.shape[0]", "b.shape[1]")},
        lambda random: (random.floats(size, size), random.floats(size, size)),
        torch.matmul,
        jnp.matmul,
        lambda args, found: found.shape,
        dtype,
        LIMIT_OF_BLOCKS,
    )


def _batched(
    case: Case, name: str, args: Callable[[Random], tuple[Any, ...]], *batched: bool
) -> Case:
    """``case`` for the elements of a batch, whose peers take arrays of one more axis."""
    return replace(case, name=name, args=args, batched=batched)


BATCH = (16, 256, 64)

CASES = (
    Case(
        "gelu + bias 4096 x 512",
        gelu_bias,
        {},
        lambda random: (random.floats(4096, 512), random.floats(512)),
        lambda x, b: functional.gelu(x + b),
        lambda x, b: jax.nn.gelu(x + b, approximate=False),
        lambda args, found: found.shape,
    ),
    _of_rows("softmax", 4096, 512),
    _of_rows("softmax", 4096, 512, "float64"),
    replace(_of_rows("softmax", 4096, 32000), is_long=True),
    _batched(
        _of_rows("softmax", 256, 64),
        "softmax 16 x 256 x 64, vmap",
        lambda random: (random.floats(*BATCH),),
        True,
    ),
    _of_rows("layer norm", 4096, 512),
    _of_rows("layer norm", 4096, 512, "float64"),
    replace(_of_rows("layer norm", 4096, 32000), is_long=True),
    _batched(
        _of_rows("layer norm", 256, 64),
        "layer norm 16 x 256 x 64, vmap",
        lambda random: (random.floats(*BATCH), random.floats(64), random.floats(64)),
        *(True, False, False),
    ),
    _of_rows("row sum", 4096, 512),
    _of_rows("row sum", 4096, 512, "float64"),
    Case(
        "column sum 4096 x 512",
        column_sum,
        {"launch_dims": "x", "output_dims": "x.shape[1]"},
        lambda random: (random.floats(4096, 512),),
        lambda x: x.sum(0),
        lambda x: x.sum(0),
        lambda args, found: args[0].shape,
        adds=True,
    ),
    _product(512),
    _product(512, "float64"),
    _batched(
        _product(256),
        "product 16 x 256 x 64 x 256, vmap",
        lambda random: (random.floats(*BATCH), random.floats(16, 64, 256)),
        *(True, True),
    ),
    Case(
        "attention 1024 x 64",
        attention,
        {},
        lambda random: tuple(random.floats(1024, HEAD) for _ in range(3)),
        torch_attention,
        jax_attention,
        lambda args, found: found.shape[:1],
        limit=LIMIT_OF_BLOCKS,
    ),
    Case(
        "convolution 3 x 3 of 1024 x 1024",
        convolution,
        {
            "launch_dims": lambda x: (x[0] - 2, x[1] - 2),
            "output_dims": lambda x: (x[0] - 2, x[1] - 2),
        },
        lambda random: (random.floats(1024, 1024), random.floats(3, 3)),
        lambda x, w: functional.conv2d(x[None, None], w[None, None])[0, 0],
        jax_convolution,
        lambda args, found: found.shape,
    ),
    Case(
        "CSR product 20,000 x 8, 32 columns",
        csr_product,
        {
            "launch_dims": lambda start, x: (start[0] - 1, x[1]),
            "output_dims": lambda start, x: (start[0] - 1, x[1]),
        },
        _csr(20_000, 8, 32),
        torch_csr_product,
        jax_csr_product,
        lambda args, found: found.shape,
    ),
    Case(
        "scatter-add 20,000 x 32 to 500 rows",
        scatter_add,
        {"launch_dims": "x", "output_dims": ("n", "x.shape[1]")},
        lambda random: (random.floats(20_000, 32), random.indices(500, 20_000), 500),
        lambda x, row, n: x.new_zeros(n, x.shape[1]).index_add(0, row, x),
        jax_scatter_add,
        lambda args, found: args[0].shape,
        adds=True,
    ),
)
