"""The IR: structured SSA in five small structs.

    Func   = name(params) -> yields { body }            grid_rank: launch dimensions that tid reads
    Region = (params) { eqns } yields atoms             may use any Var of an enclosing region
    Eqn    = outputs = op[attrs](inputs) regions @loc
    Atom   = Var | Const
    Op     = declared in ``op.py``; what an Op may contain and yield is checked by ``verify.py``

Control flow is an Eqn with regions; what a loop carries are the parameters of its regions:

    outs = if(cond)                      regions: () -> outs, () -> outs
    outs = for(start, stop, step, *init) regions: (i, *carried) -> carried
    outs = while(*init)                  regions: (*carried) -> bool, (*carried) -> carried
    outs = call[callee](*args)           no regions; removed by inlining
    outs = custom[rules](*args)          regions: () -> outs, which uses the arguments themselves
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kernelcore.base.dataclass import dataclass, field
from kernelcore.base.errors import SrcLoc, labelled
from kernelcore.language.types import Scalar, Type

if TYPE_CHECKING:
    from kernelcore.ir.op import Op

NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, eq=False, slots=True)
class Var:
    """A value, bound once; identity is its name, ``name`` is only a hint for printing."""

    type: Type
    name: str = ""


@dataclass(frozen=True, slots=True)
class Const:
    """A literal scalar."""

    type: Scalar
    value: bool | int | float


Atom = Var | Const


@dataclass(frozen=True, eq=False, slots=True)
class Eqn:
    """One application of an Op."""

    op: Op
    inputs: tuple[Atom, ...]
    outputs: tuple[Var, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=lambda: NO_ATTRS)
    regions: tuple[Region, ...] = ()
    loc: SrcLoc | None = None

    @property
    def out(self) -> Var:
        """The only output."""
        (out,) = self.outputs
        return out


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """A straight line of Eqns with parameters and yielded values."""

    params: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    yields: tuple[Atom, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Func:
    """A kernel (``body`` yields nothing) or a function (yields its results).

    ``grid_rank`` is the number of launch dimensions; 0 for a function, and for a kernel that
    never asks for its index. ``param_locs`` runs along ``params``; entries may be None. Arithmetic
    of a kernel with ``flush_denormals`` takes subnormal numbers for zeros, and makes zeros of them.
    A kernel with ``keeps_bits`` is derived from one of scalar code and computes the same values bit
    by bit: it adds up in the order of the program, and rounds products before it adds them.
    """

    name: str
    body: Region
    grid_rank: int = 0
    loc: SrcLoc | None = None
    param_locs: tuple[SrcLoc | None, ...] = ()
    flush_denormals: bool = False
    keeps_bits: bool = False

    @property
    def params(self) -> tuple[Var, ...]:
        return self.body.params

    @property
    def rank(self) -> int:
        """Axes of the grid; a kernel that never asks for its index runs over one."""
        return max(self.grid_rank, 1)

    @property
    def label(self) -> str:
        """The name and the place of the definition, as traces, profiles and errors show them."""
        return labelled(self.name, self.loc)

    def param_loc(self, index: int) -> SrcLoc | None:
        """Where parameter ``index`` is declared in the user's source, if it is."""
        return self.param_locs[index] if index < len(self.param_locs) else None
