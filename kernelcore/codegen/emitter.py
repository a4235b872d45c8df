"""Emitter: appends LLVM instructions, with values ``lanes`` wide, and keeps what Vars stand for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.codegen.records import Member
from kernelcore.errors import KernelCompileError
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.runtime import native
from kernelcore.types import Scalar


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """What an array parameter stands for: its address, extents and strides in bytes, as texts."""

    data: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StackValue:
    """What a stack stands for: slots of its address, number of elements, and room for elements."""

    data: str
    size: str
    capacity: str


Value = str | ArrayValue | StackValue
Handler = Callable[["Emitter", Eqn], Sequence[Value]]


class Emitter:
    """Instructions and declarations of one function.

    ``block`` is the label of the block being filled. A phi is written with ``phi`` and gets its
    edges later with ``add_edge``, when the value of the back edge is known. ``point`` is the launch
    index, one int32 per grid dimension; ``wide_indices`` gives values that exist as int64 too.
    ``access_suffix`` is appended to accesses of arrays. ``assertions`` numbers the ASSERTs.
    ``fused`` says whether the target multiplies and adds in one instruction.
    ``members`` says which record of which shared stack every stack is, ``records`` what those are.
    """

    def __init__(self, lanes: int, handlers: Mapping[OpKind, Handler]) -> None:
        self.lanes = lanes
        self.fused = native.has_fma
        self.block = "entry"
        self.point: tuple[str, ...] = ()
        self.wide_indices: dict[str, str] = {}
        self.access_suffix = ""
        self.declarations: dict[str, None] = {}
        self.slots: list[str] = []
        self.stacks: list[StackValue] = []
        self.members: Mapping[Atom, Member] = {}
        self.records: dict[int, StackValue] = {}
        self.assertions: Mapping[Eqn, int] = {}
        self._env: dict[Var, Value] = {}
        self._handlers = handlers
        self._lines: list[str] = []
        self._phis: dict[str, tuple[int, str, list[str]]] = {}
        self._count = 0

    def lines(self) -> list[str]:
        """The finished instructions, phis with all their edges."""
        lines = list(self._lines)
        for name, (at, type_text, edges) in self._phis.items():
            lines[at] = f"  {name} = phi {type_text} {', '.join(edges)}"
        return lines

    def _fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def op(self, text: str) -> str:
        """Append an instruction that yields a value; returns the value's name."""
        name = self._fresh("%v")
        self._lines.append(f"  {name} = {text}")
        return name

    def effect(self, text: str) -> None:
        """Append an instruction without a value."""
        self._lines.append(f"  {text}")

    def declare(self, text: str) -> None:
        """Add a declaration or an internal definition to the module, once."""
        self.declarations[text] = None

    def slot(self, type_text: str) -> str:
        """Room for one value in the function's frame; its address."""
        name = self._fresh("%slot")
        self.slots.append(f"  {name} = alloca {type_text}")
        return name

    def label(self, hint: str) -> str:
        """A fresh block label."""
        return self._fresh(hint)

    def place(self, label: str) -> None:
        """Start the block ``label``; the block before must have been left."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Leave the block for ``label``."""
        self.effect(f"br label %{label}")

    def branch(self, cond: str, then: str, orelse: str) -> None:
        """Leave the block for ``then`` if ``cond`` holds, else for ``orelse``."""
        self.effect(f"br i1 {cond}, label %{then}, label %{orelse}")

    def phi(self, type_text: str) -> str:
        """A value that depends on the edge by which the block is entered."""
        name = self._fresh("%v")
        self._phis[name] = (len(self._lines), type_text, [])
        self._lines.append("")
        return name

    def add_edge(self, phi: str, value: str, block: str) -> None:
        """Say that ``phi`` is ``value`` when entered from ``block``."""
        self._phis[phi][2].append(f"[ {value}, %{block} ]")

    def type(self, scalar: Scalar) -> str:
        """The LLVM type of ``scalar`` at the lane count."""
        return self.wide(LLVM_TYPES[scalar.name])

    def wide(self, element: str) -> str:
        """The LLVM type of ``lanes`` times ``element``."""
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def const(self, scalar: Scalar, value: float) -> str:
        """A constant, the same in every lane."""
        text = literal(scalar, value)
        return text if self.lanes == 1 else f"splat ({LLVM_TYPES[scalar.name]} {text})"

    def bind(self, var: Var, value: Value) -> None:
        """Let ``var`` stand for ``value`` from here on."""
        self._env[var] = value

    def bind_all(self, values: Mapping[Var, Value]) -> None:
        """Bind every Var of ``values``."""
        self._env.update(values)

    def value(self, atom: Atom) -> str:
        """The text of a scalar."""
        if isinstance(atom, Const):
            return self.const(atom.type, atom.value)
        found = self._env[atom]
        assert isinstance(found, str)
        return found

    def array(self, atom: Atom) -> ArrayValue:
        """What an array stands for."""
        assert isinstance(atom, Var)
        found = self._env[atom]
        assert isinstance(found, ArrayValue)
        return found

    def stack(self, atom: Atom) -> StackValue:
        """What a stack stands for."""
        assert isinstance(atom, Var)
        found = self._env[atom]
        assert isinstance(found, StackValue)
        return found

    def region(self, region: Region) -> list[str]:
        """Emit ``region``, whose parameters are bound, and return the values that it yields."""
        for eqn in region.eqns:
            values = self._handlers[eqn.op.kind](self, eqn)
            for out, value in zip(eqn.outputs, values, strict=True):
                self.bind(out, value)
        return [self.value(a) for a in region.yields]

    def require_one_lane(self, eqn: Eqn) -> None:
        """Refuse what is not a pure straight line where there are several lanes.

        Raises:
            KernelCompileError: There are several lanes.
        """
        if self.lanes != 1:
            text = f"'{eqn.op.name}' has no form for {self.lanes} lanes, only scalar operations do"
            raise KernelCompileError(text, eqn.loc)


def scalar_type(atom: Atom) -> Scalar:
    """The type of a scalar atom."""
    assert isinstance(atom.type, Scalar)
    return atom.type
