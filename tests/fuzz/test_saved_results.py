"""Random kernels with loops along rows: adjoints that get their results have the same bits.

In torch by its operators, in JAX by ``jax.vjp``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import kernelcore as kc
from jax_ffi.primitive import Launch, bind
from kernelcore.operators import Operation, as_array, kernel_operation, saving
from tests.fuzz.kept_programs import EXTENTS, KeepingProgram
from tests.fuzz.typed_programs import define
from torch_ext import derivation
from torch_ext.dtype import dtype_to_torch
from torch_ext.register import root_operator

COUNT = int(os.environ.get("KC_FUZZ_PROGRAMS", "8"))
FIRST = int(os.environ.get("KC_FUZZ_SEED", "0")) * COUNT
LENGTHS = (70, 32, 7, 100, 31, 1, 64)


def operands(operation: Operation, program: KeepingProgram, number: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    shape = (*EXTENTS[program.rank], LENGTHS[number % len(LENGTHS)])
    types = [as_array(operand.type) for operand in operation.operands]
    return [
        torch.randn(shape[: t.ndim], dtype=dtype_to_torch(t.dtype), generator=generator)
        for t in types
    ]


def gradients_in_jax(
    operation: Operation, args: list[torch.Tensor], cotangents: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The cotangents of all operands, by ``jax.vjp`` of a launch."""
    with jax.enable_x64(True):
        primals, given = ([jnp.asarray(a.numpy()) for a in each] for each in (args, cotangents))
        _, pull = jax.vjp(lambda *values: bind(values, Launch(operation)), *primals)
        return [torch.from_numpy(np.array(ct)) for ct in pull(given)]


def programs(shard: int, shards: int) -> Iterator[tuple[int, KeepingProgram, Operation]]:
    """Programs whose adjoint for all operands is spared a loop."""
    found = 0
    for number in itertools.count(8 * FIRST + shard, shards):
        if found >= COUNT // shards:
            return
        program = KeepingProgram(number)
        kernel: kc.Kernel = define(program.text, {"kc": kc})["kernel"]
        effects = dict(zip((p.name for p in kernel.func.params), kernel.effects, strict=True))
        of_sums = [f"of_{name}" for name in program.sums]
        grid = tuple(f"x0.shape[{axis}]" for axis in range(program.rank))
        operation = kernel_operation(
            kernel,
            of_sums,
            [name for name in program.outputs if effects[name].writes],
            launch_dims=grid,
            output_dims=dict.fromkeys(of_sums, grid),
        )
        if saving(operation, range(len(operation.operands))) is not None:
            found += 1
            yield number, program, operation


@pytest.mark.parametrize("shard", range(4))
def test_adjoints_have_the_bits_of_those_that_run_the_loops(shard: int) -> None:
    for number, program, operation in programs(shard, 4):
        operator, wrt = root_operator(operation), tuple(range(len(operation.operands)))
        args = operands(operation, program, number)
        forward = operator.derived(derivation.saving_for(wrt)).operator
        assert forward is not None
        plain, results = operator.direct(*args), forward.direct(*args)
        seeds = tuple(range(len(plain)))
        given = [torch.cos(r) for r in plain]
        short, produced = operator.derived(derivation.saved_vjp(wrt, seeds, ()))
        whole, wanted = operator.derived(derivation.vjp(wrt, seeds, ()))
        in_jax = gradients_in_jax(operation, args, given)
        assert short is not None
        assert whole is not None
        assert produced == wanted
        found = short.results(short.direct(*args, *results[len(plain) :], *given))
        again = whole.results(whole.direct(*args, *given))
        pairs = [*zip((*results[: len(plain)], *found), (*plain, *again), strict=True)]
        pairs += zip((in_jax[k] for k in wanted), again, strict=True)
        for one, other in pairs:
            try:
                torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
            except AssertionError as error:
                raise AssertionError(f"program {number}:\n{program.text}") from error
