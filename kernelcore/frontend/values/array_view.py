"""Array elements and views: what indices and slices select of an array."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from kernelcore.base.dataclass import dataclass, replace
from kernelcore.base.errors import KernelTypeError, SrcLoc
from kernelcore.builtins import BUILTINS
from kernelcore.builtins.syntax import BINARY
from kernelcore.frontend.scope import FALSE, Scope
from kernelcore.frontend.values.array_choice import of_option, per_option
from kernelcore.frontend.values.literal_types import const
from kernelcore.frontend.values.packed_array import array_of, element_value
from kernelcore.frontend.values.value import ArrayChoice, ArrayValue, ArrayView, Axis, Value
from kernelcore.ir.builder import zero
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import ASSERT, DIM, LOAD, Op
from kernelcore.language.types import ArrayType, Element, Scalar, has_layout, int32, int64

_ADD, _MUL = BINARY[ast.Add].op, BINARY[ast.Mult].op
_CLAMP, _LEN = BUILTINS["clamp"].op, BUILTINS["range_len"].op
_WHERE, _LESS, _EQUAL = (BUILTINS[name].op for name in ("where", "less", "equal"))


_NO_ARRAY = "an element of an array field that no array was assigned to"


@dataclass(frozen=True, slots=True)
class ArraySlice:
    """A slice of an array; a step that is known is not zero."""

    lower: Atom | None
    upper: Atom | None
    step: int | Atom


@dataclass(frozen=True, slots=True)
class ElementSlot:
    """One scalar of an element: the array of the IR that holds it, and its indices there."""

    array: Var
    outer: tuple[Atom, ...]
    components: tuple[Atom, ...]

    @property
    def arrays(self) -> tuple[Var, ...]:
        """The array that holds it."""
        return (self.array,)

    @property
    def operands(self) -> tuple[Atom, ...]:
        """The leading operands of LOAD, STORE and atomics."""
        return (self.array, *self.outer, *self.components)

    @property
    def dtype(self) -> Scalar:
        """The type of the scalar."""
        assert isinstance(self.array.type, ArrayType)
        return self.array.type.dtype

    def at(self, components: tuple[Atom, ...]) -> ElementSlot:
        """The scalar of other components."""
        return replace(self, components=components)


@dataclass(frozen=True, slots=True)
class ChosenSlot:
    """One scalar of an element of one of several arrays; None stands for a null array."""

    number: Atom
    options: tuple[ElementSlot | None, ...]

    @property
    def first(self) -> ElementSlot:
        """The scalar in the first array."""
        return next(o for o in self.options if o is not None)

    @property
    def arrays(self) -> tuple[Var, ...]:
        """The arrays that may hold it."""
        return tuple(o.array for o in self.options if o is not None)

    @property
    def components(self) -> tuple[Atom, ...]:
        """The components, which are those in any of the arrays."""
        return self.first.components

    @property
    def dtype(self) -> Scalar:
        """The type of the scalar."""
        return self.first.dtype

    def at(self, components: tuple[Atom, ...]) -> ChosenSlot:
        """The scalar of other components."""
        return ChosenSlot(self.number, tuple(o and o.at(components) for o in self.options))


Slot = ElementSlot | ChosenSlot


def extent(scope: Scope, view: ArrayValue, dim: int, loc: SrcLoc | None) -> Atom:
    """The extent of dimension ``dim`` of ``view``.

    Raises:
        KernelTypeError: It has no such dimension.
    """
    if not 0 <= dim < len(view.free):
        raise KernelTypeError(
            f"'{view.name}' has {len(view.free)} dimensions, found axis {dim}",
            loc,
            "axes count from 0",
        )
    if isinstance(view, ArrayChoice):
        return _chosen_extent(scope, view, dim, loc)
    position = view.free[dim]
    axis = view.axes[position]
    assert isinstance(axis, Axis)
    if isinstance(axis.extent, Var | Const):
        return axis.extent
    if isinstance(axis.table, Var):
        return scope.builder.emit(DIM, axis.table, axis=0)
    return scope.builder.emit(DIM, array_of(scope, view.arrays[0]), axis=position)


def _chosen_extent(scope: Scope, choice: ArrayChoice, dim: int, loc: SrcLoc | None) -> Atom:
    """The extent of one of several arrays; 0 of a null array."""
    found = [
        extent(scope, o, dim, loc) if isinstance(o, ArrayView) else const(int32, 0, None)
        for o in choice.options
    ]
    *front, chosen = _alike(scope, *found)
    assert isinstance(choice.number, Var | Const)
    for k in range(len(front) - 1, -1, -1):
        is_chosen = scope.builder.emit(_EQUAL, choice.number, const(int32, k, None))
        chosen = scope.builder.emit(_WHERE, is_chosen, front[k], chosen)
    return chosen


def slots(scope: Scope, view: ArrayValue, indices: Sequence[Atom]) -> Sequence[Slot]:
    """Where the scalars of one element lie; one index per dimension of the view."""
    if isinstance(view, ArrayChoice):
        assert isinstance(view.number, Var | Const)
        number = view.number
        found = [_slots(scope, o, indices) for o in view.options if isinstance(o, ArrayView)]
        rows = iter(found)
        none: list[ElementSlot | None] = [None] * len(found[0])
        all_ = [next(rows) if isinstance(o, ArrayView) else none for o in view.options]
        return [ChosenSlot(number, options) for options in zip(*all_, strict=True)]
    return _slots(scope, view, indices)


def _slots(scope: Scope, view: ArrayView, indices: Sequence[Atom]) -> list[ElementSlot]:
    outer = tuple(_base_indices(scope, view, indices))
    found: list[ElementSlot] = []
    for part in view.arrays:
        array = array_of(scope, part)
        assert isinstance(array.type, ArrayType)
        positions = itertools.product(*(range(n) for n in array.type.components))
        found.extend(
            ElementSlot(array, outer, tuple(Const(int32, k) for k in position))
            for position in positions
        )
    return found


def at_slots(
    scope: Scope, positions: Sequence[Slot], emit: Callable[[Sequence[ElementSlot]], Sequence[Var]]
) -> Sequence[Var]:
    """What ``emit`` gives at ``positions``: nothing, or a scalar of the type of each.

    Of several arrays it runs for the one that is chosen. A null array has no elements: the launch
    fails.
    """
    plain = [p for p in positions if isinstance(p, ElementSlot)]
    if len(plain) == len(positions):
        return emit(plain)
    chosen = [p for p in positions if isinstance(p, ChosenSlot)]
    rows = zip(*(c.options for c in chosen), strict=True)
    options = [[s for s in row if s is not None] for row in rows]
    is_read = False

    def lower(row: Sequence[ElementSlot]) -> Sequence[Atom]:
        nonlocal is_read
        if row:
            found = emit(row)
            is_read = is_read or bool(found)
            return found
        scope.builder.emit_effect(ASSERT, FALSE, text=_NO_ARRAY)
        return [zero(c.dtype) for c in chosen] if is_read else []

    # A null array comes last, when it is known whether there are results.
    order = sorted(range(len(options)), key=lambda k: not options[k])
    return per_option(scope, chosen[0].number, [(k, partial(lower, options[k])) for k in order])


def load(scope: Scope, view: ArrayValue, indices: Sequence[Atom]) -> Value:
    """The value of one element."""
    return element_value(view.element, load_slots(scope, slots(scope, view, indices)))


def load_slots(scope: Scope, positions: Sequence[Slot]) -> Iterator[Var]:
    """The scalars at ``positions``, all of which are loaded at once."""
    emit = scope.builder.emit
    return iter(at_slots(scope, positions, lambda row: [emit(LOAD, *s.operands) for s in row]))


def require_layout(type_: Element, loc: SrcLoc | None) -> None:
    """Refuse to write a whole element that holds arrays: kernels do not move arrays.

    Raises:
        KernelTypeError: A field of ``type_`` is an array.
    """
    if not has_layout(type_):
        raise KernelTypeError(
            f"a kernel cannot write a whole {type_}, which holds arrays",
            loc,
            "assign to its other fields and to the elements of its arrays, one by one",
        )


def choose_slots(scope: Scope, index: Atom, options: list[list[Slot]]) -> list[Slot]:
    """The slots of option number ``index``, which is known at run time only."""
    if len(options) == 1:
        return options[0]
    found: list[Slot] = []
    for first, second in zip(*options[:2], strict=True):
        pairs = zip(first.components, second.components, strict=True)
        position = next(k for k, (a, b) in enumerate(pairs) if _differ(a, b))
        start, following = first.components[position], second.components[position]
        assert isinstance(start, Const)
        assert isinstance(following, Const)
        step = int(following.value) - int(start.value)
        at, start = _alike(scope, index, start)
        if step != 1:
            dtype = int64 if at.type == int64 else int32
            at = _arithmetic(scope, _MUL, at, const(dtype, step, None))
        if not (isinstance(start, Const) and start.value == 0):
            at = _arithmetic(scope, _ADD, at, start)
        parts = (*first.components[:position], at, *first.components[position + 1 :])
        found.append(first.at(parts))
    return found


def _differ(one: Atom, other: Atom) -> bool:
    """Whether both are known and differ; unknown atoms are the same for all options."""
    return isinstance(one, Const) and isinstance(other, Const) and one != other


def _base_indices(scope: Scope, view: ArrayView, indices: Sequence[Atom]) -> Iterator[Atom]:
    """Indices of the arrays that hold the view."""
    remaining = enumerate(indices)
    for axis in view.axes:
        if isinstance(axis, Axis):
            yield _looked_up(scope, axis, _from_start(scope, view, *next(remaining)))
        else:
            assert isinstance(axis, Var | Const)
            yield axis


def _from_start(scope: Scope, view: ArrayView, dim: int, index: Atom) -> Atom:
    """``index`` of dimension ``dim``, of which a dialect may count known ones from the end."""
    if not (isinstance(index, Const) and index.value < 0 and scope.counts_back):
        return index
    return _arithmetic(scope, _ADD, *_alike(scope, extent(scope, view, dim, None), index))


def _looked_up(scope: Scope, axis: Axis, index: Atom) -> Atom:
    if isinstance(axis.start, Var | Const) and isinstance(axis.step, Var | Const):
        start, step, index = _alike(scope, axis.start, axis.step, index)
        if not (isinstance(step, Const) and step.value == 1):
            index = _arithmetic(scope, _MUL, index, step)
        if not (isinstance(start, Const) and start.value == 0):
            index = _arithmetic(scope, _ADD, start, index)
    return scope.builder.emit(LOAD, axis.table, index) if isinstance(axis.table, Var) else index


def _arithmetic(scope: Scope, op: Op, left: Atom, right: Atom) -> Atom:
    if isinstance(left, Const) and isinstance(right, Const):
        assert op.ref is not None
        return const(left.type, int(op.ref(int(left.value), int(right.value))), None)
    return scope.builder.emit(op, left, right)


def _alike(scope: Scope, *indices: Atom) -> list[Atom]:
    """``indices`` in one type: int64 if any of them is."""
    is_wide = any(i.type == int64 and isinstance(i, Var) for i in indices)
    dtype = int64 if is_wide else int32
    return [scope.integer(i, dtype) for i in indices]


def select(
    scope: Scope, view: ArrayValue, indices: Sequence[Atom | ArraySlice], loc: SrcLoc | None
) -> Value:
    """The element that ``indices`` select, or a view of the remaining dimensions.

    Raises:
        KernelTypeError: More indices than the array has dimensions.
    """
    if len(indices) > len(view.free):
        raise too_many_indices(view, len(indices), loc)
    if len(indices) == len(view.free) and not any(isinstance(i, ArraySlice) for i in indices):
        return load(scope, view, [i for i in indices if not isinstance(i, ArraySlice)])
    if isinstance(view, ArrayChoice):
        ndim = len(view.free) - sum(not isinstance(i, ArraySlice) for i in indices)
        return of_option(scope, view, lambda option: _part(scope, option, indices, loc), ndim)
    return _part(scope, view, indices, loc)


def _part(
    scope: Scope, view: ArrayView, indices: Sequence[Atom | ArraySlice], loc: SrcLoc | None
) -> ArrayView:
    """The view of what ``indices`` leave of the dimensions."""
    axes = list(view.axes)
    for dim, index in enumerate(indices):
        position = view.free[dim]
        axis = axes[position]
        assert isinstance(axis, Axis)
        if isinstance(index, ArraySlice):
            axes[position] = _sliced(scope, axis, index, extent(scope, view, dim, loc))
        else:
            axes[position] = _looked_up(scope, axis, _from_start(scope, view, dim, index))
    return ArrayView(view.element, view.arrays, tuple(axes))


def too_many_indices(view: ArrayValue, found: int, loc: SrcLoc | None) -> KernelTypeError:
    """The error for too many indices."""
    ndim = len(view.free)
    sample = ", ".join("ijkl"[:ndim])
    dims = "1 dimension" if ndim == 1 else f"{ndim} dimensions"
    inner = "" if isinstance(view.element, Scalar) else "[k]"
    is_whole = isinstance(view, ArrayChoice) or len(view.free) == len(view.axes)
    return KernelTypeError(
        f"{'' if is_whole else 'this part of '}'{view.name}' has {dims}, found {found} indices",
        loc,
        f"index every dimension: {view.name if is_whole else 'part'}[{sample}]{inner}",
    )


def _sliced(scope: Scope, axis: Axis, bounds: ArraySlice, size: Atom) -> Axis:
    """``axis`` under a slice, with the meaning that slices have in Python."""
    nothing, before = const(int32, 0, None), const(int32, -1, None)
    if isinstance(bounds.step, int):
        step = const(int32, bounds.step, None)
        is_up = bounds.step > 0
        low = nothing if is_up else before
        last = size if is_up else _arithmetic(scope, _ADD, size, before)
        defaults = (nothing, size) if is_up else (last, before)
    else:
        # A step of 0 selects nothing.
        step = bounds.step
        up = scope.builder.emit(_LESS, before, step)
        low = scope.builder.emit(_WHERE, up, nothing, before)
        last = scope.builder.emit(_WHERE, up, size, _arithmetic(scope, _ADD, size, before))
        defaults = (
            scope.builder.emit(_WHERE, up, nothing, last),
            scope.builder.emit(_WHERE, up, size, before),
        )
    ends: list[Atom] = []
    for given, default in zip((bounds.lower, bounds.upper), defaults, strict=True):
        if given is None:
            ends.append(default)
            continue
        end = scope.integer(given, int32)
        if not (isinstance(end, Const) and end.value >= 0):
            negative = scope.builder.emit(_LESS, end, const(int32, 0, None))
            wrapped = scope.builder.emit(_ADD, end, size)
            end = scope.builder.emit(_WHERE, negative, wrapped, end)
        ends.append(scope.builder.emit(_CLAMP, end, low, last))
    start, stop = ends
    is_plain = start == nothing and step == const(int32, 1, None)
    count = stop if is_plain else scope.builder.emit(_LEN, start, stop, step)
    if isinstance(axis.start, Var | Const) and isinstance(axis.step, Var | Const):
        start = _arithmetic(scope, _ADD, axis.start, _arithmetic(scope, _MUL, start, axis.step))
        step = _arithmetic(scope, _MUL, step, axis.step)
    return Axis(start, step, count, axis.table)
