"""LLVM text to machine code of a processor; imports neither NumPy nor what writes the text."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from kernelcore.base.config import config
from kernelcore.base.errors import KernelCompileError
from kernelcore.base.host import Host
from kernelcore.base.llvm import engine, lock

# LLVM's levels of code generation, and of the passes before it, whose second level makes no kernel
# faster.
CODE, _PASSES = 2, 1
# Lines of a basic block from which on code generation takes the level below: LLVM orders the
# instructions of a block twice at CODE, in time that grows with the square of their number.
LONG_BLOCK, _CODE_OF_LONG_BLOCKS = 1000, 1
# LLVM attribute of kernels in which passes for loops have nothing to find.
STRAIGHT = "kernelcore-straight"


@lock
def assembly(text: str, target: Host) -> str:
    """The assembly of LLVM ``text`` for ``target``."""
    module, machine = _optimized(text, target)
    return machine.emit_assembly(module)


@lock
def object_code(text: str, target: Host) -> bytes:
    """The relocatable object of LLVM ``text`` for ``target``.

    Raises:
        KernelCompileError: LLVM does not accept ``text``.
    """
    module, machine = _optimized(text, target)
    return machine.emit_object(module)


def target_machine(target: Host, level: int) -> Any:
    """LLVM's description of ``target`` for code generation at ``level``."""
    return (
        engine()
        .Target.from_triple(target.triple)
        .create_target_machine(
            cpu=target.cpu,
            features=target.features,
            opt=level,
            reloc="pic",
            codemodel="small",
        )
    )


_LOADS_OF_FLOATS = re.compile(r" = load (?=<|float|double|half|bfloat)")
# Parsing the features takes LLVM 0.5 ms, an eighth of the time to compile a small kernel.
_machine = cache(target_machine)


def _optimized(text: str, target: Host) -> tuple[Any, Any]:
    llvm, machine = engine(), _machine(target, _code_level(text))
    if not config.optimize:
        # At this level LLVM 22 at times narrows a load of a vector twice, and ends the process
        # ("Node is not in map!"), or makes the load of a float that a select takes an operand of 16
        # bytes, which may be behind the array. It leaves volatile loads alone.
        text = _LOADS_OF_FLOATS.sub(" = load volatile ", text)
    try:
        module = llvm.parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise KernelCompileError(f"LLVM rejected the generated code: {error}\n{text}") from error
    _run_passes(module, machine, is_straight=f'"{STRAIGHT}"' in text)
    return module, machine


def _code_level(text: str) -> int:
    """LLVM's level of code generation for ``text``."""
    if not config.optimize:
        return 0
    # A block begins with its label.
    longest = max(block.count("\n") for block in text.split(":\n"))
    return CODE if longest < LONG_BLOCK else _CODE_OF_LONG_BLOCKS


def _run_passes(module: Any, machine: Any, *, is_straight: bool) -> None:
    """Optimise ``module``; LLVM's own pipeline combines instructions six times."""
    llvm = engine()
    options = llvm.create_pipeline_tuning_options(speed_level=_PASSES if config.optimize else 0)
    # Gangs are the vectors. LLVM 22's SLP vectoriser is wrong at times for large AVX-512 kernels.
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if is_straight and config.optimize:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_simplify_cfg_pass()
        passes.add_sroa_pass()
        passes.add_new_gvn_pass()
        passes.add_instruction_combine_pass()
        # Additions in a row ask whether other threads may add, all but the first in vain.
        passes.add_jump_threading_pass()
        passes.add_simplify_cfg_pass()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)
