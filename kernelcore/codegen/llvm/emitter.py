"""Emitter: instructions for one thread or a gang, over the text of a function."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType

from kernelcore.base import native
from kernelcore.base.dataclass import dataclass, field, replace
from kernelcore.builtins.lowering import LLVM_TYPES, literal
from kernelcore.codegen.analysis.component_groups import ComponentGroups
from kernelcore.codegen.analysis.independent_loops import IndependentLoop
from kernelcore.codegen.analysis.loop_dependence import VectorLoop
from kernelcore.codegen.analysis.packs import Pack, Packing
from kernelcore.codegen.analysis.panels import Panel
from kernelcore.codegen.analysis.row_blocks import BlockedLoop
from kernelcore.codegen.analysis.uniformity import Strides
from kernelcore.codegen.llvm.stack_records import Member
from kernelcore.codegen.llvm.text import Text
from kernelcore.codegen.reduction.accumulation import Accumulation
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
    """What a stack stands for: slots of its address, its size, and its capacity in bytes."""

    data: str
    size: str
    capacity: str


Value = str | ArrayValue | StackValue
Handler = Callable[["Emitter", Eqn], Sequence[Value]]
Address = Callable[["Emitter", ArrayValue, Sequence[Atom]], str]


@dataclass(frozen=True, slots=True)
class Facts:
    """Analyses of a kernel, and what its target has.

    Attributes:
        assertions: The number of every ASSERT.
        members: The shared stack, and the place in its records, of every stack.
        elements: The writes that together write one element, by each of them (``access.py``).
        rows: The accesses of one element that gangs may make as a row, by each of them.
        adjacent_sums: The additions to adjacent elements that gangs may make together, by each.
        first_accesses: Accesses before which memory is prefetched.
        least_masked_bytes: The smallest elements that the processor accesses under masks.
        gathers: Whether lanes load elements anywhere by one instruction.
        fused: Whether the target multiplies and adds in one instruction.
        branches: Whether rare cases of elementary functions are branches in place.
        scales: Whether the target multiplies by a power of two in one instruction.
        checks_status: Whether ``while`` loops check in each iteration that the launch goes on.
        attributes: The pairs of LLVM's string attributes of functions for the target.
    """

    assertions: Mapping[Eqn, int] = field(default_factory=dict[Eqn, int])
    members: Mapping[Atom, Member] = field(default_factory=dict[Atom, Member])
    elements: Mapping[Eqn, Sequence[Eqn]] = field(default_factory=dict[Eqn, Sequence[Eqn]])
    rows: Mapping[Eqn, Sequence[Eqn]] = field(default_factory=dict[Eqn, Sequence[Eqn]])
    adjacent_sums: ComponentGroups = field(default_factory=dict[Eqn, tuple[Eqn, ...]])
    first_accesses: frozenset[Eqn] = frozenset()
    least_masked_bytes: int = 1
    gathers: bool = False
    fused: bool = native.has_fma
    branches: bool = False
    scales: bool = False
    checks_status: bool = False
    attributes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of the code that is being emitted.

    Attributes:
        size: How many lanes there are.
        strides: By how much a value grows from lane to lane, 0 where lanes share it. Such a Var is
            bound to its value in lane 0, one without a stride to ``size`` values.
        mask: The active lanes, None for all; code under a mask runs only if some lane is active.
        store_mask: The lanes whose stores count, None for all.
        recorded: How many lanes have room in records of stacks, an i64: the first ones, with all
            active ones; None for all.
        row_major: Accesses of adjacent elements in gangs that cross rows.
        vector_loop: The loop whose iterations are the lanes, with sums in order; None else.
        are_iterations: Whether lanes are independent iterations of one thread.
    """

    size: int = 1
    strides: Strides = field(default_factory=dict[Var, int | None])
    mask: str | None = None
    store_mask: str | None = None
    recorded: str | None = None
    row_major: frozenset[Eqn] = frozenset()
    vector_loop: VectorLoop | None = None
    are_iterations: bool = False


