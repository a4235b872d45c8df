"""How the table takes an elementary function: its code and its meaning from one definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from kernelcore.builtins.lowering import Lower
from kernelcore.builtins.maths.arithmetic import Value
from kernelcore.builtins.maths.emission import lowered
from kernelcore.builtins.maths.evaluation import evaluated


class Meaning(TypedDict):
    """The arguments of ``@builtin`` that an elementary function gives."""

    lower: Lower
    ref: Callable[..., Any]


def written(function: Callable[..., Value]) -> Meaning:
    """``function`` as code, and as what constant folding and host calls compute."""
    return {"lower": lowered(function), "ref": evaluated(function)}
