"""What branches, loops and their masked forms share: phis of carried values, and indices."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.codegen.llvm.emitter import Emitter, scalar_type
from kernelcore.ir.core import Var


def type_of(e: Emitter, var: Var) -> str:
    """The LLVM type of the text that ``var`` is bound to."""
    with e.at(e.lanes_of(var)):
        return e.type(scalar_type(var))


def bind_phis(e: Emitter, params: Sequence[Var]) -> list[str]:
    """A phi per parameter of a region, which it is bound to."""
    phis = [e.phi(type_of(e, param)) for param in params]
    for param, phi in zip(params, phis, strict=True):
        e.bind(param, phi)
    return phis


def add_edges(e: Emitter, phis: Sequence[str], values: Sequence[str], block: str) -> None:
    """Say what ``phis`` are when entered from ``block``."""
    for phi, value in zip(phis, values, strict=True):
        e.add_edge(phi, value, block)
