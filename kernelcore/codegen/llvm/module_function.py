"""Functions of the module of a kernel, which code calls instead of repeating theirs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kernelcore.base.dataclass import dataclass
from kernelcore.codegen.llvm.emitter import Emitter


@dataclass(frozen=True, slots=True)
class ModuleFunction:
    """A function of the module, with what it needs there.

    It keeps the registers of integers, so that callers save none of them.
    """

    symbol: str
    texts: tuple[str, ...]


def finished(
    e: Emitter, symbol: str, params: str, attributes: Mapping[str, str] = MappingProxyType({})
) -> ModuleFunction:
    """The function that ``e`` holds but for its return, which is added."""
    e.effect("ret void")
    marks = "".join(f' "{name}"="{value}"' for name, value in attributes.items())
    text = e.text.function(f"preserve_mostcc void @{symbol}({params})", marks)
    return ModuleFunction(symbol, (*e.text.declarations, text))


def call(e: Emitter, function: ModuleFunction, passed: str) -> None:
    """Call ``function`` with the operands ``passed``."""
    for text in function.texts:
        e.declare(text)
    e.effect(f"call preserve_mostcc void @{function.symbol}({passed})")
