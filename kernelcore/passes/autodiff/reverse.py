"""Reverse mode (VJP): a kernel that pulls the cotangents of a kernel's arrays back.

One thread of the adjoint runs the primal again, recording what it must (``replay.py``), then walks
its Eqns backwards. Memory follows three rules: a load adds to the cotangent of its element; a store
takes that cotangent and leaves zero, since the value before is dead; an accumulation takes it and
leaves it. Control flow is in ``reverse_control.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelcore.builtins.arithmetic import add
from kernelcore.frontend.formula import formula_names, lower_formula
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMIC_ADD, CAST, LOAD, POP, PUSH, STACK, STORE, WRITES, OpKind
from kernelcore.ir.walk import replace_body
from kernelcore.language.types import ArrayType, Scalar, StackType
from kernelcore.passes.autodiff import reverse_control, reverse_custom, reverse_snippet
from kernelcore.passes.autodiff.activity import (
    check_conditions,
    check_derivative_exists,
    check_races,
    derivable,
    varied,
)
from kernelcore.passes.autodiff.custom_rules import replayed
from kernelcore.passes.autodiff.forward import Derived, make_derived
from kernelcore.passes.autodiff.primal_recomputation import Replay

Cotangents = dict[Var, Atom]


def vjp(func: Func, wrt: Sequence[int], seeds: Sequence[int]) -> Derived:
    """Cotangents of the parameters ``wrt``, given those of the arrays ``seeds``.

    The derived kernel has cotangent parameters, which are arrays (of no dimension for a value):
    of ``wrt``, of those ``seeds`` that vary with them, and of arrays that ``func`` both writes and
    loads. On entry they hold the cotangents after ``func``, zero where none is known; on exit those
    before it. Arrays that ``func`` both writes and loads must hold, on entry, what they held before
    ``func``, and are written as by ``func``; those that it only writes are left untouched.

    Raises:
        KernelGradError: ``func`` has no exact derivative.
    """
    func = derivable(replayed(func), [func.params[i] for i in wrt])
    check_races(func)
    check_conditions(func)
    return Reverse(func, wrt, seeds).run()


def pullback(func: Func) -> Func:
    """Of the parameters of ``func``: the cotangents of its floats, given 1 for every float result.

    Raises:
        KernelGradError: ``func`` has no exact derivative.
    """
    wrt = [i for i, p in enumerate(func.params) if isinstance(p.type, Scalar) and p.type.is_float]
    func = derivable(replayed(func), [func.params[i] for i in wrt])
    check_races(func)
    check_conditions(func)
    return Reverse(func, wrt, ()).pull()


class Reverse:
    """State of one reverse sweep."""

    def __init__(self, func: Func, wrt: Sequence[int], seeds: Sequence[int]) -> None:
        self.func = func
        self.wrt = {func.params[i] for i in wrt}
        self.builder = Builder()
        self.replay = Replay(func, self.builder)
        self.varied = varied(func, self.wrt)
        # Of arrays: the parameter that holds the cotangents. Of stacks: the stack of cotangents.
        self.adjoint: dict[Atom, Var] = {}
        self.stacks: list[Eqn] = []
        seeded = {func.params[i] for i in seeds}
        for param in func.params:
            if param in self.varied and (param in self.wrt | seeded or self.rewritten(param)):
                self.adjoint[param] = _adjoint_param(param)

    def rewritten(self, array: Atom) -> bool:
        """Whether the kernel both writes and loads ``array``."""
        has = self.replay.accesses.has
        return has(array, *WRITES) and has(array, OpKind.LOAD)

    def run(self) -> Derived:
        func = self.func
        root = self.replay.open(func.body, is_root=True)
        cotangents: Cotangents = {}
        with self.builder.into(root.eqns):
            self.region(func.body, cotangents)
            self.builder.loc = func.loc
            for param in func.params:
                if isinstance(param.type, Scalar) and param in self.wrt and param in cotangents:
                    self.builder.emit(ATOMIC_ADD, self.adjoint[param], cotangents[param])
        eqns = (*self.replay.forward(), *self.stacks, *root.eqns)
        adjoints = {p: self.adjoint[p] for p in func.params if p in self.adjoint}
        return make_derived(func, "vjp", adjoints, eqns)

    def pull(self) -> Func:
        """The function from the parameters to their cotangents, where all results have 1."""
        func = self.func
        root = self.replay.open(func.body, is_root=True)
        cotangents: Cotangents = {}
        with self.builder.into(root.eqns):
            for result in func.body.yields:
                if isinstance(result.type, Scalar) and result.type.is_float:
                    self.add(cotangents, result, Const(result.type, 1.0))
            self.region(func.body, cotangents)
        eqns = (*self.replay.forward(), *self.stacks, *root.eqns)
        yields = tuple(self.take(cotangents, p) for p in func.params if p in self.wrt)
        return replace_body(func, Region(func.params, eqns, yields))

    # Cotangents of scalars

    def add(self, cotangents: Cotangents, target: Atom, term: Atom) -> None:
        """Add ``term`` to the cotangent of ``target``, if that varies."""
        if not isinstance(target, Var) or target not in self.varied:
            return
        known = cotangents.get(target)
        cotangents[target] = term if known is None else self.builder.emit(add.op, known, term)

    def take(self, cotangents: Cotangents, atom: Var) -> Atom:
        """Remove and return the cotangent of ``atom``, zero where there is none."""
        assert isinstance(atom.type, Scalar)
        return cotangents.pop(atom, None) or zero(atom.type)

    # Eqns

    def region(self, region: Region, cotangents: Cotangents) -> None:
        """Emit the reverse sweep of ``region``, updating ``cotangents``."""
        for eqn in reversed(region.eqns):
            self.builder.loc = eqn.loc
            self.eqn(eqn, cotangents)

    def eqn(self, eqn: Eqn, cotangents: Cotangents) -> None:
        match eqn.op.kind:
            case OpKind.PURE:
                self.pure(eqn, cotangents)
            case OpKind.CAST:
                source = eqn.inputs[0]
                if eqn.out in cotangents and source in self.varied:
                    cotangent = cotangents.pop(eqn.out)
                    self.add(
                        cotangents, source, self.builder.emit(CAST, cotangent, dtype=source.type)
                    )
            case OpKind.LOAD:
                self.load(eqn, cotangents)
            case OpKind.STORE | OpKind.ATOMIC_ADD:
                self.write(eqn, cotangents)
            case OpKind.PUSH | OpKind.POP:
                self.stack(eqn, cotangents)
            case OpKind.IF:
                reverse_control.branch(self, eqn, cotangents)
            case OpKind.FOR | OpKind.WHILE:
                reverse_control.loop(self, eqn, cotangents)
            case OpKind.NATIVE:
                reverse_snippet.call(self, eqn, cotangents)
            case OpKind.CUSTOM:
                reverse_custom.call(self, eqn, cotangents)
            case OpKind.TID | OpKind.DIM | OpKind.STACK | OpKind.ATOMIC | OpKind.ATOMIC_CAS:
                pass
            case _:
                raise ValueError(f"{eqn.op.name}: no derivative of this kind")

    def pure(self, eqn: Eqn, cotangents: Cotangents) -> None:
        check_derivative_exists(eqn, self.varied)
        cotangent = cotangents.pop(eqn.out, None)
        if cotangent is None or eqn.op.grad is None:
            return
        inputs: dict[str, Atom] = dict(zip(eqn.op.params, eqn.inputs, strict=True))
        for name, formula in eqn.op.grad.items():
            if inputs[name] not in self.varied:
                continue
            used = formula_names(formula)
            env = {n: self.replay.value(a) for n, a in inputs.items() if n in used}
            if "out" in used:
                env["out"] = self.replay.value(eqn.out)
            term = lower_formula(formula, {**env, "ct": cotangent}, self.builder)
            self.add(cotangents, inputs[name], term)

    def indices(self, eqn: Eqn) -> list[Atom]:
        """The indices of an access, in the reverse sweep."""
        array = eqn.inputs[0].type
        assert isinstance(array, ArrayType)
        return [self.replay.value(i) for i in eqn.inputs[1 : 1 + array.ndim]]

    def load(self, eqn: Eqn, cotangents: Cotangents) -> None:
        array = eqn.inputs[0]
        cotangent = cotangents.pop(eqn.out, None)
        adjoint = self.adjoint.get(array)
        if cotangent is None or adjoint is None:
            return
        indices = self.indices(eqn)
        if self.rewritten(array) and array not in self.replay.accesses.native:
            # Owned by this thread (check_races); an atomic next to the plain accesses would do too,
            # but has no derivative of its own.
            known = self.builder.emit(LOAD, adjoint, *indices)
            total = self.builder.emit(add.op, known, cotangent)
            self.builder.emit_effect(STORE, adjoint, *indices, total)
        else:
            self.builder.emit(ATOMIC_ADD, adjoint, *indices, cotangent)

    def write(self, eqn: Eqn, cotangents: Cotangents) -> None:
        array, value = eqn.inputs[0], eqn.inputs[-1]
        adjoint = self.adjoint.get(array)
        if adjoint is None:
            return
        kills = eqn.op.kind is OpKind.STORE and self.must_clear(array)
        if value not in self.varied and not kills:
            return
        indices = self.indices(eqn)
        if value in self.varied:
            self.add(cotangents, value, self.builder.emit(LOAD, adjoint, *indices))
        if kills:
            assert isinstance(value.type, Scalar)
            self.builder.emit_effect(STORE, adjoint, *indices, zero(value.type))

    def must_clear(self, array: Atom) -> bool:
        """Whether a store must leave a zero cotangent, since somebody looks at it again."""
        accesses = self.replay.accesses
        return array in self.wrt or self.rewritten(array) or not accesses.stored_first(array)

    def stack(self, eqn: Eqn, cotangents: Cotangents) -> None:
        stack = eqn.inputs[0]
        if stack not in self.varied:
            return
        assert isinstance(stack, Var)
        assert isinstance(stack.type, StackType)
        if stack not in self.adjoint:
            self.adjoint[stack] = Var(stack.type, f"ct_{stack.name}")
            attrs = {"dtype": stack.type.dtype}
            self.stacks.append(Eqn(STACK, (), (self.adjoint[stack],), attrs, (), eqn.loc))
        if eqn.op.kind is OpKind.POP:
            cotangent = self.take(cotangents, eqn.out)
            self.builder.emit_effect(PUSH, self.adjoint[stack], cotangent)
        else:
            self.add(cotangents, eqn.inputs[1], self.builder.emit(POP, self.adjoint[stack]))


def _adjoint_param(param: Var) -> Var:
    name = f"ct_{param.name}"
    match param.type:
        case ArrayType():
            return Var(param.type, name)
        case Scalar():
            return Var(ArrayType(param.type, 0), name)
        case StackType():
            raise ValueError("stacks are no parameters")
