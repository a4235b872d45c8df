"""The state of reverse mode, and the reverse sweep over plain operations, memory and stacks.

One thread of the adjoint runs the primal again, recording what it must
(``primal_recomputation.py``), then walks its Eqns backwards. Memory follows three rules: a load
adds to the cotangent of its element; a store takes that cotangent and leaves zero, since the value
before is dead; an accumulation takes it and leaves it. ``vjp.py`` holds the table of handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from kernelcore.base.lazy import Deferred
from kernelcore.builtins.arithmetic import add
from kernelcore.ir.builder import Builder, zero
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import ATOMIC_ADD, LOAD, POP, PUSH, STACK, STORE, WRITES, OpKind
from kernelcore.ir.walk import replace_body
from kernelcore.language.types import ArrayType, Scalar, StackType, as_array
from kernelcore.passes.autodiff.activity import active_values, check_derivative_exists
from kernelcore.passes.autodiff.derived import Derived, make_derived
from kernelcore.passes.autodiff.primal_recomputation import PrimalValues

# Only kernels that have no derivative in the disk cache need the compiler's front end.
if TYPE_CHECKING:
    from kernelcore.frontend import formula
else:
    formula = Deferred("kernelcore.frontend.formula")

# Longest chain of additions of one cotangent.
MOST_TERMS = 8


class Cotangents:
    """The cotangents of values: sums of terms, of which a reverse sweep finds one after the other.

    A sum of many terms is one of shorter sums, which do not wait for each other.
    """

    def __init__(self, builder: Builder, known: Mapping[Var, Atom] = MappingProxyType({})) -> None:
        self._builder = builder
        # Per value sums, with how many terms each has.
        self._sums = {var: [(atom, 1)] for var, atom in known.items()}

    def __contains__(self, value: Atom) -> bool:
        return value in self._sums

    def __iter__(self) -> Iterator[Var]:
        return iter(self._sums)

    def add(self, value: Var, term: Atom) -> None:
        """Add ``term`` to the cotangent of ``value``."""
        sums = self._sums.setdefault(value, [])
        if not sums or sums[-1][1] == MOST_TERMS:
            sums.append((term, 1))
            return
        total, count = sums.pop()
        sums.append((self._builder.emit(add.op, total, term), count + 1))

    def pop(self, value: Var) -> Atom | None:
        """Remove and return the cotangent of ``value``, if it has one."""
        sums = self._sums.pop(value, None)
        if sums is None:
            return None
        (total, _), *rest = sums
        for part, _ in rest:
            total = self._builder.emit(add.op, total, part)
        return total


Handler: TypeAlias = "Callable[[Reverse, Eqn, Cotangents], None]"


class Reverse:
    """State of one reverse sweep.

    Attributes:
        active: The values that have cotangents.
        primal: The values of the primal, where the sweep needs them.
        adjoint: Of an array, the parameter that holds its cotangents; of a stack, the stack of its
            cotangents.
    """

    def __init__(
        self,
        func: Func,
        wrt: Sequence[int],
        seeds: Sequence[int],
        handlers: Mapping[OpKind, Handler],
        saved: Collection[int] = (),
    ) -> None:
        self.func = func
        self.wrt = {func.params[i] for i in wrt}
        self.handlers = handlers
        self.builder = Builder()
        self.primal = PrimalValues(func, self.builder, {func.params[i] for i in saved})
        self.active = active_values(func, self.wrt)
        self.adjoint: dict[Atom, Var] = {}
        self._stacks: list[Eqn] = []
        self._cleared: dict[Atom, bool] = {}
        seeded = {func.params[i] for i in seeds}
        for param in func.params:
            if param in self.active and (param in self.wrt | seeded or self.rewritten(param)):
                assert not isinstance(param.type, StackType)
                self.adjoint[param] = Var(as_array(param.type), f"ct_{param.name}")

    def rewritten(self, array: Atom) -> bool:
        """Whether the kernel both writes and loads ``array``."""
        has = self.primal.accesses.has
        return has(array, *WRITES) and has(array, OpKind.LOAD)

    def run(self) -> Derived:
        """The derived kernel."""
        func = self.func
        eqns, cotangents = self._sweep({})
        with self.builder.into(eqns):
            self.builder.loc = func.loc
            for param in func.params:
                if isinstance(param.type, Scalar) and param in self.wrt and param in cotangents:
                    cotangent = self.take(cotangents, param)
                    self.builder.emit(ATOMIC_ADD, self.adjoint[param], cotangent)
        adjoints = {p: self.adjoint[p] for p in func.params if p in self.adjoint}
        return make_derived(func, "vjp", adjoints, eqns)

    def pull(self) -> Func:
        """The function from the parameters to their cotangents, where all results have 1."""
        func = self.func
        results = func.body.yields
        seeds = {
            a: Const(a.type, 1.0) for a in results if isinstance(a.type, Scalar) and a.type.is_float
        }
        eqns, cotangents = self._sweep(seeds)
        yields = tuple(self.take(cotangents, p) for p in func.params if p in self.wrt)
        return replace_body(func, Region(func.params, tuple(eqns), yields))

    def _sweep(self, seeds: Mapping[Atom, Atom]) -> tuple[list[Eqn], Cotangents]:
        """The primal and the reverse sweep, which starts with the cotangents ``seeds``."""
        root = self.primal.open(self.func.body, is_root=True)
        cotangents = Cotangents(self.builder)
        with self.builder.into(root.eqns):
            for result, cotangent in seeds.items():
                self.add(cotangents, result, cotangent)
            self.region(self.func.body, cotangents)
        return [*self.primal.forward(), *self._stacks, *root.eqns], cotangents

    def add(self, cotangents: Cotangents, target: Atom, term: Atom) -> None:
        """Add ``term`` to the cotangent of ``target``, if that is active."""
        if not isinstance(target, Var) or target not in self.active:
            return
        cotangents.add(target, term)

    def take(self, cotangents: Cotangents, atom: Var) -> Atom:
        """Remove and return the cotangent of ``atom``, zero where there is none."""
        assert isinstance(atom.type, Scalar)
        return cotangents.pop(atom) or zero(atom.type)

    def region(self, region: Region, cotangents: Cotangents) -> None:
        """Emit the reverse sweep of ``region``, updating ``cotangents``."""
        for eqn in reversed(region.eqns):
            self.builder.loc = eqn.loc
            self.handlers[eqn.op.kind](self, eqn, cotangents)

    def nothing(self, eqn: Eqn, cotangents: Cotangents) -> None:
        """Operations without cotangents emit nothing."""

    def cast(self, eqn: Eqn, cotangents: Cotangents) -> None:
        """The cotangent, cast back."""
        source = eqn.inputs[0]
        cotangent = cotangents.pop(eqn.out)
        if cotangent is not None and source in self.active:
            term = self.builder.emit(eqn.op, cotangent, dtype=source.type)
            self.add(cotangents, source, term)

    def pure(self, eqn: Eqn, cotangents: Cotangents) -> None:
        """The op's formula for each argument that has a cotangent."""
        check_derivative_exists(eqn, self.active)
        cotangent = cotangents.pop(eqn.out)
        if cotangent is None or eqn.op.grad is None:
            return
        inputs: dict[str, Atom] = dict(zip(eqn.op.params, eqn.inputs, strict=True))
        for name, text in eqn.op.grad.items():
            if inputs[name] not in self.active:
                continue
            used = formula.formula_names(text)
            env = {n: self.primal.value(a) for n, a in inputs.items() if n in used}
            if "out" in used:
                env["out"] = self.primal.value(eqn.out)
            term = formula.lower_formula(text, {**env, "ct": cotangent}, self.builder)
            self.add(cotangents, inputs[name], term)

    def indices(self, eqn: Eqn) -> list[Atom]:
        """The indices of an access, in the reverse sweep."""
        array = eqn.inputs[0].type
        assert isinstance(array, ArrayType)
        return [self.primal.value(i) for i in eqn.inputs[1 : 1 + array.ndim]]

    def load(self, eqn: Eqn, cotangents: Cotangents) -> None:
        """Add to the cotangent of the element."""
        array = eqn.inputs[0]
        cotangent = cotangents.pop(eqn.out)
        adjoint = self.adjoint.get(array)
        if cotangent is None or adjoint is None:
            return
        indices = self.indices(eqn)
        if self.rewritten(array) and array not in self.primal.accesses.snippets:
            # Owned by this thread (check_races). An atomic would be correct, but mixed with plain
            # accesses it has no derivative of its own.
            known = self.builder.emit(LOAD, adjoint, *indices)
            total = self.builder.emit(add.op, known, cotangent)
            self.builder.emit_effect(STORE, adjoint, *indices, total)
        else:
            self.builder.emit(ATOMIC_ADD, adjoint, *indices, cotangent)

    def write(self, eqn: Eqn, cotangents: Cotangents) -> None:
        """Take the cotangent of the element; a store leaves zero, an accumulation leaves it."""
        array, value = eqn.inputs[0], eqn.inputs[-1]
        adjoint = self.adjoint.get(array)
        if adjoint is None:
            return
        kills = eqn.op.kind is OpKind.STORE and self.must_clear(array)
        if value not in self.active and not kills:
            return
        indices = self.indices(eqn)
        if value in self.active:
            self.add(cotangents, value, self.builder.emit(LOAD, adjoint, *indices))
        if kills:
            assert isinstance(value.type, Scalar)
            self.builder.emit_effect(STORE, adjoint, *indices, zero(value.type))

    def must_clear(self, array: Atom) -> bool:
        """Whether a store must leave a zero cotangent, because it is read again."""
        if array not in self._cleared:
            is_read = array in self.wrt or self.rewritten(array)
            self._cleared[array] = is_read or not self.primal.accesses.stored_first(array)
        return self._cleared[array]

    def stack(self, eqn: Eqn, cotangents: Cotangents) -> None:
        """Pop the cotangent of what was pushed, push that of what was popped."""
        stack = eqn.inputs[0]
        if stack not in self.active:
            return
        assert isinstance(stack, Var)
        assert isinstance(stack.type, StackType)
        if stack not in self.adjoint:
            self.adjoint[stack] = Var(stack.type, f"ct_{stack.name}")
            attrs = {"dtype": stack.type.dtype}
            self._stacks.append(Eqn(STACK, (), (self.adjoint[stack],), attrs, (), eqn.loc))
        if eqn.op.kind is OpKind.POP:
            cotangent = self.take(cotangents, eqn.out)
            self.builder.emit_effect(PUSH, self.adjoint[stack], cotangent)
        else:
            self.add(cotangents, eqn.inputs[1], self.builder.emit(POP, self.adjoint[stack]))
