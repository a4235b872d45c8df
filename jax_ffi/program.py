"""The primitive that a recorded program is: one custom call that replays all its launches.

Over several devices its launches are calls of their own, which XLA cuts one by one.
Its derivatives and batches are those of the launches, each a primitive of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.ffi
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir, xla

from jax_ffi import compat
from jax_ffi.arguments import Operands
from jax_ffi.partition import is_partitionable
from jax_ffi.platforms import CODE
from jax_ffi.primitive import Launch, bind, match_varying, result_avals, side_effect
from jax_ffi.registration import GRAPH_TARGETS, TARGET
from jax_ffi.replay import Layout, layout, program_attributes, slot_results
from kernelcore.operators import Extent, Operation, Program, Result, Slot, cached_property, evaluate

program_p = compat.Primitive("kernelcore_program")
program_p.multiple_results = True


@dataclass(frozen=True, eq=False)
class Replay:
    """The parameters of one application of the primitive.

    Attributes:
        program: What is computed; one JAX value per operand and per result.
        has_side_effect: Whether the call stays although its results are not used.
        is_own_graph: Whether a GPU runs it as a graph of its own, and no part of one of JAX's.
    """

    program: Program
    has_side_effect: bool = False
    is_own_graph: bool = False

    def __hash__(self) -> int:
        return hash(self.program.key)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Replay):
            return False
        mine, others = self.program, other.program
        same = mine is others or mine.key == others.key
        options = self.has_side_effect, self.is_own_graph
        return same and options == (other.has_side_effect, other.is_own_graph)

    def __repr__(self) -> str:
        return repr(self.program)

    @cached_property
    def layout(self) -> Layout:
        """Where its slots lie."""
        return layout(self.program)

    @cached_property
    def slots(self) -> dict[int, Result]:
        """The result that the steps leave in every slot."""
        return slot_results(self.program)

    def as_launches(self, *operands: Any) -> list[Any]:
        """The same with a primitive per launch."""

        def apply(operation: Operation, given: Sequence[Any]) -> list[Any]:
            launch = Launch(operation, has_side_effect=self.has_side_effect)
            return bind(Operands.of(operation).values(given), launch)

        return list(self.program.run(operands, apply))

    def check_extents(self, shapes: Sequence[Sequence[Any]]) -> None:
        """Refuse shapes of operands that a launch does not fit.

        Raises:
            KernelArgumentError: Naming the kernel and its parameter.
        """
        program = self.program
        known = dict(enumerate(shapes))
        known |= {s: evaluate(r.shape, shapes) for s, r in self.slots.items()}
        for step in program.steps:
            given = [
                known[g.index] if isinstance(g, Slot) else np.shape(getattr(g, "value", 0))
                for g in step.given
            ]
            step.operation.check_extents(given)


def bind_program(operands: Sequence[Any], replay: Replay) -> list[Any]:
    """Apply the primitive."""
    return program_p.bind(*match_varying(operands), replay=replay)


@program_p.def_effectful_abstract_eval
def _abstract_eval(*operands: Any, replay: Replay) -> tuple[list[Any], Any]:
    effects = side_effect() if replay.has_side_effect else frozenset()
    if any(any(a.sharding.spec) for a in operands):
        # Shardings are part of the types: those that the launches give.
        like = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding) for a in operands]
        found = jax.eval_shape(replay.as_launches, *like)
        avals = result_avals(replay.program.results, operands)
        return [a.update(sharding=f.sharding) for a, f in zip(avals, found, strict=True)], effects
    return result_avals(replay.program.results, operands), effects


def _batch(args: Sequence[Any], axes: Sequence[Any], *, replay: Replay) -> tuple[Any, list[int]]:
    results = jax.vmap(replay.as_launches, tuple(axes))(*args)
    return results, [0] * len(results)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, replay: Replay) -> tuple[Any, Any]:
    active = [i for i, t in enumerate(tangents) if type(t) is not ad.Zero]

    def of_active(*values: Any) -> list[Any]:
        given = dict(zip(active, values, strict=True))
        return replay.as_launches(*(given.get(i, p) for i, p in enumerate(primals)))

    chosen = [primals[i] for i in active], [tangents[i] for i in active]
    results, made = jax.jvp(of_active, *chosen)
    zeros = [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]
    is_zero = [getattr(t, "dtype", None) == jax.dtypes.float0 for t in made]
    return results, [z if skip else t for z, t, skip in zip(zeros, made, is_zero, strict=True)]


def _transpose(cotangents: Sequence[Any], *args: Any, replay: Replay) -> list[Any]:
    wrt = [i for i, a in enumerate(args) if ad.is_undefined_primal(a)]

    def of_undefined(*values: Any) -> list[Any]:
        given = dict(zip(wrt, values, strict=True))
        return replay.as_launches(*(given.get(i, a) for i, a in enumerate(args)))

    dense = [ad.instantiate_zeros(ct) for ct in cotangents]
    made = jax.linear_transpose(of_undefined, *(args[i].aval for i in wrt))(dense)
    found = dict(zip(wrt, made, strict=True))
    return [found.get(i) for i in range(len(args))]


def _lower(platform: str, ctx: mlir.LoweringRuleContext, *operands: Any, replay: Replay) -> Any:
    program, found = replay.program, replay.layout
    avals: Sequence[Any] = ctx.avals_in
    shapes = [a.shape for a in avals]
    is_cut = is_partitionable(ctx, replay.has_side_effect)
    if not program.steps or is_cut or not _is_known(program, shapes):
        return mlir.lower_fun(replay.as_launches, multiple_results=True)(ctx, *operands)
    attributes, constants = program_attributes(program, found, shapes, platform)
    placed = [mlir.ir_constant(c) for c in constants]
    target = GRAPH_TARGETS[platform] if replay.is_own_graph else TARGET
    lowering = jax.ffi.ffi_lowering(
        target, operand_output_aliases=found.aliases, has_side_effect=replay.has_side_effect
    )
    hidden = result_avals(found.hidden, ctx.avals_in)
    ctx = ctx.replace(
        avals_in=[*ctx.avals_in, *(jax.typeof(jnp.asarray(c)) for c in constants)],
        avals_out=[*ctx.avals_out, *hidden],
    )
    made = lowering(ctx, *operands, *placed, **attributes)
    return made[: len(program.results)]


def _is_known(program: Program, shapes: Sequence[Sequence[Any]]) -> bool:
    """Whether every extent that a launch takes as a number is one while lowering."""
    taken = [g for step in program.steps for g in step.given if isinstance(g, Extent)]
    return all(isinstance(shapes[e.operand][e.axis], int) for e in taken)


batching.primitive_batchers[program_p] = _batch
ad.primitive_jvps[program_p] = _jvp
ad.primitive_transposes[program_p] = _transpose
program_p.def_impl(partial(xla.apply_primitive, program_p))
for name in CODE:
    mlir.register_lowering(program_p, partial(_lower, name), platform=name)
