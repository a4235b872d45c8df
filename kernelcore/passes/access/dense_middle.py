"""The middle of rows, where indices that wrap or stop at an extent are those of neighbours.

``(j + 1) % m``, ``max(j - 1, 0)`` and ``where(j + 1 < m, j + 1, 0)`` are ``j + 1`` and ``j - 1``
but for the first and the last threads of a row. In between, neighbouring threads access adjacent
elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from kernelcore.base.dataclass import dataclass, field, replace
from kernelcore.builtins import arithmetic, logic
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Const, Eqn, Func, Region, Var
from kernelcore.ir.op import CAST, MESSAGES, TID, OpKind
from kernelcore.ir.walk import replace_body, rewrite, walk_eqns
from kernelcore.language.types import Scalar, boolean, int32
from kernelcore.passes.access.index_offsets import MAX_OFFSET
from kernelcore.passes.access.launch_indices import MIRRORED, ORDERS
from kernelcore.passes.simplify.dead_code import dce
from kernelcore.passes.simplify.fold import simplify

# Smaller literals are taken for ends of an axis near 0, others for extents.
LEAST_EXTENT = 64
# Launch indices from here on might wrap when offsets are added.
_END_OF_INDICES = (1 << 31) - 1 - 2 * MAX_OFFSET
# What a comparison gives where its left side is the larger one, or the smaller one.
_IF_ABOVE = {"<": False, "<=": False, ">": True, ">=": True, "==": False, "!=": True}
_IF_BELOW = {"<": True, "<=": True, ">": False, ">=": False, "==": False, "!=": True}
_LIMITS = (arithmetic.max.op, arithmetic.min.op, arithmetic.clamp.op)
# What can be computed before a row, if its operands can.
_EARLY = frozenset({OpKind.PURE, OpKind.CAST, OpKind.DIM, OpKind.TID})
# The code generator has a number or a place for each equation of these kinds.
_NUMBERED = MESSAGES | {OpKind.STACK, OpKind.SNIPPET}


@dataclass(frozen=True, slots=True)
class DenseMiddle:
    """A kernel for the threads in the middle of a row.

    Attributes:
        func: Does what the kernel does in a run of threads along the last axis for whose ends the
            conditions hold.
        first: Code of a thread that yields whether a run may begin with it.
        last: Code of a thread that yields whether a run may end with it.
        reach: How far indices are from a thread's own index at most.
    """

    func: Func
    first: Region
    last: Region
    reach: int


def dense_middle(func: Func) -> DenseMiddle | None:
    """The kernel for the middle of rows; None where all threads have their indices in one way.

    The conditions at both ends of a run hold for all threads between. Let s be the launch index
    plus indices of loops over constants. A remainder or a limit of s is expected to be s plus a
    constant. Where s grows by 1, it grows by at most 1: if it is as expected at both ends, no step
    between was smaller. A comparison of s is expected to give what it gives on one side.
    """
    if not func.grid_rank or any(eqn.op.kind in _NUMBERED for eqn in walk_eqns(func.body)):
        return None
    guess = _Guess(func)
    guess.region(func.body)
    tests = guess.tests()
    if not tests:
        return None
    middle = dce(simplify(replace_body(func, rewrite(func.body, guess.change))))
    first, last = (_condition(guess, tests, at_last=end) for end in (False, True))
    return DenseMiddle(middle, first, last, max(map(guess.reach, guess.forms.values())))


@dataclass(frozen=True, slots=True)
class _Form:
    """The launch index ``base`` plus ``shift``, and plus or minus indices of loops over constants.

    With ``has_more``, plus a value that all threads of a row share.
    """

    base: Var
    shift: int = 0
    loops: tuple[tuple[Var, int], ...] = ()
    has_more: bool = False


@dataclass
class _Guess:
    """What values are in the middle of a row.

    Attributes:
        func: The kernel.
        makers: The equations of values that can be computed before a row.
        uniform: Those of these values that the threads of a row share.
        spans: The least and the greatest index of loops over constants.
        forms: Integers near the launch index.
        limited: The equations that are a remainder or a limit of such an integer.
        compared: Comparisons of such an integer: it, the other side, whether it is taken to be the
            larger one, and what they give then.
        needed: Those on whose results forms depend.
    """

    func: Func
    makers: dict[Atom, Eqn] = field(default_factory=dict[Atom, Eqn])
    uniform: set[Atom] = field(default_factory=set[Atom])
    spans: dict[Atom, tuple[int, int]] = field(default_factory=dict[Atom, tuple[int, int]])
    forms: dict[Atom, _Form] = field(default_factory=dict[Atom, _Form])
    limited: dict[Atom, Eqn] = field(default_factory=dict[Atom, Eqn])
    compared: dict[Atom, tuple[Atom, Atom, bool, bool]] = field(
        default_factory=dict[Atom, tuple[Atom, Atom, bool, bool]]
    )
    needed: set[Atom] = field(default_factory=set[Atom])

    def __post_init__(self) -> None:
        self.uniform.update(p for p in self.func.params if isinstance(p.type, Scalar))

    def tests(self) -> list[Atom]:
        """The values that are to be as expected at the ends of a run."""
        return [*self.limited, *(a for a in self.compared if a in self.needed)]

    def reach(self, form: _Form) -> int:
        """How far ``form`` is from the launch index at most."""
        return abs(form.shift) + sum(max(map(abs, self.spans[k])) for k, _ in form.loops)

    def region(self, region: Region) -> None:
        """Look at the equations of ``region`` in order."""
        for eqn in region.eqns:
            if eqn.op.kind is OpKind.FOR:
                self.loop(eqn)
            for inner in eqn.regions:
                self.region(inner)
            if eqn.op.kind is OpKind.IF:
                arms = (region.yields for region in eqn.regions)
                for out, *given in zip(eqn.outputs, *arms, strict=True):
                    self.choose(out, eqn.inputs[0], given)
            elif eqn.op.kind in _EARLY:
                self.early(eqn)

    def loop(self, eqn: Eqn) -> None:
        bounds = [int(a.value) for a in eqn.inputs[:3] if isinstance(a, Const)]
        turns = range(*bounds) if len(bounds) == 3 and bounds[2] else range(0)
        if turns and max(abs(turns[0]), abs(turns[-1])) <= MAX_OFFSET:
            low, high = sorted((turns[0], turns[-1]))
            self.spans[eqn.regions[0].params[0]] = low, high

    def early(self, eqn: Eqn) -> None:
        op, out = eqn.op, eqn.out
        scalars = [a for a in eqn.inputs if isinstance(a.type, Scalar)]
        is_last = op.kind is OpKind.TID and eqn.attrs["axis"] == self.func.rank - 1
        if is_last:
            self.forms[out] = _Form(out)
        elif all(map(self.is_uniform, scalars)):
            self.makers[out] = eqn
            self.uniform.add(out)
        elif op is logic.where.op:
            self.choose(out, scalars[0], scalars[1:])
        elif op in ORDERS:
            self.compare(eqn)
        elif _is_index(out):
            self.index(eqn)

    def choose(self, out: Atom, condition: Atom, given: list[Atom]) -> None:
        """Let ``out`` be what ``given`` has for the expected truth value of ``condition``."""
        if condition in self.compared:
            form = self.forms.get(given[0 if self.compared[condition][-1] else 1])
            if form is not None and not form.has_more:
                self.needed.add(condition)
                self.forms[out] = form

    def compare(self, eqn: Eqn) -> None:
        left, right = eqn.inputs
        order = ORDERS[eqn.op]
        if left not in self.forms:
            left, right, order = right, left, MIRRORED[order]
        form = self.forms.get(left)
        if form is not None and not form.has_more and self.is_uniform(right):
            is_above = not self.is_extent(right)
            expected = (_IF_ABOVE if is_above else _IF_BELOW)[order]
            self.compared[eqn.out] = (left, right, is_above, expected)

    def index(self, eqn: Eqn) -> None:
        """Find the form of an integer that is no choice."""
        op, (first, *others) = eqn.op, eqn.inputs
        form = None
        if op.kind is OpKind.CAST:
            form = self.forms.get(first) if _is_index(first) else None
        elif op is arithmetic.add.op or op is arithmetic.sub.op:
            form = self.moved(first, others[0], -1 if op is arithmetic.sub.op else 1)
        elif op is arithmetic.mod.op and first in self.forms and self.is_extent(others[0]):
            form = replace(self.forms[first], has_more=False)
            self.limited[eqn.out] = eqn
        elif op in _LIMITS:
            near = [a for a in eqn.inputs if a in self.forms]
            bounds = [a for a in eqn.inputs if self.is_uniform(a)]
            is_at_end = op is arithmetic.min.op and not any(map(self.is_extent, bounds))
            if len(near) == 1 and len(near) + len(bounds) == len(eqn.inputs) and not is_at_end:
                form = self.forms[near[0]]
                if form.has_more:
                    return
                self.limited[eqn.out] = eqn
        if form is not None:
            self.makers[eqn.out] = eqn
            self.forms[eqn.out] = form

    def moved(self, first: Atom, second: Atom, sign: int) -> _Form | None:
        """``first`` plus ``sign`` times ``second``, if it is near the launch index."""
        if sign == 1 and first not in self.forms:
            first, second = second, first
        form = self.forms.get(first)
        if form is None:
            return None
        if isinstance(second, Const):
            shift = form.shift + sign * int(second.value)
            return replace(form, shift=shift) if abs(shift) <= MAX_OFFSET else None
        if second in self.spans:
            return replace(form, loops=(*form.loops, (second, sign)))
        return replace(form, has_more=True) if self.is_uniform(second) else None

    def is_uniform(self, atom: Atom) -> bool:
        """Whether the threads of a row share ``atom``, which can be computed before the row."""
        return isinstance(atom, Const) or atom in self.uniform

    def is_extent(self, atom: Atom) -> bool:
        """Whether ``atom``, which the threads of a row share, is taken for an extent."""
        return atom.value >= LEAST_EXTENT if isinstance(atom, Const) else self.is_uniform(atom)

    def change(self, eqn: Eqn) -> Eqn | Region:
        """What stands in the place of ``eqn`` in the middle."""
        if len(eqn.outputs) != 1 or eqn.regions:
            return eqn
        if eqn.out in self.needed:
            return Region((), (), (Const(boolean, self.compared[eqn.out][-1]),))
        form = self.forms.get(eqn.out)
        if form is None or form.has_more or eqn.op.kind is OpKind.TID:
            return eqn
        inner = Builder()
        inner.loc = eqn.loc
        found = _emit(inner, form, {}, eqn.out)
        return Region((), tuple(inner.eqns), (found,))


def _is_index(atom: Atom) -> bool:
    of = atom.type
    return isinstance(of, Scalar) and of.kind == "int" and of.bits >= int32.bits


def _emit(inner: Builder, form: _Form, ends: Mapping[Atom, Atom], like: Atom) -> Atom:
    """The value of ``form``, with ``ends`` in the place of Vars, of the type of ``like``."""
    found: Atom = form.base
    for loop, sign in form.loops:
        by = ends.get(loop, loop)
        if by.type != int32:
            by = inner.emit(CAST, by, dtype=int32)
        found = inner.emit((arithmetic.add if sign > 0 else arithmetic.sub).op, found, by)
    if form.shift:
        found = inner.emit(arithmetic.add.op, found, Const(int32, form.shift))
    return found if like.type == int32 else inner.emit(CAST, found, dtype=like.type)


def _condition(guess: _Guess, tests: list[Atom], *, at_last: bool) -> Region:
    """Code of a thread that yields whether ``tests`` are as expected for it.

    Loops are in the iteration that is nearest to that end of a run.
    """
    inner = Builder()
    index = inner.emit(TID, axis=guess.func.rank - 1)
    found: list[Atom] = [inner.emit(logic.less.op, index, Const(int32, _END_OF_INDICES))]
    for value in tests:
        near = guess.compared[value][0] if value in guess.compared else value
        ends: dict[Atom, Atom] = {}
        for loop, sign in guess.forms[near].loops:
            assert isinstance(loop.type, Scalar)
            ends[loop] = Const(loop.type, guess.spans[loop][int(at_last == (sign > 0))])
        thread = _Thread(guess, inner, index, ends)
        if value in guess.limited:
            made = (thread.computed(guess.limited[value]), thread.value(value))
            found.append(inner.emit(logic.equal.op, *made))
        else:
            left, right, is_above, _ = guess.compared[value]
            order = (logic.greater if is_above else logic.less).op
            found.append(inner.emit(order, thread.value(left), thread.value(right)))
    whole = reduce(lambda x, y: inner.emit(logic.logical_and.op, x, y), found)
    return Region((), tuple(inner.eqns), (whole,))


@dataclass(frozen=True, slots=True)
class _Thread:
    """Makes values of the thread ``index``, with ``ends`` for indices of loops."""

    guess: _Guess
    inner: Builder
    index: Var
    ends: Mapping[Atom, Atom]

    def value(self, atom: Atom) -> Atom:
        """``atom``, where what is guessed of other values holds."""
        form = self.guess.forms.get(atom)
        if form is not None and not form.has_more:
            return _emit(self.inner, replace(form, base=self.index), self.ends, atom)
        if atom in self.guess.makers:
            return self.computed(self.guess.makers[atom])
        return self.ends.get(atom, atom)

    def computed(self, eqn: Eqn) -> Atom:
        """What ``eqn`` gives."""
        return self.inner.emit(eqn.op, *map(self.value, eqn.inputs), **eqn.attrs)
