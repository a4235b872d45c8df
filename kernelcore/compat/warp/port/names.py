"""Which names of Warp ``kernelcore.compat.warp`` has, as its own modules say."""

from __future__ import annotations

import importlib.util
import inspect
from functools import cache
from types import ModuleType
from typing import Any

from kernelcore.base.errors import KernelError
from kernelcore.compat.warp import missing
from kernelcore.compat.warp.config import Config

_HOME = "kernelcore.compat.warp"


@cache
def is_module(path: str) -> bool:
    """Whether the compatibility package has the module ``path``, itself if that is empty."""
    name = f"{_HOME}.{path}".rstrip(".")
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@cache
def value_of(path: str) -> Any:
    """What the compatibility package has under ``path``; None if nothing, or what is not installed.

    Modules of torch and JAX are imported only if their names are asked for.
    """
    found: Any = importlib.import_module(_HOME)
    for k, part in enumerate(path.split(".") if path else []):
        inner = ".".join(path.split(".")[: k + 1])
        try:
            is_inner = isinstance(found, ModuleType) and not hasattr(found, part)
            found = (
                importlib.import_module(f"{_HOME}.{inner}")
                if is_inner and is_module(inner)
                else getattr(found, part)
            )
        except (AttributeError, ImportError, KernelError):
            return None
    return found


@cache
def problem_of(path: str) -> str | None:
    """Why a program cannot use the name ``path`` of Warp, with the way around; None if it can."""
    parts = path.split(".")
    found: Any = importlib.import_module(_HOME)
    for k, part in enumerate(parts):
        if not isinstance(found, ModuleType | Config):
            # An attribute of a value: its type decides, which a program knows when it runs.
            return None
        if part not in dir(found) and not (
            isinstance(found, ModuleType) and is_module(".".join(parts[: k + 1]))
        ):
            return _reason(parts, k)
        if k + 1 < len(parts):
            found = value_of(".".join(parts[: k + 1]))
    return None


def _reason(parts: list[str], k: int) -> str:
    """Why there is no ``parts[k]``."""
    reason = missing.reason_of(parts[k]) or missing.reason_of(parts[0])
    if reason is not None:
        return f"{reason.what}; {reason.remedy}"
    where = f" in {'.'.join(parts[:k])}" if k else ""
    return f"there is no such name{where}; see the reference of kernelcore for what is there"


def unknown_keywords(path: str, names: list[str]) -> list[str]:
    """The ``names`` that a call of the function ``path`` cannot give."""
    function = value_of(path)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return []
    return [name for name in names if name not in parameters]
