"""Operations as code for GPUs."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from kernelcore.base import native
from kernelcore.base.config import MAX_BLOCK_DIM, config
from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelDeviceError
from kernelcore.codegen.gpu.architectures import DEFAULT_ARCHITECTURE, FORWARD_COMPATIBLE
from kernelcore.compiler.code_store import Compiled
from kernelcore.compiler.describe_launch import parameter_slots
from kernelcore.compiler.launch_descriptor import Binding, ParameterSlot, Role
from kernelcore.compiler.ptx_code import architecture_of, device_code, device_key
from kernelcore.ir.core import Func
from kernelcore.operators.operation import Operation
from kernelcore.passes.scalars_by_reference import by_reference
from kernelcore.runtime.launch_options import is_count

# 64 hashes of a kernel take some milliseconds.
_MOST_SCALARS = 6


@dataclass(frozen=True, slots=True)
class GpuOperation:
    """An Operation for GPUs.

    Attributes:
        func: The kernel, ready for code generation.
        code: Its code.
        bindings: Along ``func.params``.
    """

    func: Func
    code: Compiled
    bindings: tuple[Binding, ...]

    def parameter_slots(self) -> list[ParameterSlot]:
        """Per kernel parameter a row of integers, in the order of the native ABI."""
        return parameter_slots(self.func, self.bindings)


def gpu_operation(
    operation: Operation, architecture: str, on_device: Collection[int] = ()
) -> GpuOperation:
    """``operation`` for GPUs of ``architecture`` and newer ones.

    Args:
        operation: What is computed.
        architecture: One of ``architectures.ARCHITECTURES``.
        on_device: The scalar operands whose numbers are in the memory of the device.

    Raises:
        KernelCompileError: The kernel has an operation without code for GPUs.
    """
    chosen = _chosen(operation, on_device)

    def make() -> GpuOperation:
        func = by_reference(operation.optimized, chosen)
        bindings = tuple(
            replace(bound, role=Role.INPUT) if i in chosen else bound
            for i, bound in enumerate(operation.bindings)
        )
        return GpuOperation(func, device_code(func, architecture), bindings)

    return operation.once(("device", architecture, chosen, config.deterministic), make)


def _chosen(operation: Operation, on_device: Collection[int]) -> tuple[int, ...]:
    """The parameters of the kernel that are scalar operands among ``on_device``."""
    return tuple(
        i
        for i, bound in enumerate(operation.bindings)
        if bound.role is Role.VALUE and bound.operand in on_device
    )


def gpu_operation_of(operation: Operation, architecture: str, key: str) -> GpuOperation | None:
    """The form of ``operation`` whose code has the content hash ``key``; None if none has.

    Forms differ by the scalar operands whose numbers are in the memory of the device. With more
    than ``_MOST_SCALARS`` only those with all and with none are tried. No other code is made.
    """
    scalars = {b.operand for b in operation.bindings if b.role is Role.VALUE and b.operand >= 0}
    counts = range(len(scalars) + 1) if len(scalars) <= _MOST_SCALARS else (0, len(scalars))
    for count in counts:
        for on_device in combinations(sorted(scalars), count):
            func = by_reference(operation.optimized, _chosen(operation, on_device))
            if device_key(func, architecture) == key:
                return gpu_operation(operation, architecture, on_device)
    return None


def common_architecture() -> str:
    """The newest architecture whose code all GPUs of this machine run; else any GPU's."""
    try:
        count = native.cuda_device_count()
    except KernelDeviceError:
        count = 0
    known = [architecture_of(ordinal) for ordinal in range(count)]
    return min(known, key=FORWARD_COMPATIBLE.index, default=DEFAULT_ARCHITECTURE)


def is_block_dim(value: object) -> bool:
    """Whether ``value`` is a number of threads that a block may have."""
    return is_count(value) and value in range(1, MAX_BLOCK_DIM + 1)
