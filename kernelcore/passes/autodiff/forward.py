"""Forward mode (JVP): a kernel that computes the tangents of a kernel's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelcore.builtins.arithmetic import add
from kernelcore.frontend.formula import lower_formula
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Eqn, Func, Region, Var
from kernelcore.ir.op import ACCESSES, CAST, NATIVE, STACK, OpKind
from kernelcore.ir.snippet import Form, array_uses, is_float_value, no_tangent, snippet_of
from kernelcore.ir.walk import LEADING
from kernelcore.language.types import ArrayType, Scalar, StackType
from kernelcore.passes.access.effects import AccessMap
from kernelcore.passes.autodiff import forward_custom
from kernelcore.passes.autodiff.activity import (
    check_derivative_exists,
    check_races,
    derivable,
    varied,
)
from kernelcore.passes.autodiff.custom_rules import replayed


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived kernel: the parameters of the primal, then tangents or cotangents of some of them.

    ``derivative_of[i]`` is the index, among the parameters of ``func``, of the tangent (JVP) or
    cotangent (VJP) of primal parameter ``i``.
    """

    func: Func
    derivative_of: dict[int, int]


def make_derived(
    func: Func, suffix: str, derivatives: Mapping[Var, Var], eqns: Sequence[Eqn]
) -> Derived:
    """The kernel of ``eqns``, with the parameters of ``func`` and their ``derivatives``."""
    sources = [i for i, p in enumerate(func.params) if p in derivatives]
    params = (*func.params, *(derivatives[func.params[i]] for i in sources))
    locs = tuple(func.param_loc(i) for i in (*range(len(func.params)), *sources))
    body = Region(params, tuple(eqns))
    out = Func(f"{func.name}_{suffix}", body, func.grid_rank, func.loc, locs)
    return Derived(out, {i: len(func.params) + n for n, i in enumerate(sources)})


def jvp(func: Func, active: Sequence[int]) -> Derived:
    """Tangents of all arrays that ``func`` writes, given those of the ``active`` parameters.

    The derived kernel has a tangent parameter for every active parameter and every array that
    becomes varied. It leaves arrays that ``func`` only writes untouched, and updates the others as
    ``func`` does.

    Raises:
        KernelGradError: ``func`` has no exact derivative.
    """
    sources = {func.params[i] for i in active}
    func = derivable(replayed(func), sources)
    check_races(func)
    return Forward(func, sources).run()


