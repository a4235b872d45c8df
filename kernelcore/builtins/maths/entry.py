"""How the table takes an elementary function: its code and its meaning from one definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from kernelcore.base.lazy import Deferred
from kernelcore.builtins.lowering import Emit, Lower
from kernelcore.language.types import Scalar

if TYPE_CHECKING:
    from kernelcore.builtins.maths import emission, evaluation
else:
    emission = Deferred("kernelcore.builtins.maths.emission")
    evaluation = Deferred("kernelcore.builtins.maths.evaluation")


class Meaning(TypedDict):
    """The arguments of ``@builtin`` that an elementary function gives."""

    lower: Lower
    ref: Callable[..., Any]


def written(module: Deferred, name: str) -> Meaning:
    """Function ``name`` of ``module``, as code and as constant folding and host calls compute it.

    The module is imported when a program needs the function.
    """

    def lower(e: Emit, t: Scalar, *operands: str) -> str:
        return emission.lowered(getattr(module, name))(e, t, *operands)

    def ref(*operands: Any) -> Any:
        return evaluation.evaluated(getattr(module, name))(*operands)

    return {"lower": lower, "ref": ref}
