"""Short random programs by the hundred thousand, of several kinds.

``python -m tests.fuzz.campaign FIRST COUNT`` runs the programs of the seeds from ``FIRST``.

values: Each program is compiled once, for gangs of the seed's width: the points before and after
    whole gangs run as single threads, so that one launch compares both with the interpreter.
frontend: Plain Python, the interpreter, and the interpreter after all passes agree bit for bit.
grids, operators, adjoints, batches, launches: Forms of code; see ``form_checks.py``.
fused: Elementwise kernels as functions of whole arrays have the bits of the interpreter.
mutants: Kernels whose IR is exchanged in places mean the same before and after the passes, and
    some of them in machine code.
derivatives: JVP, VJP and differences agree, in the interpreter.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from multiprocessing.connection import Connection
from multiprocessing.pool import ThreadPool
from typing import Any

import numpy as np

from kernelcore.codegen import abi
from kernelcore.codegen.simd.strategy import LANES
from kernelcore.ir.core import Func
from kernelcore.ir.printer import canonical
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import walk_eqns
from kernelcore.launch.dispatch import argument_leaves
from kernelcore.passes.pipeline import optimize, tidy
from tests.fuzz import form_checks, programs
from tests.fuzz.derivative_contract import check_first, updating_operation
from tests.fuzz.elementwise_programs import ElementwiseProgram, check_fused
from tests.fuzz.form_checks import compare as compare_leaves
from tests.fuzz.form_checks import dense
from tests.fuzz.host_language import run_on_host
from tests.fuzz.mutations import Places, exchanged, places
from tests.fuzz.palette import SHORT, Draws
from tests.fuzz.program_arguments import arguments
from tests.fuzz.test_programs import WRT
from tests.fuzz.test_typed_programs import compare, names
from tests.fuzz.typed_programs import Program, define, draw_program, unchecked_text
from tests.helpers import interpreter
from tests.helpers.kernel_harness import launch, unoptimised

# Programs of one process: LLVM and the loader keep memory of every program.
PROGRAMS_PER_PROCESS = 2000
# The same of kinds that seldom compile: to start a process takes as long as 500 of them.
CHEAP_PER_PROCESS = 20000
# Longer ones are for the suites, which run the same generator: LLVM would take most of the time.
MOST_EQUATIONS = 60
# Points besides a whole gang.
REST = 3
# Gangs of longer ones than this take LLVM half of the time of a campaign: one in so many has them,
# single threads run the others.
LONG_EQUATIONS, LONG_GANGS = 25, 6
# The share of programs in the narrowest gangs, which LLVM compiles fastest.
NARROW = 0.85
# So many mutants have one kernel; one in so many is compiled.
MUTANTS, COMPILED_MUTANTS = 25, 12
# Kernels with fewer places have few mutants.
LEAST_PLACES = 6
# The points of programs that nobody compiles.
FEW_POINTS = 2
# The statements of programs that are differentiated, besides nested ones.
SHORT_STATEMENTS = 2
# One program in so many is compiled with LLVM's optimisations.
OPTIMISED = 20
# One in so many is compared with its text.
COMPARED_WITH_TEXT = 10
# The garbage collector runs after so many programs; by itself it takes a tenth of the time.
COLLECTED = 50


def program_of(seed: int) -> tuple[Program, int]:
    """The program of ``seed``, and the width of its gangs."""
    rng = random.Random(seed)
    lanes = LANES[1] if rng.random() < NARROW else rng.choice(LANES[2:])
    return draw_program(Draws(lambda _: rng.randbytes(64)), lanes + REST, SHORT), lanes


def check(seed: int) -> bool:
    """Run the program of ``seed``; False if it is too long.

    Raises:
        AssertionError: Machine code and interpreter differ.
    """
    program, lanes = program_of(seed)
    space = define(program.text, names())
    kernel = space["kernel"]
    with unchecked_text() if seed % COMPARED_WITH_TEXT else nullcontext():
        func = optimize(kernel.func)
    equations = sum(1 for _ in walk_eqns(func.body))
    if equations > MOST_EQUATIONS:
        return False
    if equations > LONG_EQUATIONS and seed % LONG_GANGS:
        lanes = 1
    wanted, found = arguments(program, space), arguments(program, space)
    interpreter.run(kernel.func, argument_leaves(kernel, wanted), program.points)
    with unoptimised() if seed % OPTIMISED else nullcontext():
        chunks = _chunks(seed, program.points)
        status = launch(func, argument_leaves(kernel, found), program.points, chunks, lanes)
    assert status == abi.STATUS_OK
    compare(program, wanted, found, f"interpreter and gangs of {lanes}")
    return True


def frontend_program(seed: int) -> Program:
    """The program of ``seed`` for the comparison with plain Python."""
    rng = random.Random(f"frontend {seed}")
    return draw_program(Draws(lambda _: rng.randbytes(64)), FEW_POINTS, SHORT)


def check_frontend(seed: int) -> bool:
    """Compare plain Python and the interpreter before and after the passes.

    Raises:
        AssertionError: They differ.
    """
    program = frontend_program(seed)
    space = define(program.text, names())
    kernel = space["kernel"]
    with unchecked_text():
        func = kernel.func
    wanted = run_on_host(program, dict(space))
    for name, one in {"frontend": func, "passes": optimize(func)}.items():
        found = arguments(program, space)
        interpreter.run(one, argument_leaves(kernel, found), program.points)
        compare(program, wanted, found, f"plain Python and {name}")
    return True


@lru_cache(maxsize=1)
def mutated_kernel(number: int) -> tuple[str, Func, Places, list[Any]]:
    """A kernel's text, IR and places, and arguments for a gang of four and the rest."""
    rng = random.Random(f"mutated {number}")
    while True:
        program = draw_program(Draws(lambda _: rng.randbytes(64)), LANES[1] + REST, SHORT)
        space = define(program.text, names())
        with unchecked_text():
            func = space["kernel"].func
        found = places(func)
        if len(found) >= LEAST_PLACES:
            break
    leaves = argument_leaves(space["kernel"], arguments(program, space))
    return program.text, func, found, list(leaves)