class Forward:
    """State of one pass in forward mode."""

    def __init__(self, func: Func, active: Iterable[Var]) -> None:
        self.func = func
        self.varied = varied(func, active)
        self.accesses = AccessMap(func)
        self.builder = Builder()
        self.tangent: dict[Atom, Atom] = {}

    def run(self) -> Derived:
        func = self.func
        tangents = {p: self.fresh(p) for p in func.params if p in self.varied}
        with self.builder.region() as eqns:
            self.region(func.body)
        return make_derived(func, "jvp", tangents, eqns)

    def fresh(self, var: Var) -> Var:
        """The Var that holds the tangent of ``var`` from now on."""
        tangent = Var(var.type, f"t_{var.name}")
        self.tangent[var] = tangent
        return tangent

    def of(self, atom: Atom) -> Atom:
        """The tangent of a scalar, zero where it does not vary."""
        assert isinstance(atom.type, Scalar)
        return self.tangent.get(atom) or zero(atom.type)

    def region(self, region: Region) -> None:
        for eqn in region.eqns:
            self.builder.loc = eqn.loc
            self.eqn(eqn)

    def eqn(self, eqn: Eqn) -> None:
        match eqn.op.kind:
            case OpKind.PURE:
                self.builder.append(eqn)
                self.pure(eqn)
            case _ if eqn.op.kind in ACCESSES:
                self.memory(eqn)
            case OpKind.STACK | OpKind.PUSH | OpKind.POP | OpKind.CAST:
                self.builder.append(eqn)
                self.plain(eqn)
            case OpKind.IF:
                self.branch(eqn)
            case OpKind.FOR | OpKind.WHILE:
                self.loop(eqn)
            case OpKind.TID | OpKind.DIM:
                self.builder.append(eqn)
            case OpKind.NATIVE:
                self.native(eqn)
            case OpKind.CUSTOM:
                forward_custom.call(self, eqn)
            case _:
                raise ValueError(f"{eqn.op.name}: no derivative of this kind")

    def pure(self, eqn: Eqn) -> None:
        check_derivative_exists(eqn, self.varied)
        if eqn.out not in self.varied or eqn.op.grad is None:
            return
        env: dict[str, Atom] = dict(zip(eqn.op.params, eqn.inputs, strict=True))
        total: Atom | None = None
        for name, formula in eqn.op.grad.items():
            tangent = self.tangent.get(env[name])
            if tangent is None:
                continue
            term = lower_formula(formula, {**env, "out": eqn.out, "ct": tangent}, self.builder)
            total = term if total is None else self.builder.emit(add.op, total, term)
        if total is not None:
            self.tangent[eqn.out] = total

    def native(self, eqn: Eqn) -> None:
        """A snippet has no text for its tangents; what stands for them can be transposed."""
        snippet = snippet_of(eqn)
        targets = (*eqn.outputs, *(u.array for u in array_uses(eqn) if u.writes))
        if eqn.outputs or any(self.accesses.has(v, OpKind.LOAD) for v in targets):
            self.builder.append(eqn)
        if not any(v in self.varied for v in targets):
            return
        if snippet.form is not Form.FORWARD or snippet.adjoint is None:
            raise no_tangent(eqn)
        given: list[bool] = []
        tangents: list[Atom] = []
        for param, (_, atoms) in zip(snippet.params, snippet.arguments(eqn.inputs), strict=True):
            tangent = self.tangent.get(atoms[0])
            is_array = isinstance(param.type, ArrayType)
            given.append(is_array and tangent is not None)
            if is_array and tangent is not None:
                tangents += [tangent, *atoms[1:]]
            elif is_float_value(param):
                tangents += [self.of(a) for a in atoms]
        form = snippet.tangent_form(given)
        found = self.builder.emit_all(NATIVE, (*eqn.inputs, *tangents), snippet=form)
        self.tangent.update(zip(eqn.outputs, found, strict=False))

    def memory(self, eqn: Eqn) -> None:
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

    def plain(self, eqn: Eqn) -> None:
        match eqn.op.kind:
            case OpKind.STACK if eqn.out in self.varied:
                assert isinstance(eqn.out.type, StackType)
                self.tangent[eqn.out] = self.builder.emit(STACK, dtype=eqn.out.type.dtype)
            case OpKind.PUSH if eqn.inputs[0] in self.varied:
                stack = self.tangent[eqn.inputs[0]]
                self.builder.emit_effect(eqn.op, stack, self.of(eqn.inputs[1]))
            case OpKind.POP if eqn.inputs[0] in self.varied:
                self.tangent[eqn.out] = self.builder.emit(eqn.op, self.tangent[eqn.inputs[0]])
            case OpKind.CAST if eqn.out in self.varied and eqn.inputs[0] in self.tangent:
                tangent = self.tangent[eqn.inputs[0]]
                self.tangent[eqn.out] = self.builder.emit(CAST, tangent, **eqn.attrs)
            case _:
                pass

    def branch(self, eqn: Eqn) -> None:
        slots = [i for i, v in enumerate(eqn.outputs) if v in self.varied]
        regions = tuple(self.inner(r, slots, ()) for r in eqn.regions)
        self.finish(eqn, eqn.inputs, regions, slots)

    def loop(self, eqn: Eqn) -> None:
        lead, first = LEADING[eqn.op.kind]
        slots = [i for i, v in enumerate(eqn.outputs) if v in self.varied]
        inits = tuple(self.of(eqn.inputs[lead + i]) for i in slots)
        regions: list[Region] = []
        for region in eqn.regions:
            fresh = tuple(self.fresh(region.params[first + i]) for i in slots)
            is_body = region is eqn.regions[-1]
            regions.append(self.inner(region, slots if is_body else [], fresh))
        self.finish(eqn, (*eqn.inputs, *inits), tuple(regions), slots)

    def inner(self, region: Region, slots: Sequence[int], fresh: tuple[Var, ...]) -> Region:
        """``region`` with tangents: of the parameters in ``fresh``, of the yields at ``slots``."""
        with self.builder.region() as eqns:
            self.region(region)
        tangents = tuple(self.of(region.yields[i]) for i in slots)
        return Region((*region.params, *fresh), tuple(eqns), (*region.yields, *tangents))

    def finish(
        self, eqn: Eqn, inputs: tuple[Atom, ...], regions: tuple[Region, ...], slots: Sequence[int]
    ) -> None:
        tangents = tuple(self.fresh(eqn.outputs[i]) for i in slots)
        outputs = (*eqn.outputs, *tangents)
        self.builder.append(Eqn(eqn.op, inputs, outputs, eqn.attrs, regions, eqn.loc))
