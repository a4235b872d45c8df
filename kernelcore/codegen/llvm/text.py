"""The text of one LLVM function: instructions, blocks, phis, the frame, module declarations."""

from __future__ import annotations

from kernelcore.base.errors import SrcLoc
from kernelcore.codegen.analysis.component_groups import MAX_INTERLEAVED


class Text:
    """Instructions of a function, in order, and what its module declares.

    Attributes:
        block: The label of the block that is being filled.
        slots: The instructions that make the frame; they belong at the function's start.
        declarations: Declarations and internal definitions of the module, in order.
        marks: Where in the instructions those of a source line begin; None if nobody asks.
    """

    def __init__(self) -> None:
        self.block = "entry"
        self.slots: list[str] = []
        self.declarations: dict[str, None] = {}
        self.marks: list[tuple[int, SrcLoc]] | None = None
        self._lines: list[str] = []
        self._phis: dict[str, tuple[int, str, list[str]]] = {}
        self._count = 0
        self._scratch: dict[str, str] = {}
        self._spare = ""

    def lines(self) -> list[str]:
        """The finished instructions, phis with all their edges."""
        lines = list(self._lines)
        for name, (at, type_text, edges) in self._phis.items():
            lines[at] = f"  {name} = phi {type_text} {', '.join(edges)}"
        return lines

    def mark(self, loc: SrcLoc | None) -> None:
        """Say that the instructions from here on belong to ``loc``."""
        if self.marks is not None and loc is not None:
            self.marks.append((len(self._lines), loc))

    def _fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def function(self, head: str, attributes: str = "") -> str:
        """The text of a function of the module, of type ``head``, that holds what was emitted."""
        start = f"define internal {head} noinline nounwind{attributes} {{"
        return "\n".join((start, "entry:", *self.slots, *self.lines(), "}"))

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

    def scratch(self, type_text: str) -> str:
        """Room for a value that is passed on at once; the same for all values of one type."""
        if type_text not in self._scratch:
            self._scratch[type_text] = self.slot(type_text)
        return self._scratch[type_text]

    def spare(self) -> str:
        """The address of an element that lanes without one of their own may load and write."""
        if not self._spare:
            kind = f"[{MAX_INTERLEAVED} x i64]"
            self._spare = self.slot(kind)
            self.slots.append(f"  store {kind} zeroinitializer, ptr {self._spare}")
        return self._spare

    def label(self, hint: str) -> str:
        """A fresh block label."""
        return self._fresh(hint)

    def start_block(self, label: str) -> None:
        """Start the block ``label``; the block before must have been left."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        """Leave the block for ``label``."""
        self.effect(f"br label %{label}")

    def jump_into(self, label: str) -> None:
        """Leave the block for the block ``label``, which starts here."""
        self.jump(label)
        self.start_block(label)

    def branch(self, cond: str, then: str, orelse: str) -> None:
        """Leave the block for ``then`` if ``cond`` holds, else for ``orelse``."""
        self.effect(f"br i1 {cond}, label %{then}, label %{orelse}")

    def branch_rarely(self, cond: str, then: str, orelse: str) -> None:
        """``branch`` where ``cond`` seldom holds: what ``then`` costs is not paid by ``orelse``."""
        self.declare('!0 = !{!"branch_weights", i32 1, i32 2000}')
        self.effect(f"br i1 {cond}, label %{then}, label %{orelse}, !prof !0")

    def phi(self, type_text: str, *edges: tuple[str, str]) -> str:
        """A value that depends on the edge by which the block is entered.

        ``edges`` are values with the blocks that they come from; ``add_edge`` adds others.
        """
        name = self._fresh("%v")
        self._phis[name] = (len(self._lines), type_text, [])
        self._lines.append("")
        for value, block in edges:
            self.add_edge(name, value, block)
        return name

    def add_edge(self, phi: str, value: str, block: str) -> None:
        """Say that ``phi`` is ``value`` when entered from ``block``."""
        self._phis[phi][2].append(f"[ {value}, %{block} ]")