class Emitter:
    """Appends instructions for one thread or a gang, and keeps the values of Vars.

    Attributes:
        text: The function that is written; its methods are the emitter's.
        lanes: The lanes of the values being emitted: ``gang``, or 1 for values that lanes share.
        facts: What is known of the kernel before its code is emitted.
        lane_facts: What the lanes are.
        vector_loops: The loops to vectorise in the body being emitted.
        blocked_loops: The loops along rows in the body being emitted.
        independent_loops: The loops whose iterations become lanes, with the loops inside.
        loops_in_parts: The loops whose sums have a part per lane, where their iterations are lanes
            (``simd/partial_sums.py``).
        in_lane_order: Additions to one element that lanes make one after the other.
        panels: The panels of loops in the tile being emitted.
        grid_rows: The extent of the last axis of the grid but one, an i64.
        row_buffers: Where the block being emitted keeps the elements of an access.
        lane_sums: The elements in registers to which threads of a gang add one after the other.
        rows_in_place: Loads in ``row_buffers`` whose address may lie in the array itself, where
            inactive lanes must not read.
        address: Makes addresses of elements in the target's own way, if it has one.
        accumulation: What additions to shared arrays need.
        point: The launch index of lane 0, or of all lanes where gangs cross rows: one int32 per
            grid dimension.
        wide_indices: The int64 of int32 values that exist as both.
        stacks: The stacks of the kernel, ``records`` the ones that others share.
        with_room: The pushes in the body being emitted whose stacks have room.
        top_records: Of such a one, the address of the record last pushed or popped.
        component_groups: Components of elements that have been loaded as a whole.
        packing: Where a single thread computes with vectors; ``emit_pack`` emits one of them.
        joined: The vectors that hold the values of these atoms.
    """

    def __init__(
        self,
        gang: Lanes,
        handlers: Mapping[OpKind, Handler] = MappingProxyType({}),
        facts: Facts | None = None,
    ) -> None:
        self.text = text = Text()
        self.op, self.effect, self.declare = text.op, text.effect, text.declare
        self.slot, self.scratch, self.spare = text.slot, text.scratch, text.spare
        self.label, self.start_block, self.jump_into = text.label, text.start_block, text.jump_into
        self.jump, self.branch, self.branch_rarely = text.jump, text.branch, text.branch_rarely
        self.phi, self.add_edge = text.phi, text.add_edge
        self.lanes = gang.size
        self.facts = facts or Facts()
        self.fused, self.branches = self.facts.fused, self.facts.branches
        self.scales = self.facts.scales
        self.vector_loops: Mapping[Eqn, VectorLoop] = {}
        self.blocked_loops: Mapping[Eqn, BlockedLoop] = {}
        self.independent_loops: Mapping[Eqn, IndependentLoop] = {}
        self.loops_in_parts: Mapping[Eqn, IndependentLoop] = {}
        self.in_lane_order: frozenset[Eqn] = frozenset()
        self.panels: Mapping[Eqn, Sequence[Panel]] = {}
        self.grid_rows = "1"
        self.row_buffers: dict[Eqn, str] = {}
        self.lane_sums: dict[Eqn, str] = {}
        self.rows_in_place: frozenset[Eqn] = frozenset()
        self.with_room: frozenset[Eqn] = frozenset()
        self.address: Address | None = None
        self.accumulation: Accumulation | None = None
        self.point: tuple[str, ...] = ()
        self.wide_indices: dict[str, str] = {}
        self.stacks: list[StackValue] = []
        self.records: dict[int, StackValue] = {}
        self.top_records: dict[tuple[int, OpKind], str] = {}
        self.component_groups: dict[Eqn, str] = {}
        self.packing = Packing()
        self.emit_pack: Callable[[Emitter, Pack], None] | None = None
        self.joined: dict[tuple[Atom, ...], str] = {}
        self.lane_facts = gang
        self._env: dict[Var, Value] = {}
        self._handlers = handlers

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
        return self.lane_facts.strides.get(atom)

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
    def as_lanes(self, gang: Lanes) -> Generator[None]:
        """Emit code of other lanes inside; what varies by another stride must be bound anew."""
        saved, self.lane_facts = self.lane_facts, gang
        yield
        self.lane_facts = saved

    @contextmanager
    def gangs_of(self, size: int) -> Generator[None]:
        """Emit code of gangs of ``size`` inside; varying values must be bound anew."""
        gang = replace(self.lane_facts, size=size, mask=None, recorded=None)
        with self.at(1), self.as_lanes(gang):
            yield

    def under(self, mask: str | None) -> AbstractContextManager[None]:
        """Emit code for the active lanes ``mask`` inside."""
        return self.as_lanes(replace(self.lane_facts, mask=mask))

    @contextmanager
    def other_code(
        self, strides: Strides, facts: Facts, accumulation: Accumulation
    ) -> Generator[None]:
        """Emit another form of the kernel inside, of which these are known."""
        saved = self.facts, self.accumulation
        self.facts, self.accumulation = facts, accumulation
        with self.as_lanes(replace(self.lane_facts, strides=strides)):
            yield
        self.facts, self.accumulation = saved

    @contextmanager
    def special_loops(
        self,
        vectors: Mapping[Eqn, VectorLoop],
        blocked: Mapping[Eqn, BlockedLoop],
        independent: Mapping[Eqn, IndependentLoop] = MappingProxyType({}),
        in_parts: Mapping[Eqn, IndependentLoop] = MappingProxyType({}),
    ) -> Generator[None]:
        """Emit these loops inside as vectors of iterations, or in blocks along rows."""
        saved = self.vector_loops, self.blocked_loops, self.independent_loops, self.loops_in_parts
        # A block around goes on with its own.
        buffers, self.row_buffers = self.row_buffers, {}
        self.vector_loops, self.blocked_loops = vectors, blocked
        self.independent_loops, self.loops_in_parts = independent, in_parts
        yield
        self.vector_loops, self.blocked_loops, self.independent_loops, self.loops_in_parts = saved
        self.row_buffers = buffers

    @property
    def block(self) -> str:
        """The label of the block that is being filled."""
        return self.text.block

    @property
    def gang(self) -> int:
        """The lanes of a varying value; 1 for a single thread."""
        return self.lane_facts.size

    @property
    def mask(self) -> str | None:
        """The active lanes, None for all."""
        return self.lane_facts.mask

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
        with self.inside():
            self.lines(region)

    def lines(self, region: Region) -> None:
        """Emit ``region``, of whose vectors what follows knows."""
        for item in self.packing.regions.get(region, region.eqns):
            if isinstance(item, Eqn):
                self.eqn(item)
            elif self.emit_pack is not None:
                self.emit_pack(self, item)

    @contextmanager
    def inside(self) -> Generator[None]:
        """Emit code inside that may not run: vectors made there are not known behind it."""
        saved = self.joined
        self.joined = dict(saved)
        yield
        self.joined = saved

    def eqn(self, eqn: Eqn) -> None:
        """Emit ``eqn`` and bind its outputs; a single output decides of how many lanes it is."""
        saved = self.lanes
        self.lanes = self.lanes_of(eqn.out) if len(eqn.outputs) == 1 else 1
        self.text.mark(eqn.loc)
        values = self._handlers[eqn.op.kind](self, eqn)
        self.lanes = saved
        if eqn.regions:
            self.text.mark(eqn.loc)
        for out, value in zip(eqn.outputs, values, strict=True):
            self.bind(out, value)

    def values(self, atoms: Sequence[Atom], like: Sequence[Atom]) -> list[str]:
        """The texts of ``atoms``, each of as many lanes as its partner in ``like``."""
        return [self.value_at(a, self.lanes_of(b)) for a, b in zip(atoms, like, strict=True)]


def scalar_type(atom: Atom) -> Scalar:
    """The type of a scalar atom."""
    assert isinstance(atom.type, Scalar)
    return atom.type
