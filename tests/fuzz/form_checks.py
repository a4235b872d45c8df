"""Forms of code of random kernels over grids and along rows: all have the bits of the interpreter.

grids: Kernels over one to three axes and arrays of any strides, in a form of the seed's.
operators: Operators on NumPy arrays of any strides, which make their results.
adjoints: Adjoints of the kernels of grids, but for the order of sums in gangs.
launches: Launches with several threads have the bits of single threads of unoptimised code.
batches: Batched operations, in the interpreter, have the bits of the operation on every instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np

import kernelcore as kc
from kernelcore.base.host import NO_MASKS, host
from kernelcore.codegen import abi
from kernelcore.codegen.analysis import costly_values
from kernelcore.codegen.analysis.loop_dependence import vector_loops
from kernelcore.codegen.analysis.row_tiling import can_tile_rows
from kernelcore.codegen.simd import gathering
from kernelcore.codegen.simd.cost_model import adds, outer_loops
from kernelcore.codegen.simd.lane_axis import OtherAxis, other_axes
from kernelcore.codegen.simd.loop_vectorize import LOOP_LANES
from kernelcore.codegen.simd.strategy import (
    LANES,
    ShortRows,
    VectorStrategy,
    has_vector_form,
    in_gangs,
)
from kernelcore.codegen.target import cpu
from kernelcore.ir.core import Func, Var
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.types import ArrayType
from kernelcore.operators import derive
from kernelcore.operators.shape_rules import kernel_operation
from kernelcore.passes.access.accumulation_plan import form_of as form_of_addition
from kernelcore.passes.pipeline import optimize
from tests.fuzz.grid_programs import GRIDS, LARGE_GRIDS, GridProgram, Grids
from tests.fuzz.program_arguments import bits, grid_arguments, strided
from tests.fuzz.typed_programs import define, unchecked_text
from tests.helpers import interpreter
from tests.helpers.kernel_harness import adjoint_func, launch, parts_of, unoptimised
from tests.helpers.operations import run_operation

# Grid programs have loops and guards that short ones have not.
MOST_EQUATIONS = 100
# One program in so many is compiled as users launch it, with LLVM's optimisations.
OPTIMISED = 20
# One operator in so many: without optimisations there are single threads only.
OPTIMISED_OPERATORS = 3
# The shares of programs with vectorised loops, where loops allow them, and in narrow gangs.
LOOP_FORMS, NARROW = 0.4, 0.8
# Threads of a launch, and launches of a kernel.
MOST_THREADS, LAUNCHES = 4, 3
# Instances of a batch.
INSTANCES = 3
# How far sums in another order may be apart, in units of the last place of the largest.
SUM_ULPS = 64


def text(seed: int, kind: str) -> str:
    """The source of the program of ``seed``."""
    return GridProgram(seed, LARGE_GRIDS if kind == "launches" else GRIDS).text


def grid_kernel(seed: int, grids: Grids = GRIDS) -> tuple[GridProgram, kc.Kernel, Func]:
    """The grid program of ``seed``, its kernel, and the IR for which code is generated."""
    program = GridProgram(seed, grids)
    kernel = define(program.text, {"kc": kc})["kernel"]
    with unchecked_text():
        return program, kernel, optimize(kernel.func)


def form_of(func: Func, seed: int) -> VectorStrategy | None:
    """How the grid program ``func`` of ``seed`` is compiled; None as users launch it."""
    rng = Random(f"form {seed}")
    if not seed % OPTIMISED:
        return None
    if rng.random() < LOOP_FORMS and (vector_loops(func) or outer_loops(func)):
        return VectorStrategy(loop_lanes=LOOP_LANES)
    lanes = LANES[1] if rng.random() < NARROW else rng.choice((1, *LANES[2:4]))
    rows = rng.choice((1, 2, 4, 8)) if lanes > 1 and can_tile_rows(func) else 1
    masked = rng.choice((1, 1, 4, NO_MASKS))
    has_sizes = rows > 1 and lanes > LANES[1] and not adds(func)
    sizes = rng.choice(((0, 0), (LANES[1], 0), (0, LANES[1]))) if has_sizes else (0, 0)
    return VectorStrategy(lanes, 1, rows, masked, 0, rng.random() < 0.5, *sizes)


def run(func: Func, args: Sequence[Any], grid: Sequence[int], seed: int) -> None:
    """Launch ``func`` in the form of ``seed``, in one or two parts."""
    form, points = form_of(func, seed), math.prod(grid)
    cut = seed % (points + 1)
    chunks = [(0, cut), (cut, points)] if 0 < cut < points else None
    shape = parts_of(form) if form else ()
    along, narrow = lane_axis_of(func, seed), short_rows_of(func, seed)
    # Half of the adjoints record whatever they can.
    costly = 1 if seed % 2 else costly_values.COSTLY_INSTRUCTIONS
    with (
        patch.object(costly_values, "COSTLY_INSTRUCTIONS", costly),
        patch.object(gathering, "other_axis", lambda _: along),
        patch.object(cpu, "short_rows", lambda *_: narrow),
        unoptimised() if form else nullcontext(),
    ):
        assert launch(func, args, grid, chunks, *shape) == abi.STATUS_OK


def lane_axis_of(func: Func, seed: int) -> OtherAxis | None:
    """The axis of lanes of a kernel as users launch it, any one: sums of floats have an order."""
    found = other_axes(func) if has_free_form(func, seed) else []
    return Random(f"lanes {seed}").choice(found) if found else None


def short_rows_of(func: Func, seed: int) -> ShortRows | None:
    """The gangs of launches with short rows, of a kernel as users launch it."""
    rng = Random(f"rows {seed}")
    if not has_free_form(func, seed) or not has_vector_form(func) or rng.random() < 0.3:
        return None
    return ShortRows(in_gangs(func, rng.choice(LANES[1:4]), host()), rng.choice((1, 4, 100)))


def has_free_form(func: Func, seed: int) -> bool:
    """Whether a kernel as users launch it may have another form: sums of floats have an order."""
    has_sums = any(eqn.op.kind is OpKind.ATOMIC_ADD for eqn in walk_eqns(func.body))
    return not has_sums and form_of(func, seed) is None


def is_long(func: Func) -> bool:
    """Whether LLVM would take most of the time of a campaign."""
    return sum(1 for _ in walk_eqns(func.body)) > MOST_EQUATIONS


def dense(args: Sequence[Any]) -> list[Any]:
    """Copies of arrays, of no strides of their own."""
    return [np.array(a) if isinstance(a, np.ndarray) else a for a in args]


def compare(func: Func, wanted: Sequence[Any], found: Sequence[Any], what: str) -> None:
    """Assert that the arrays for ``func`` have the same bits."""
    for param, want, got in zip(func.params, wanted, found, strict=True):
        compare_array(param, want, got, what)


def compare_array(param: Var, want: Any, got: Any, what: str) -> None:
    """Assert that ``want`` and ``got`` have the same bits, if they are arrays."""
    if isinstance(param.type, ArrayType):
        dtype = param.type.dtype
        for one, other in zip(bits(want, dtype), bits(got, dtype), strict=True):
            np.testing.assert_array_equal(other, one, f"{param.name}: {what}")


def check_grid(seed: int) -> bool:
    """Run the grid program of ``seed``; False if it is too long.

    Raises:
        AssertionError: Machine code and interpreter differ.
    """
    program, kernel, func = grid_kernel(seed)
    if is_long(func):
        return False
    found = grid_arguments(program, np.random.default_rng(seed))
    wanted = dense(found)
    interpreter.run(kernel.func, wanted, program.grid)
    run(func, found, program.grid, seed)
    compare(func, wanted, found, str(form_of(func, seed)))
    return True


def check_operator(seed: int) -> bool:
    """Run the grid program of ``seed`` as an operator; False if it is too long.

    Raises:
        AssertionError: Operator and interpreter differ.
    """
    program, kernel, func = grid_kernel(seed)
    if is_long(func):
        return False
    options = operator_options(program, kernel)
    made, updated = options["outputs"], options["in_out"]
    given = grid_arguments(program, np.random.default_rng(seed))
    args = dict(zip((p.name for p in func.params), given, strict=True))
    wanted = dict(zip(args, dense(given), strict=True))
    wanted |= {name: np.zeros_like(wanted[name]) for name in made}
    interpreter.run(kernel.func, list(wanted.values()), program.grid)
    with unoptimised() if seed % OPTIMISED_OPERATORS else nullcontext():
        results = kc.op(kernel, **options)(*(a for name, a in args.items() if name not in made))
    results = results if isinstance(results, tuple) else (results,)
    found = wanted | dict(zip((*made, *updated), results, strict=True))
    compare(func, list(wanted.values()), list(found.values()), "operator")
    return True


def operator_options(program: GridProgram, kernel: kc.Kernel) -> dict[str, Any]:
    """How ``program`` is an operator: it makes what it stores, and updates what it adds to."""
    marks = zip(kernel.func.params, kernel.effects, strict=True)
    written = {param.name for param, effect in marks if effect.writes}
    made = [a.name for a in program.outputs if a.name in written]
    return {
        "outputs": made,
        "in_out": [a.name for a in program.sums if a.name in written],
        "launch_dims": program.grid,
        "output_dims": dict.fromkeys(made, program.grid),
    }


def check_adjoint(seed: int) -> bool:
    """Run the adjoint of the grid program of ``seed``; False if it has none, or is too long.

    Gangs, and lanes that are iterations, add up the cotangents of shared elements in an order of
    their own: these are nearly equal, and have the same bits for arrays of any strides.

    Raises:
        AssertionError: Machine code and interpreter differ.
    """
    program, kernel, _ = grid_kernel(seed)
    try:
        func = adjoint_func(kernel)
    except kc.KernelGradError:
        return False
    if is_long(func):
        return False
    found = adjoint_arguments(func, program, np.random.default_rng(seed))
    wanted, packed = dense(found), dense(found)
    interpreter.run(func, wanted, program.grid)
    form = form_of(func, seed)
    run(func, packed, program.grid, seed)
    run(func, found, program.grid, seed)
    compare(func, packed, found, f"adjoint, {form}, strides")
    adds = [e for e in walk_eqns(func.body) if e.op.kind is OpKind.ATOMIC_ADD]
    elsewhere = {e.inputs[0] for e in adds if form_of_addition(e) is AddForm.PARTIAL}
    lanes_add = any(loop.adds for loop in outer_loops(func).values())
    is_in_order = form is not None and form.gang == 1 and not (form.loop_lanes > 1 and lanes_add)
    for param, want, got in zip(func.params, wanted, packed, strict=True):
        if is_in_order and param not in elsewhere:
            compare_array(param, want, got, f"adjoint, {form}")
        elif isinstance(param.type, ArrayType) and param.type.dtype.is_float:
            one, other = (np.asarray(a, np.float64) for a in (want, got))
            usual = np.isfinite(one) & np.isfinite(other)
            scale = np.abs(one[usual]).max(initial=1.0)
            error = np.abs(one[usual] - other[usual]).max(initial=0.0)
            most = SUM_ULPS * float(ml_dtypes.finfo(param.type.dtype.numpy).eps)
            if error > most * scale:
                # Terms that cancel are larger than their sum.
                k = func.params.index(param)
                scale = magnitudes(func, found, program.grid, k)[usual].max()
            assert error <= most * scale, f"{param.name}: adjoint, {form}: {error} of {scale}"
    return True


def magnitudes(func: Func, args: Sequence[Any], grid: Sequence[int], k: int) -> np.ndarray:
    """The sums of the absolute values of what each point adds to the argument ``k``."""
    total = np.zeros(args[k].shape)
    for index in np.ndindex(*grid):
        given = dense(args)
        given[k][...] = 0
        interpreter.run(func, given, grid, [index])
        total += np.abs(given[k].astype(np.float64))
    return total


def adjoint_arguments(func: Func, program: GridProgram, rng: np.random.Generator) -> list[Any]:
    """Those of the program, and cotangents like them."""
    arrays = {a.name: a for a in program.arrays}
    values = dict(zip((*arrays, "m", "c"), grid_arguments(program, rng), strict=True))
    found: list[Any] = []
    for param in func.params:
        name = param.name.removeprefix("ct_")
        value = values[name]
        if name != param.name and isinstance(param.type, ArrayType):
            dtype = param.type.dtype.numpy
            value = np.asarray(rng.normal(size=np.shape(value))).astype(dtype)
            if name in arrays:
                value = strided(value, replace(arrays[name], name=param.name), rng)
        found.append(value)
    return found


def check_batch(seed: int) -> bool:
    """Compare a batched operation, in the interpreter, with the operation on every instance.

    Raises:
        AssertionError: They differ.
    """
    program, kernel, func = grid_kernel(seed)
    if is_long(func):
        return False
    op = kernel_operation(kernel, **operator_options(program, kernel))
    rng = Random(f"batch {seed}")
    owners = op.owners()
    mask = [k in owners or rng.random() < 0.6 for k in range(len(op.operands))]
    if not any(mask):
        return False
    instances: list[list[Any]] = []
    for number in range(INSTANCES):
        args = dense(grid_arguments(program, np.random.default_rng([seed, number])))
        named = dict(zip((p.name for p in func.params), args, strict=True))
        instances.append([named[o.name] for o in op.operands])
    shared = instances[0]
    rows = [
        [new if m else old for m, new, old in zip(mask, i, shared, strict=True)] for i in instances
    ]
    columns = zip(mask, zip(*rows, strict=True), strict=True)
    together = [np.stack(column) if m else column[0] for m, column in columns]
    found = run_operation(derive.batch(op, mask), together, interpret=True)
    for number, row in enumerate(rows):
        for want, got, result in zip(
            run_operation(op, row, interpret=True), found, op.results, strict=True
        ):
            for one, other in zip(
                bits(want, result.type.dtype), bits(got[number], result.type.dtype), strict=True
            ):
                np.testing.assert_array_equal(other, one, f"instance {number} of {mask}")
    return True


def check_launch(seed: int) -> bool:
    """Launch a grid program with several threads; False if it is too long.

    The second of several launches over a grid may have other threads than the first.

    Raises:
        AssertionError: Launches and single threads of unoptimised code differ.
    """
    program, kernel, func = grid_kernel(seed, LARGE_GRIDS)
    if is_long(func):
        return False
    wanted = dense(grid_arguments(program, np.random.default_rng(seed)))
    with unoptimised():
        assert launch(func, wanted, program.grid, None, 1) == abi.STATUS_OK
    saved = kc.num_threads()
    kc.set_num_threads(1 + seed % MOST_THREADS)
    try:
        with unoptimised() if seed % OPTIMISED_OPERATORS else nullcontext():
            for number in range(LAUNCHES):
                found = grid_arguments(program, np.random.default_rng(seed))
                kc.launch(kernel, program.grid, found)
                compare(
                    func, wanted, found, f"launch {number} of {1 + seed % MOST_THREADS} threads"
                )
    finally:
        kc.set_num_threads(saved)
    return True


CHECKS: dict[str, Callable[[int], bool]] = {
    "grids": check_grid,
    "operators": check_operator,
    "adjoints": check_adjoint,
    "batches": check_batch,
    "launches": check_launch,
}
