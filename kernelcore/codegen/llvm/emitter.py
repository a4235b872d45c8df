"""Emitter: appends LLVM instructions for one thread or a gang, and keeps what Vars stand for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kernelcore.base import native
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.codegen.analysis.loop_dependence import VectorLoop
from kernelcore.codegen.llvm.stack_records import Member
from kernelcore.codegen.reduction.sums import Accumulation
from kernelcore.ir.core import Atom, Const, Eqn, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.language.types import Scalar


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
Address = Callable[["Emitter", ArrayValue, Sequence[Atom]], str]


class Emitter:
    """Instructions and declarations of one function.

    ``gang`` is the number of threads that the instructions run, ``lanes`` that of the values being
    emitted: ``gang``, or 1 for what all threads of a gang share. ``strides`` says by how much a
    value grows from lane to lane, 0 where they share it (``codegen/analysis/uniformity.py``); such
    a Var stands for its value in lane 0, one without a stride for ``gang`` values. ``mask`` are the
    lanes that are active, None for all; code under a mask runs only if some lane
    is. ``store_mask`` are those whose stores count, None for all.

    ``block`` is the label of the block being filled. A phi is written with ``phi`` and gets its
    edges later with ``add_edge``, when the value of the back edge is known. ``point`` is the launch
    index of lane 0, or of all lanes where gangs cross rows, one int32 per grid dimension;
    ``wide_indices`` gives values that exist as int64 too. ``row_major`` are the accesses of
    adjacent elements in gangs that cross rows. ``assertions`` numbers the ASSERTs. ``elements``
    are the writes that together write an element (``access.py``), ``first_accesses`` those before
    which memory is fetched ahead (``codegen/analysis/prefetch.py``).
    ``fused`` says whether the target multiplies and adds in one instruction, ``branches`` whether
    rare cases of elementary functions are branches in place. ``address`` makes the addresses of
    elements in the target's own way.
    ``accumulation`` is what additions to shared arrays need.
    ``least_masked_bytes`` says how large elements are that are accessed under masks.
    ``vector_loops`` are the loops to vectorise, ``vector_loop`` is the one that is being emitted:
    lanes are its iterations. ``units`` are the components of elements that were loaded as a whole.
    ``members`` says which record of which shared stack every stack is, ``records`` what those are.
    """

    def __init__(self, lanes: int, handlers: Mapping[OpKind, Handler]) -> None:
        self.gang = lanes
        self.lanes = lanes
        self.fused = native.has_fma
        self.branches = False
        self.address: Address | None = None
        self.mask: str | None = None
        self.store_mask: str | None = None
        self.strides: Mapping[Var, int | None] = {}
        self.row_major: frozenset[Eqn] = frozenset()
        self.block = "entry"
        self.point: tuple[str, ...] = ()
        self.wide_indices: dict[str, str] = {}
        self.declarations: dict[str, None] = {}
        self.slots: list[str] = []
        self.elements: Mapping[Eqn, Sequence[Eqn]] = {}
        self.first_accesses: frozenset[Eqn] = frozenset()
        self.stacks: list[StackValue] = []
        self.members: Mapping[Atom, Member] = {}
        self.records: dict[int, StackValue] = {}
        self.assertions: Mapping[Eqn, int] = {}
        self.accumulation: Accumulation | None = None
        self.least_masked_bytes = 1
        self.vector_loops: Mapping[Eqn, VectorLoop] = {}
        self.vector_loop: VectorLoop | None = None
        self.units: dict[Eqn, str] = {}
        self._env: dict[Var, Value] = {}
        self._handlers = handlers
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

    def _fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def function(self, head: str) -> str:
        """The text of a function of the module, of type ``head``, that holds what was emitted."""
        start = f"define internal {head} noinline nounwind {{"
        return "\n".join((start, "entry:", *self.lines(), "}"))

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
        """The address of 16 bytes that lanes without an element of their own may load and write."""
        if not self._spare:
            self._spare = self.slot("[2 x i64]")
            self.slots.append(f"  store [2 x i64] zeroinitializer, ptr {self._spare}")
        return self._spare

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

    def branch_rarely(self, cond: str, then: str, orelse: str) -> None:
        """``branch`` where ``cond`` seldom holds: what ``then`` costs is not paid by ``orelse``."""
        self.declare('!0 = !{!"branch_weights", i32 1, i32 2000}')
        self.effect(f"br i1 {cond}, label %{then}, label %{orelse}, !prof !0")

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

    def stride(self, atom: Atom) -> int | None:
        """By how much a scalar grows from lane to lane; None if by no fixed number."""
        if self.gang == 1 or isinstance(atom, Const):
            return 0
        return self.strides.get(atom)

    def is_uniform(self, *atoms: Atom) -> bool:
        """Whether all threads of a gang share these scalars."""
        return all(self.stride(a) == 0 for a in atoms)

    def lanes_of(self, atom: Atom) -> int:
        """Of how many lanes the text is that ``atom`` is bound to."""
        return self.gang if self.stride(atom) is None else 1

    @contextmanager
    def at(self, lanes: int) -> Generator[None]:
        """Emit values of so many lanes inside."""
        saved, self.lanes = self.lanes, lanes
        yield
        self.lanes = saved

    @contextmanager
    def gangs_of(self, lanes: int) -> Generator[None]:
        """Emit code of gangs of ``lanes`` inside; what differs among lanes must be bound anew."""
        saved = self.gang, self.lanes, self.mask
        self.gang, self.lanes, self.mask = lanes, 1, None
        yield
        self.gang, self.lanes, self.mask = saved

    @contextmanager
    def collapsed(
        self, strides: Mapping[Var, int | None], row_major: frozenset[Eqn]
    ) -> Generator[None]:
        """Emit code of gangs that cross rows inside; what differs among lanes is bound anew."""
        saved = self.strides, self.row_major
        self.strides, self.row_major = strides, row_major
        yield
        self.strides, self.row_major = saved

    @contextmanager
    def tiled_code(
        self,
        strides: Mapping[Var, int | None],
        elements: Mapping[Eqn, Sequence[Eqn]],
        accumulation: Accumulation,
    ) -> Generator[None]:
        """Emit other code of the kernel inside, of which these are known."""
        saved = self.strides, self.elements, self.accumulation
        self.strides, self.elements, self.accumulation = strides, elements, accumulation
        yield
        self.strides, self.elements, self.accumulation = saved

    @contextmanager
    def iterations(self, loop: VectorLoop, lanes: int) -> Generator[None]:
        """Emit code whose lanes are iterations of ``loop``; outside, there is a single thread."""
        self.gang, self.strides, self.vector_loop = lanes, loop.strides, loop
        yield
        self.gang, self.strides, self.vector_loop = 1, {}, None

    @contextmanager
    def under(self, mask: str | None) -> Generator[None]:
        """Emit code for the active lanes ``mask`` inside."""
        saved, self.mask = self.mask, mask
        yield
        self.mask = saved

    @contextmanager
    def storing(self, mask: str) -> Generator[None]:
        """Emit code of which only the lanes of ``mask`` store."""
        self.store_mask = mask
        yield
        self.store_mask = None

    def bound(self, var: Var) -> Value:
        """What ``var`` stands for."""
        return self._env[var]

    def value(self, atom: Atom) -> str:
        """The text of a scalar, ``lanes`` wide; of one lane, that of the first."""
        if isinstance(atom, Const):
            return self.const(atom.type, atom.value)
        found = self._env[atom]
        assert isinstance(found, str)
        if self.lanes == 1:
            return found
        stride = self.stride(atom)
        return found if stride is None else self._spread(scalar_type(atom), found, stride)

    def value_at(self, atom: Atom, lanes: int) -> str:
        """``value`` for another number of lanes."""
        with self.at(lanes):
            return self.value(atom)

    def splat(self, element: str, value: str) -> str:
        """``gang`` times ``value`` of LLVM type ``element``."""
        wide = f"<{self.gang} x {element}>"
        first = self.op(f"insertelement {wide} poison, {element} {value}, i64 0")
        zeros = f"<{self.gang} x i32> zeroinitializer"
        return self.op(f"shufflevector {wide} {first}, {wide} poison, {zeros}")

    def _spread(self, scalar: Scalar, first: str, stride: int) -> str:
        """All lanes of a value that starts with ``first`` and grows by ``stride``."""
        element = LLVM_TYPES[scalar.name]
        value = self.splat(element, first)
        if stride == 0:
            return value
        wrapped = (k * stride % (1 << scalar.bits) for k in range(self.gang))
        texts = (f"{element} {literal(scalar, number)}" for number in wrapped)
        steps = f"<{', '.join(texts)}>"
        return self.op(f"add <{self.gang} x {element}> {value}, {steps}")

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

    def region(self, region: Region) -> None:
        """Emit ``region``, whose parameters are bound."""
        for eqn in region.eqns:
            self.eqn(eqn)

    def eqn(self, eqn: Eqn) -> None:
        """Emit ``eqn`` and bind its outputs; a single output decides of how many lanes it is."""
        lanes = self.lanes_of(eqn.out) if len(eqn.outputs) == 1 else 1
        with self.at(lanes):
            values = self._handlers[eqn.op.kind](self, eqn)
        for out, value in zip(eqn.outputs, values, strict=True):
            self.bind(out, value)

    def values(self, atoms: Sequence[Atom], like: Sequence[Atom]) -> list[str]:
        """The texts of ``atoms``, each of as many lanes as its partner in ``like``."""
        return [self.value_at(a, self.lanes_of(b)) for a, b in zip(atoms, like, strict=True)]


def scalar_type(atom: Atom) -> Scalar:
    """The type of a scalar atom."""
    assert isinstance(atom.type, Scalar)
    return atom.type