def mutant(seed: int) -> tuple[Func, list[Any]]:
    """The IR of ``seed``, and its arguments."""
    _, func, found, args = mutated_kernel(seed // MUTANTS)
    return exchanged(func, found, random.Random(f"mutant {seed}")), args


def check_mutant(seed: int) -> bool:
    """Compare the IR of ``seed`` with what passes and, at times, machine code make of it.

    Raises:
        AssertionError: They differ.
    """
    func, args = mutant(seed)
    verify(func)
    is_compiled = seed % COMPILED_MUTANTS == 0
    points = LANES[1] + REST if is_compiled else FEW_POINTS
    wanted, found = dense(args), dense(args)
    interpreter.run(func, wanted, points)
    after = tidy(func)
    if is_compiled:
        after = optimize(after)
        if sum(1 for _ in walk_eqns(after.body)) > MOST_EQUATIONS:
            return False
        with unoptimised():
            assert launch(after, found, points, None, LANES[1]) == abi.STATUS_OK
    else:
        interpreter.run(after, found, points)
    compare_leaves(func, wanted, found, "machine code" if is_compiled else "passes")
    return True


def mutant_text(seed: int) -> str:
    """The kernel and the IR of ``seed``."""
    return f"{mutated_kernel(seed // MUTANTS)[0]}\n{canonical(mutant(seed)[0])}"


def _chunks(seed: int, points: int) -> Sequence[tuple[int, int]]:
    """The points in one or two parts, of which one has a whole gang."""
    cut = seed % (REST + 1)
    return [(0, cut), (cut, points)] if cut else [(0, points)]


@contextmanager
def numpy_maths() -> Iterator[None]:
    """Let NumPy compute elementary functions inside, in a thirtieth of the time.

    Its last bits are others than those of kernels.
    """
    interpreter.replaced.update(
        {name: getattr(np, name) for name in ("sin", "cos", "tanh", "exp", "log")}
    )
    interpreter.replaced["atan"] = np.arctan
    try:
        yield
    finally:
        interpreter.replaced.clear()


def check_derivatives(seed: int) -> bool:
    """Compare JVP, VJP and central differences of the program of ``seed`` in the interpreter.

    Raises:
        AssertionError: They differ.
    """
    with unoptimised(), numpy_maths():
        op = updating_operation(programs.kernel(seed, SHORT_STATEMENTS))
        check_first(op, programs.arguments(seed), WRT, seed, 1e-9, interpret=True)
    return True


KINDS: dict[str, tuple[Callable[[int], bool], Callable[[int], str]]] = {
    "values": (check, lambda seed: program_of(seed)[0].text),
    "frontend": (check_frontend, lambda seed: frontend_program(seed).text),
    **{k: (run, partial(form_checks.text, kind=k)) for k, run in form_checks.CHECKS.items()},
    "fused": (check_fused, lambda seed: ElementwiseProgram(seed).text),
    "mutants": (check_mutant, mutant_text),
    "derivatives": (check_derivatives, lambda seed: programs.source(seed, SHORT_STATEMENTS)),
}


def check_all(seeds: range, kind: str = "values") -> Iterator[tuple[int, bool, str]]:
    """Per seed: itself, whether its program ran, and what was wrong.

    Before each there is the seed with False and no text, for who has to know what runs.
    """
    run, text = KINDS[kind]
    for seed in seeds:
        yield seed, False, ""
        try:
            yield seed, run(seed), ""
        except Exception:  # noqa: BLE001 - whatever a program ends with is a finding
            yield seed, True, f"seed {seed}\n{text(seed)}\n{traceback.format_exc()}"


def _work(pipe: Connection, seeds: range, kind: str) -> None:
    gc.freeze()
    gc.disable()
    for row in check_all(seeds, kind):
        pipe.send(row)
        if row[0] % COLLECTED == 0:
            gc.collect()
    pipe.send(None)


def check_apart(seeds: range, kind: str) -> tuple[int, list[str]]:
    """How many programs of ``seeds`` ran, in processes of their own, and what was wrong.

    A program that ends its process is a finding as well.
    """
    context = multiprocessing.get_context("spawn")
    ran, wrong = 0, list[str]()
    while seeds:
        pipe, other = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(other, seeds, kind))
        process.start()
        other.close()
        last = seeds[0]
        try:
            while (row := pipe.recv()) is not None:
                last, has_run, found = row
                ran += has_run
                wrong += [found] if found else []
        except EOFError:
            process.join()
            text = KINDS[kind][1](last)
            wrong.append(f"seed {last} ended its process with {process.exitcode}\n{text}\n")
            ran, seeds = ran + 1, range(last + 1, seeds.stop)
        else:
            process.join()
            return ran, wrong
    return ran, wrong


def parts(first: int, count: int, kind: str) -> Iterator[range]:
    """The seeds in parts for one process each."""
    most = (
        CHEAP_PER_PROCESS
        if kind in ("frontend", "mutants", "fused", "batches")
        else PROGRAMS_PER_PROCESS
    )
    for start in range(first, first + count, most):
        yield range(start, min(start + most, first + count))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--kind", choices=KINDS, default="values")
    parser.add_argument("--processes", type=int, default=1)
    args = parser.parse_args()
    # Threads of NumPy's matrix products wait for work by spinning.
    os.environ |= {"KC_CACHE": "0", "OPENBLAS_NUM_THREADS": "1"}
    start, ran, failed = time.perf_counter(), 0, 0
    seeds = list(parts(args.first, args.count, args.kind))
    with ThreadPool(args.processes) as pool:
        work = partial(check_apart, kind=args.kind)
        for part, (count, wrong) in zip(seeds, pool.imap(work, seeds), strict=True):
            ran, failed, seconds = ran + count, failed + len(wrong), time.perf_counter() - start
            print(*wrong, sep="\n", end="")
            which = f"seeds {args.first} to {part[-1]}"
            print(f"{which}: {ran} programs, {failed} wrong, {seconds:.0f} s", flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
