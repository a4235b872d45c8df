"""The Operation of a kernel: what each parameter is bound to, and when buffers are zeroed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelcore.base.dataclass import replace
from kernelcore.base.errors import KernelArgumentError
from kernelcore.compiler.launch_descriptor import Binding, Role, ZeroFill
from kernelcore.ir.core import Func, Var
from kernelcore.ir.walk import first_array_at_address
from kernelcore.language.effect import Effect
from kernelcore.language.types import ArrayType, Scalar, int64
from kernelcore.operators.operation import Operand, Operation, Result, Shape, own_shape
from kernelcore.passes.access.effects import AccessMap, effects


def zero_fill(accesses: AccessMap, param: Var, effect: Effect) -> ZeroFill:
    """When a buffer that ``param`` fills must be zeroed first; a value has none."""
    if isinstance(param.type, Scalar):
        return ZeroFill.NEVER
    if effect.loads or effect.accumulates or not accesses.covers_grid(param):
        return ZeroFill.ALWAYS
    return ZeroFill.IF_PARTIAL


def primal_operation(
    func: Func,
    outputs: Sequence[str],
    in_out: Sequence[str],
    grid: Shape,
    shapes: Mapping[str, Shape],
    sizes: Sequence[str] = (),
) -> Operation:
    """The Operation of a kernel.

    Args:
        func: The kernel, normalized.
        outputs: Parameters that are results only.
        in_out: Parameters that are operands, and results that start as copies of them.
        grid: The launch shape; extents name operands, which are the other parameters in order.
        shapes: The shape of each parameter in ``outputs``.
        sizes: Integers that are operands after those of the kernel, which ignores them.

    Raises:
        KernelArgumentError: The kernel makes arrays of addresses.
    """
    at_address = first_array_at_address(func)
    if at_address is not None:
        raise KernelArgumentError(
            f"{func.name}: a kernel that makes an array of an address is no operator: frameworks "
            "move, copy and differentiate only the memory that they are shown",
            at_address.loc,
            "pass the array as a parameter, or call kc.launch",
        )
    accesses = AccessMap(func)
    operands: list[Operand] = []
    results: list[Result] = []
    bindings: list[Binding] = []
    for param, effect in zip(func.params, effects(func), strict=True):
        assert isinstance(param.type, ArrayType | Scalar)
        if param.name in outputs:
            assert isinstance(param.type, ArrayType)
            zero = zero_fill(accesses, param, effect)
            bindings.append(Binding(Role.OUTPUT, -1, len(results), zero))
            results.append(Result(param.name, param.type, shapes[param.name]))
            continue
        index = len(operands)
        operands.append(Operand(param.name, param.type))
        if param.name in in_out:
            assert isinstance(param.type, ArrayType)
            bindings.append(Binding(Role.INOUT, index, len(results)))
            results.append(Result(param.name, param.type, own_shape(index, param.type)))
        else:
            role = Role.INPUT if isinstance(param.type, ArrayType) else Role.VALUE
            bindings.append(Binding(role, index))
    operands += [Operand(name, int64) for name in sizes]
    used = {e.operand for shape in (grid, *shapes.values()) for e in shape if e.axis < 0}
    marked = tuple(replace(o, is_size=k in used) for k, o in enumerate(operands))
    return Operation(func, marked, tuple(results), len(results), tuple(bindings), grid)
