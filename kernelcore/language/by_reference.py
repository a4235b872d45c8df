"""``ref[T]``: parameters of functions that a call assigns."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelTypeError
from kernelcore.language.types import ArrayOf, StructType, has_layout, type_of

# An annotation that is kept as text.
_TEXT = re.compile(r"\s*(\w+\.)*ref\s*\[")


@dataclass(frozen=True, slots=True)
class Reference:
    """What ``ref[target]`` is."""

    target: Any


class _Ref:
    """Annotates a parameter of a function whose last value a call assigns to its argument.

    ``def bump(x: kc.ref[float], by: float): x += by`` changes the variable, element, component or
    field ``v`` in ``bump(v, 2.0)`` or ``bump(kc.address_of(v), 2.0)``. The function works on a
    copy; the call assigns the new values, in the order of parameters, when the function has ended.

    Raises:
        KernelTypeError: ``ref`` of an array, or of a struct that holds arrays.
    """

    def __getitem__(self, target: Any) -> Reference:
        found = type_of(target)
        is_struct = isinstance(found, StructType)
        if isinstance(found, ArrayOf) or (is_struct and not has_layout(found)):
            raise KernelTypeError(
                f"ref: expected a number, vector, matrix or struct of these, found {found}",
                remedy="annotate with the array or struct itself: functions share its elements",
            )
        return Reference(target)

    def __repr__(self) -> str:
        return "ref"


ref = _Ref()


def updated_parameters(pyfunc: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of ``pyfunc`` that are annotated with ``ref``, in order."""
    found = getattr(pyfunc, "__annotations__", {})
    return tuple(
        name
        for name, annotation in found.items()
        if isinstance(annotation, Reference)
        or (isinstance(annotation, str) and name != "return" and _TEXT.match(annotation))
    )


def place_of(node: ast.expr) -> ast.expr:
    """The place that an argument for ``ref`` names: that of ``address_of(place)``, or itself."""
    is_call = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    return node.args[0] if is_call and isinstance(node, ast.Call) else node
