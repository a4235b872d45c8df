"""Operations as operators of Paddle's static programs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paddle.base import core
from paddle.static import (
    MetaTensor,  # pyright: ignore[reportPrivateImportUsage]
    register_op,  # pyright: ignore[reportPrivateImportUsage]
)

import kernelcore
from kernelcore.operators import Operation
from paddle_ext.dtype import dtype_to_paddle
from paddle_ext.execute import infer_shapes, merged, operand_shapes, run_operation

# A call that raises while a program is made is made again, by frames that Paddle translates unless
# it is told not to: an error of that translation would hide that of the operator. Paddle promises
# nobody the function.
if hasattr(core, "eval_frame_skip_file_prefix"):
    core.eval_frame_skip_file_prefix(
        tuple(f"{Path(file).parent}/" for file in (kernelcore.__file__, __file__))
    )


def bits_of(numbers: Sequence[Any]) -> tuple[bytes | None, ...]:
    """NumPy scalars as parts of a key: of the scalars themselves, -0.0 equals 0.0, NaN nothing."""
    return tuple(None if number is None else number.tobytes() for number in numbers)


def static_operator(operation: Operation, numbers: Sequence[Any]) -> Callable[..., Any]:
    """A function of the tensor operands of ``operation`` that adds it to a static program.

    Args:
        operation: What the program is to run.
        numbers: One per operand, of its type; None for tensors.

    Returns:
        A function of one result, or of a list of results.
    """
    inputs = [f"x{i}" for i, number in enumerate(numbers) if number is None]

    def infer(*metas: Any) -> Any:
        shapes = operand_shapes(operation, merged(numbers, metas))
        found = [
            MetaTensor(shape=list(shape), dtype=dtype_to_paddle(result.type.dtype))
            for shape, result in zip(infer_shapes(operation, shapes), operation.outputs)  # noqa: B905
        ]
        return found[0] if len(found) == 1 else tuple(found)

    def run(*tensors: Any) -> Any:
        found = run_operation(operation, merged(numbers, tensors))
        return found[0] if len(found) == 1 else found

    # Paddle reads the operands off the code of the functions: one name for each.
    names = ", ".join(inputs)
    named_run, named_infer = (
        eval(f"lambda {names}: function({names})", {"function": function})
        for function in (run, infer)
    )
    digest = hashlib.sha256(repr(bits_of(numbers)).encode()).hexdigest()[:16]
    return register_op(
        named_run,
        name=f"kernelcore_{operation.key}_{digest}",
        infer_meta=named_infer,
        input_names=inputs,
        output_names=[f"y{j}" for j in range(operation.visible)],
    )
