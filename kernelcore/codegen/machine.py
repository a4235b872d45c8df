"""LLVM text to machine code of a processor; imports neither NumPy nor what writes the text."""

from __future__ import annotations

from typing import Any

from kernelcore.codegen.engine import engine, lock
from kernelcore.codegen.host import Host
from kernelcore.errors import KernelCompileError
from kernelcore.settings import config

OPTIMIZED, UNOPTIMIZED = 2, 0


def assembly(text: str, target: Host) -> str:
    """The assembly of LLVM ``text`` for ``target``."""
    with lock:
        module, machine = _optimized(text, target)
        return machine.emit_assembly(module)


def object_code(text: str, target: Host) -> bytes:
    """The relocatable object of LLVM ``text`` for ``target``.

    Raises:
        KernelCompileError: LLVM does not accept ``text``.
    """
    with lock:
        module, machine = _optimized(text, target)
        return machine.emit_object(module)


def target_machine(target: Host) -> Any:
    """LLVM's description of ``target``."""
    return (
        engine()
        .Target.from_triple(target.triple)
        .create_target_machine(
            cpu=target.cpu,
            features=target.features,
            opt=_level(),
            reloc="pic",
            codemodel="small",
        )
    )


def _optimized(text: str, target: Host) -> tuple[Any, Any]:
    llvm, machine = engine(), target_machine(target)
    try:
        module = llvm.parse_assembly(text)
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise KernelCompileError(f"LLVM rejected the generated code: {error}\n{text}") from error
    options = llvm.create_pipeline_tuning_options(speed_level=_level())
    # Gangs are the vectors. LLVM 22's SLP vectoriser is wrong at times for large AVX-512 kernels.
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def _level() -> int:
    return OPTIMIZED if config.optimize else UNOPTIMIZED
