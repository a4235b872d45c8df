"""Which kernels are functions of whole arrays, so that a framework can fuse them with its own code.

Each thread of such a kernel reads and writes elements at its own launch index only, or components
with literal indices behind it, and computes them by operations that frameworks have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import SrcLoc
from kernelcore.builtins.reference import is_narrow
from kernelcore.builtins.spelling import Spelling, conversion_keeps_bits
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMICS, LOOPS, OpKind
from kernelcore.ir.walk import array_type, walk_eqns
from kernelcore.language.types import ArrayType, Scalar, element_type

# Why a kernel with an equation of some kind stays apart.
_REASONS: Mapping[OpKind, str] = MappingProxyType(
    {
        OpKind.ARRAY_AT: "makes an array of an address",
        OpKind.DIM: "asks for the extent of an array",
        **dict.fromkeys(ATOMICS, "updates an element atomically"),
        OpKind.PRINT: "prints",
        OpKind.ASSERT: "checks a condition",
        **dict.fromkeys(LOOPS, "is a loop"),
        OpKind.SNIPPET: "calls native code",
        OpKind.STACK: "records values for a reverse sweep",
    }
)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How the compiler of a framework computes with arrays.

    Attributes:
        dtypes: The element types that it has; None for all.
        rounds_once: Whether basic operations on floats count as rounded once each, and as keeping
            denormals: they do, or the framework's own do not either.
        elementary: Whether its elementary functions count as those of kernels.
        components: Whether it puts components together as fast as a launch does.
    """

    dtypes: frozenset[Scalar] | None = None
    rounds_once: bool = True
    elementary: bool = False
    components: bool = True


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason for which a kernel is not fused, and where it is; ``text`` follows a line number."""

    text: str
    loc: SrcLoc | None

    def __str__(self) -> str:
        return f"line {self.loc.line} {self.text}" if self.loc else f"it {self.text}"


def obstacles(func: Func, arithmetic: Arithmetic, *, asked: bool) -> Iterator[Obstacle]:
    """What keeps ``func``, without rules, from being fused; nothing if it can be.

    Unless all is ``asked`` for, results have the bits that machine code gives, as far as
    ``arithmetic`` counts as that of kernels.
    """
    if func.flush_denormals:
        yield Obstacle("flushes subnormal numbers", func.loc)
    for index, param in enumerate(func.params):
        text = _obstacle_of_type(param, arithmetic.dtypes)
        if text is not None:
            yield Obstacle(text, func.param_loc(index))
    checker = _Checker(func, arithmetic, asked)
    for eqn in walk_eqns(func.body):
        text = checker.obstacle(eqn)
        if text is not None:
            yield Obstacle(text, eqn.loc)


def _obstacle_of_type(var: Var, dtypes: Collection[Scalar] | None) -> str | None:
    if isinstance(var.type, ArrayType) and var.type.components:
        return f"declares '{var.name}', whose elements have components"
    dtype = element_type(var.type)
    if is_narrow(dtype):
        return f"has values of {dtype}, which frameworks round less often"
    if dtypes is not None and dtype not in dtypes:
        return f"has values of {dtype}, with which the framework does not compute"
    return None


class _Checker:
    def __init__(self, func: Func, arithmetic: Arithmetic, asked: bool) -> None:
        self.arithmetic = arithmetic
        self.asked = asked
        self.axis = grid_axes(func.body)
        self.own = own_axes(func.body)
        self.may_have_components = asked or arithmetic.components
        accesses = [e for e in walk_eqns(func.body) if e.op.kind in _WRITES]
        self.written = {e.inputs[0] for e in accesses}

    def obstacle(self, eqn: Eqn) -> str | None:
        """Why ``eqn`` keeps its kernel from being fused."""
        for out in eqn.outputs:
            if not isinstance(out.type, Scalar):
                break
            text = _obstacle_of_type(out, self.arithmetic.dtypes)
            if text is not None:
                return text
        match eqn.op.kind:
            case OpKind.PURE:
                return self.pure(eqn)
            case OpKind.CAST:
                return self.cast(eqn)
            case OpKind.TID | OpKind.IF:
                return None
            case OpKind.LOAD | OpKind.STORE | OpKind.ATOMIC_ADD:
                return self.access(eqn)
            case kind:
                return _REASONS.get(kind, f"has the operation {eqn.op.name}")

    def pure(self, eqn: Eqn) -> str | None:
        spelling: Spelling | None = eqn.op.array
        type_ = element_type(eqn.inputs[-1].type)
        if spelling is None or not spelling.takes(type_):
            return f"computes '{eqn.op.name}' of {type_}, which frameworks compute otherwise"
        rounds_once = self.arithmetic.rounds_once
        if self.asked or spelling.keeps_bits(type_, rounds_once=rounds_once):
            return None
        if spelling.ulp and self.arithmetic.elementary:
            return None
        if spelling.ulp:
            return (
                f"computes '{eqn.op.name}', of which frameworks give other bits, within "
                f"{spelling.ulp} ulp"
            )
        return f"computes '{eqn.op.name}' of floats, whose bits the framework does not keep"

    def cast(self, eqn: Eqn) -> str | None:
        source, target = element_type(eqn.inputs[0].type), eqn.attrs["dtype"]
        rounds_once = self.arithmetic.rounds_once
        if not self.asked and not conversion_keeps_bits(source, target, rounds_once=rounds_once):
            return f"converts {source} to {target}, whose bits the framework does not keep"
        return None

    def access(self, eqn: Eqn) -> str | None:
        place = place_of(eqn, self.axis)
        axes = None if place is None else place.axes
        if place is not None and eqn.inputs[0] in self.written:
            # Components are put together along the last axes.
            is_own = axes == self.own and place.is_axis[: len(self.own)] == (True,) * len(self.own)
        else:
            is_own = axes is not None and list(axes) == sorted(set(axes))
        if is_own and place is not None and place.literals and not self.may_have_components:
            return f"accesses component {place.literals[0]}, which a launch does faster"
        if is_own:
            return None
        what = {OpKind.LOAD: "reads", OpKind.ATOMIC_ADD: "adds to"}.get(eqn.op.kind, "writes")
        return f"{what} an element of another thread"


_WRITES = (OpKind.STORE, OpKind.ATOMIC_ADD)


@dataclass(frozen=True, slots=True)
class Place:
    """An element that a thread accesses.

    Attributes:
        indices: Per axis of the array the launch axis whose index it has, or a literal.
        is_axis: Which of the two it is.
    """

    indices: tuple[int, ...]
    is_axis: tuple[bool, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The launch axes."""
        return tuple(k for k, is_axis in zip(self.indices, self.is_axis, strict=True) if is_axis)

    @property
    def literals(self) -> tuple[int, ...]:
        """The literal indices."""
        pairs = zip(self.indices, self.is_axis, strict=True)
        return tuple(k for k, is_axis in pairs if not is_axis)


def grid_axes(body: Region) -> Mapping[Atom, int]:
    """The launch axis of every Var that is a launch index."""
    return {e.out: e.attrs["axis"] for e in walk_eqns(body) if e.op.kind is OpKind.TID}


def own_axes(body: Region) -> tuple[int, ...]:
    """The launch axes that a kernel asks for; launches have one point along others."""
    return tuple(sorted(set(grid_axes(body).values())))


def place_of(eqn: Eqn, axis: Mapping[Atom, int]) -> Place | None:
    """Where the access ``eqn`` is, if its indices are launch indices and literals."""
    indices = eqn.inputs[1 : 1 + array_type(eqn).ndim]
    if not all(i.value >= 0 if isinstance(i, Const) else i in axis for i in indices):
        return None
    found = [int(i.value) if isinstance(i, Const) else axis[i] for i in indices]
    return Place(tuple(found), tuple(not isinstance(i, Const) for i in indices))
