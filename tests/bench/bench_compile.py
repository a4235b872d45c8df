"""Latency of one kernel of a 2-D stencil: passes, machine code, loading from the disk cache."""

from __future__ import annotations

from itertools import count

from kernelcore import opderive
from kernelcore.codegen import cpu
from kernelcore.frontend.specialize import specialize_kernel
from kernelcore.opshape import kernel_operation
from kernelcore.passes.pipeline import normalize, optimize
from kernelcore.passes.reverse import vjp
from tests.bench.timing import interleaved, report
from tests.patterns.memory import tv_stencil


def main() -> None:
    func = tv_stencil.func
    adjoint = opderive.vjp(kernel_operation(tv_stencil), [0, 1], [0]).operation.func
    number = count()
    code = {n: cpu.object_code(cpu.llvm_text(optimize(func), n)) for n in ("kc_loaded",)}
    medians = interleaved(
        {
            "source to IR": lambda: normalize(specialize_kernel(tv_stencil.pyfunc)),
            "IR to adjoint IR": lambda: normalize(vjp(func, [0, 1], [2]).func),
            "primal to machine code": lambda: cpu.object_code(
                cpu.llvm_text(optimize(func), f"kc_{next(number)}")
            ),
            "adjoint to machine code": lambda: cpu.object_code(
                cpu.llvm_text(optimize(adjoint), f"kc_{next(number)}")
            ),
            "object to callable": lambda: cpu.load(code["kc_loaded"], "kc_loaded"),
        }
    )
    report("latency", medians, "primal to machine code")


if __name__ == "__main__":
    main()
