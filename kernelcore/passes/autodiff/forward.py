"""The state of forward mode, and the tangents of plain operations, memory and control flow.

``jvp.py`` holds the table of handlers; those of calls are in ``rule_calls`` and ``snippet_calls``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kernelcore.base.lazy import Deferred
from kernelcore.builtins.arithmetic import add
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import OpKind
from kernelcore.ir.walk import LEADING
from kernelcore.language.types import Scalar
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.autodiff.activity import active_values, check_derivative_exists
from kernelcore.passes.autodiff.derived import Derived, make_derived

# Only kernels that have no derivative in the disk cache need the compiler's front end.
if TYPE_CHECKING:
    from kernelcore.frontend import formula
else:
    formula = Deferred("kernelcore.frontend.formula")

Handler: TypeAlias = "Callable[[Forward, Eqn], None]"


class Forward:
    """State of one pass in forward mode.

    Attributes:
        active: The values that have tangents.
        tangent: What holds the tangent of each value that has one so far.
    """

    def __init__(
        self, func: Func, sources: Iterable[Var], handlers: Mapping[OpKind, Handler]
    ) -> None:
        self.func = func
        self.handlers = handlers
        self.active = active_values(func, sources)
        self.accesses = AccessMap(func)
        self.builder = Builder()
        self.tangent: dict[Atom, Atom] = {}

    def run(self) -> Derived:
        """The derived kernel."""
        func = self.func
        tangents = {p: self.fresh(p) for p in func.params if p in self.active}
        with self.builder.region() as eqns:
            self.region(func.body)
        return make_derived(func, "jvp", tangents, eqns)

    def fresh(self, var: Var) -> Var:
        """The Var that holds the tangent of ``var`` from now on."""
        tangent = Var(var.type, f"t_{var.name}")
        self.tangent[var] = tangent
        return tangent

    def of(self, atom: Atom) -> Atom:
        """The tangent of a scalar, zero where it is not active."""
        assert isinstance(atom.type, Scalar)
        return self.tangent.get(atom) or zero(atom.type)

    def region(self, region: Region) -> None:
        """Emit ``region`` with its tangents."""
        for eqn in region.eqns:
            self.builder.loc = eqn.loc
            self.handlers[eqn.op.kind](self, eqn)

    def keep(self, eqn: Eqn) -> None:
        """Emit an Eqn without tangents."""
        self.builder.append(eqn)

    def pure(self, eqn: Eqn) -> None:
        """The sum of the op's formulas for the arguments that have tangents."""
        self.builder.append(eqn)
        check_derivative_exists(eqn, self.active)
        if eqn.out not in self.active or eqn.op.grad is None:
            return
        env: dict[str, Atom] = dict(zip(eqn.op.params, eqn.inputs, strict=True))
        total: Atom | None = None
        for name, text in eqn.op.grad.items():
            tangent = self.tangent.get(env[name])
            if tangent is None:
                continue
            term = formula.lower_formula(text, {**env, "out": eqn.out, "ct": tangent}, self.builder)
            total = term if total is None else self.builder.emit(add.op, total, term)
        if total is not None:
            self.tangent[eqn.out] = total

    def alike(self, eqn: Eqn) -> None:
        """The same operation on the tangents of its inputs."""
        self.builder.append(eqn)
        if eqn.out in self.active and all(a in self.tangent for a in eqn.inputs):
            tangents = [self.tangent[a] for a in eqn.inputs]
            self.tangent[eqn.out] = self.builder.emit(eqn.op, *tangents, **eqn.attrs)

    def access(self, eqn: Eqn) -> None:
        """The same access of the array of tangents; the primal's only where a load may see it."""
        array, *rest = eqn.inputs
        if eqn.op.kind is OpKind.LOAD or self.accesses.has(array, OpKind.LOAD):
            self.builder.append(eqn)
        tangent = self.tangent.get(array)
        if tangent is None:
            return
        match eqn.op.kind:
            case OpKind.LOAD:
                self.tangent[eqn.out] = self.builder.emit(eqn.op, tangent, *rest)
            case OpKind.STORE:
                self.builder.emit_effect(eqn.op, tangent, *rest[:-1], self.of(rest[-1]))
            case _:
                if rest[-1] in self.tangent:
                    self.builder.emit(eqn.op, tangent, *rest[:-1], self.of(rest[-1]))

    def push(self, eqn: Eqn) -> None:
        """Push the tangent too."""
        self.builder.append(eqn)
        if eqn.inputs[0] in self.active:
            self.builder.emit_effect(eqn.op, self.tangent[eqn.inputs[0]], self.of(eqn.inputs[1]))

    def control(self, eqn: Eqn) -> None:
        """A branch or loop that yields the tangents of its active outputs as well."""
        is_branch = eqn.op.kind is OpKind.IF
        lead, first = LEADING[eqn.op.kind]
        slots = [i for i, v in enumerate(eqn.outputs) if v in self.active]
        inits = () if is_branch else tuple(self.of(eqn.inputs[lead + i]) for i in slots)
        regions: list[Region] = []
        for region in eqn.regions:
            held = () if is_branch else tuple(self.fresh(region.params[first + i]) for i in slots)
            yields_all = is_branch or region is eqn.regions[-1]
            regions.append(self._inner(region, slots if yields_all else (), held))
        tangents = tuple(self.fresh(eqn.outputs[i]) for i in slots)
        inputs, outputs = (*eqn.inputs, *inits), (*eqn.outputs, *tangents)
        self.builder.append(Eqn(eqn.op, inputs, outputs, eqn.attrs, tuple(regions), eqn.loc))

    def _inner(self, region: Region, slots: Sequence[int], held: tuple[Var, ...]) -> Region:
        """``region`` with tangents: of the parameters in ``held``, of the yields at ``slots``."""
        with self.builder.region() as eqns:
            self.region(region)
        tangents = tuple(self.of(region.yields[i]) for i in slots)
        return Region((*region.params, *held), tuple(eqns), (*region.yields, *tangents))
