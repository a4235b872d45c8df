"""IR as text: ``pretty`` for people and goldens, ``canonical`` for content hashes."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kernelcore.base.errors import SrcLoc
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.derivative_rules import Rules
from kernelcore.ir.op import Op
from kernelcore.ir.snippet import Snippet


def pretty(func: Func) -> str:
    """``func`` with the user's names, made unique by a number where they clash."""
    return _Printer(named=True).func(func)


def pretty_lines(func: Func) -> list[tuple[str, SrcLoc | None]]:
    """The lines that ``pretty`` prints, with the place in the source that each comes from."""
    printer = _Printer(named=True)
    printer.func(func)
    return [(text, printer.locs.get(at)) for at, text in enumerate(printer.lines)]


def pretty_names(func: Func) -> Mapping[Var, str]:
    """The names that ``pretty`` prints, with their percent sign."""
    printer = _Printer(named=True)
    printer.func(func)
    return printer.names


def canonical(func: Func) -> str:
    """``func`` with numbered values and no locations: equal text means equal meaning."""
    return _Printer(named=False).func(func)


class _Printer:
    def __init__(self, *, named: bool) -> None:
        self.named = named
        self.names: dict[Var, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []
        self.locs: dict[int, SrcLoc | None] = {}

    def name(self, var: Var) -> str:
        found = self.names.get(var)
        if found is None:
            found = f"%{var.name}" if self.named and var.name else f"%{len(self.names)}"
            while found in self.taken:
                found = f"%{var.name}.{len(self.names)}"
            self.names[var] = found
            self.taken.add(found)
        return found

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Var):
            return self.name(atom)
        return f"{_literal(atom, exact=not self.named)}:{atom.type}"

    def atoms(self, atoms: tuple[Atom, ...]) -> str:
        return ", ".join(self.atom(a) for a in atoms)

    def typed(self, params: tuple[Var, ...]) -> str:
        return ", ".join(f"{self.name(v)}: {v.type!r}" for v in params)

    def func(self, func: Func) -> str:
        name = func.name if self.named else "kernel"
        modes = ("flush_denormals", "keeps_bits")
        chosen = "".join(f" {mode}" for mode in modes if getattr(func, mode))
        self.lines.append(f"{name}({self.typed(func.params)}) grid {func.grid_rank}{chosen} {{")
        self.body(func.body, 1)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def body(self, region: Region, depth: int) -> None:
        pad = "  " * depth
        for eqn in region.eqns:
            self.eqn(eqn, depth)
        if region.yields:
            self.lines.append(f"{pad}yield {self.atoms(region.yields)}")

    def eqn(self, eqn: Eqn, depth: int) -> None:
        pad = "  " * depth
        self.locs[len(self.lines)] = eqn.loc
        attrs = ", ".join(f"{k}={self.attr(v)}" for k, v in sorted(eqn.attrs.items()))
        text = f"{eqn.op.name}{f'[{attrs}]' if attrs else ''}({self.atoms(eqn.inputs)})"
        if eqn.outputs:
            text = f"{self.typed(eqn.outputs)} = {text}"
        if not eqn.regions:
            self.lines.append(pad + text)
            return
        for index, region in enumerate(eqn.regions):
            head = text + " " if index == 0 else "} "
            self.lines.append(f"{pad}{head}({self.typed(region.params)}) {{")
            self.body(region, depth + 1)
        self.lines.append(pad + "}")

    def attr(self, value: object) -> str:
        if isinstance(value, Func):
            return value.name if self.named else canonical(value)
        if isinstance(value, Rules):
            return value.name if self.named else self.rules(value)
        if isinstance(value, Op):
            return value.name
        if isinstance(value, Snippet):
            return str(value) if self.named else repr(value)
        return repr(value) if isinstance(value, str) else str(value)

    def rules(self, rules: Rules) -> str:
        texts = [f"{kind}: {canonical(func)}" for kind, func in rules.functions()]
        return "{" + "; ".join(texts) + "}"


def _literal(const: Const, *, exact: bool) -> str:
    if exact and isinstance(const.value, float):
        return struct.pack(">d", const.value).hex()
    return repr(const.value)
