"""Derivatives of kernels with atomics and messages; what access analysis knows of components."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

import kernelcore as kc
from kernelcore.base.errors import KernelArgumentError, KernelGradError, SrcLoc
from kernelcore.builtins import OPS
from kernelcore.ir import op as ops
from kernelcore.ir.builder import Builder
from kernelcore.ir.core import Atom, Func, Var
from kernelcore.ir.op import MESSAGES
from kernelcore.ir.verify import verify
from kernelcore.ir.walk import walk_eqns
from kernelcore.language.effect import Effect
from kernelcore.language.types import ArrayType, Scalar, boolean, float64, int32
from kernelcore.operators import derive
from kernelcore.operators.operation import Extent, Operation
from kernelcore.operators.primal import primal_operation
from kernelcore.passes.access.effects import AccessMap, effects
from kernelcore.passes.autodiff.jvp import jvp
from kernelcore.passes.autodiff.vjp import vjp
from kernelcore.passes.pipeline import normalize
from kernelcore.passes.vmap import batch
from tests.codegen.llvm.test_effects import kernel_of
from tests.helpers.kernel_harness import call, const, make, region
from tests.helpers.operations import run_operation
from torch_ext import torch_op

FLOATS, COUNTS = ArrayType(float64, 1), ArrayType(int32, 1)
ZERO, ONE = const(int32, 0), const(int32, 1)
X = np.array([0.5, -2.0, 3.0, 1.5])
HERE = SrcLoc(__file__, 1, 0, 3)
MAXIMUM = OPS["max"]

Write = Callable[[Builder, Var, Var, Var, Var], None]


def squaring(count: Write) -> Func:
    """``y[i] = x[i] ** 2``, with what ``count(builder, counters, y, i, x[i])`` adds behind it."""

    def write(b: Builder, x: Var, counters: Var, y: Var) -> None:
        i = b.emit(ops.TID, axis=0)
        value = b.emit(ops.LOAD, x, i)
        b.emit_effect(ops.STORE, y, i, call(b, "mul", value, value))
        b.loc = HERE
        count(b, counters, y, i, value)

    return make("squaring", [FLOATS, COUNTS, FLOATS], write, 1)


def operation(func: Func) -> Operation:
    shapes = {"p2": (Extent.of(0, 0),)}
    return primal_operation(normalize(func), ["p2"], ["p1"], (Extent.of(0, 0),), shapes)


def _add_and_max(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del y, value
    b.emit(ops.ATOMIC_ADD, counters, ZERO, ONE)
    b.emit(ops.ATOMIC, counters, ONE, i, update=MAXIMUM)


def _list(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del y, value
    slot = b.emit(ops.ATOMIC_ADD, counters, ZERO, ONE)
    b.emit_effect(ops.STORE, counters, call(b, "add", slot, ONE), i)


def _swap(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del y, value
    b.emit(ops.ATOMIC_CAS, counters, ZERO, ZERO, i)


def _tell(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del y
    b.emit_effect(ops.PRINT, value, pieces=("", "\n"))
    many = call(b, "less", b.emit(ops.LOAD, counters, ZERO), i)
    b.emit_effect(ops.ASSERT, call(b, "logical_not", many), text="enough")


HARMLESS: dict[str, tuple[Write, bool]] = {
    "counters": (_add_and_max, True),
    "list": (_list, False),
    "swap": (_swap, True),
    "messages": (_tell, True),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_derivatives_leave_counters_and_messages_out(
    case: str, capfd: pytest.CaptureFixture[str]
) -> None:
    op = operation(squaring(HARMLESS[case][0]))
    counters = np.full(16, 9, np.int32)
    run_operation(op, [X, counters])
    assert capfd.readouterr().out == ("0.5\n-2\n3\n1.5\n" if case == "messages" else "")
    for interpret in (False, True):
        forward = derive.jvp(op, [0])
        (tangent,) = run_operation(forward.operation, [X, counters, X + 1], interpret=interpret)
        np.testing.assert_array_equal(tangent, 2 * X * (X + 1))
        (index,) = [j for j, r in enumerate(op.outputs) if r.name == "p2"]
        backward = derive.vjp(op, [0], [index])
        (cotangent,) = run_operation(backward.operation, [X, counters, X + 1], interpret=interpret)
        np.testing.assert_array_equal(cotangent, 2 * X * (X + 1))
    assert capfd.readouterr().out == ""
    for derived in (jvp(op.func, [0]), vjp(op.func, [0], [2])):
        eqns = list(walk_eqns(verify(derived.func).body))
        assert not [
            e for e in eqns if e.op.kind in MESSAGES or e.inputs[:1] == (op.func.params[1],)
        ]


def test_the_adjoint_of_a_launch_leaves_counters_alone() -> None:
    kernel = kernel_of(squaring(_add_and_max))
    counters, y, grad = np.zeros(2, np.int32), np.zeros(4), np.zeros(4)
    kc.launch(kernel, 4, [X, counters], [y])
    assert counters.tolist() == [4, 3]
    kc.launch(kernel, 4, [X, counters], [y], [grad, None], [np.ones(4)], adjoint=True)
    np.testing.assert_array_equal(grad, 2 * X)
    assert counters.tolist() == [4, 3]


def test_torch_differentiates_next_to_counters() -> None:
    operator = torch_op(kernel_of(squaring(_add_and_max)))
    x = torch.tensor(X, requires_grad=True)
    found = operator(x, torch.zeros(2, dtype=torch.int32))
    counters, y = found if found[0].dtype == torch.int32 else found[::-1]
    assert counters.tolist() == [4, 3]
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)


def _old_as_index(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del i
    slot = b.emit(ops.ATOMIC, counters, ZERO, ONE, update=OPS["add"])
    b.emit_effect(ops.STORE, y, slot, value)


def _old_as_factor(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    old = b.emit(ops.ATOMIC_CAS, counters, ZERO, ZERO, ONE)
    factor = b.emit(ops.CAST, old, dtype=float64)
    b.emit_effect(ops.STORE, y, i, call(b, "mul", value, factor))


def _old_as_condition(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    old = b.emit(ops.ATOMIC, counters, ZERO, ONE, update=None)

    def then() -> None:
        b.emit_effect(ops.STORE, y, i, value)

    first = call(b, "equal", old, ZERO)
    b.emit_if(first, region(b, [], then), region(b, [], lambda: None))


def _old_of_varying(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del counters
    old = b.emit(ops.ATOMIC_ADD, y, ZERO, value)
    b.emit_effect(ops.STORE, y, i, old)


def _counter_read_back(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    b.emit(ops.ATOMIC, counters, ZERO, i, update=MAXIMUM)
    factor = b.emit(ops.CAST, b.emit(ops.LOAD, counters, ZERO), dtype=float64)
    b.emit_effect(ops.STORE, y, i, call(b, "mul", value, factor))


def _largest(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del counters, i
    b.emit(ops.ATOMIC, y, ZERO, value, update=MAXIMUM)


def _exchange(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
    del counters
    b.emit(ops.ATOMIC_CAS, y, i, const(float64, 0.0), value)


OLD = "the old value of an atomic on 'p1' is used"
REFUSED: dict[str, tuple[Write, str]] = {
    "old value as index": (_old_as_index, OLD),
    "old value as factor": (_old_as_factor, OLD),
    "old value as condition": (_old_as_condition, OLD),
    "old value that varies": (_old_of_varying, "the old value of an atomic on 'p2' is used"),
    "counter that is read": (_counter_read_back, "'p1' may be read here and written by another"),
    "extremum": (_largest, "no derivative: 'p2' varies, and is updated by an atomic"),
    "exchange": (_exchange, "no derivative: 'p2' varies, and is updated by an atomic"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_derivatives_that_depend_on_the_order_of_threads_are_refused(case: str) -> None:
    write, match = REFUSED[case]
    func = normalize(squaring(write))
    for derived in (lambda: jvp(func, [0]), lambda: vjp(func, [0], [2])):
        with pytest.raises(KernelGradError, match=match) as caught:
            derived()
        assert caught.value.loc == HERE


def test_a_counter_per_thread_is_replayed_exactly() -> None:
    def count(b: Builder, counters: Var, y: Var, i: Var, value: Var) -> None:
        b.emit(ops.ATOMIC, counters, i, ONE, update=OPS["add"])
        factor = b.emit(ops.CAST, b.emit(ops.LOAD, counters, i), dtype=float64)
        b.emit_effect(ops.STORE, y, i, call(b, "mul", value, factor))

    func = squaring(count)
    op, counters = operation(func), np.arange(4, dtype=np.int32)
    derived = derive.vjp(op, [0], [1])
    for interpret in (False, True):
        (found,) = run_operation(derived.operation, [X, counters, np.ones(4)], interpret=interpret)
        np.testing.assert_array_equal(found, counters + 1.0)
    with pytest.raises(KernelArgumentError, match="'p1' is loaded and written"):
        kc.launch(kernel_of(func), 4, [X, counters], [X], [X, None], [np.ones(4)], adjoint=True)


def test_an_atomic_loads_and_stores() -> None:
    found = effects(squaring(_add_and_max))
    assert found[1] == Effect(loads=True, stores=True, accumulates=True)
    assert effects(squaring(_swap))[1] == Effect(loads=True, stores=True)


# Components


VECTORS = ArrayType(float64, 2, (2,))


def storing(
    indices: Sequence[Sequence[int | str]], type_: ArrayType = VECTORS, rank: int = 1
) -> AccessMap:
    """The accesses of a kernel that stores at ``indices``: launch axes 'i', 'j', or numbers."""

    def write(b: Builder, array: Var) -> None:
        axes: dict[int | str, Atom] = {"ij"[a]: b.emit(ops.TID, axis=a) for a in range(rank)}
        for row in indices:
            atoms = [axes.get(i) or const(int32, int(i)) for i in row]
            b.emit_effect(ops.STORE, array, *atoms, const(float64, 1.0))

    return AccessMap(make("storing", [type_], write, rank))


def test_components_are_elements_of_their_own() -> None:
    both = storing([("i", 0), ("i", 1)])
    assert both.stored_first(both.func.params[0])
    assert both.owned(both.func.params[0])
    twice = storing([("i", 0), ("i", 1), ("i", 0)])
    assert not twice.stored_first(twice.func.params[0])


MATRICES = ArrayType(float64, 3, (2, 2))
COVERING: list[tuple[Sequence[Sequence[int | str]], ArrayType, int, bool]] = [
    ([("i", 0), ("i", 1)], VECTORS, 1, True),
    ([("i", 0)], VECTORS, 1, False),
    ([("i", 0), (0, 1)], VECTORS, 1, False),
    ([("i", "i")], VECTORS, 1, False),
    ([("i", r, c) for r in range(2) for c in range(2)], MATRICES, 1, True),
    ([("i", 0, 0), ("i", 1, 1), ("i", 0, 1)], MATRICES, 1, False),
    ([("i", "j")], ArrayType(float64, 2), 2, True),
    ([("j", "i")], ArrayType(float64, 2), 2, False),
]


@pytest.mark.parametrize(("indices", "type_", "rank", "covers"), COVERING)
def test_a_grid_is_covered_by_all_components(
    indices: Sequence[Sequence[int | str]], type_: ArrayType, rank: int, covers: bool
) -> None:
    accesses = storing(indices, type_, rank)
    assert accesses.covers_grid(accesses.func.params[0]) is covers


def test_launches_reach_no_component_axis() -> None:
    assert storing([("i", 0), ("i", 1)]).grid_indexed_axes() == [(0, 0, 0)]
    assert storing([("i", "j")], rank=2).grid_indexed_axes() == [(0, 0, 0)]


def test_batches_keep_components() -> None:
    func = batch(storing([("i", 0), ("i", 1)]).func, [True])
    assert func.params[0].type == ArrayType(float64, 3, (2,))
    assert AccessMap(func).covers_grid(func.params[0])


@pytest.mark.parametrize("conditional", [False, True])
def test_conditional_stores_do_not_cover(conditional: bool) -> None:
    def write(b: Builder, array: Var, flag: Var) -> None:
        i = b.emit(ops.TID, axis=0)

        def store() -> None:
            b.emit_effect(ops.STORE, array, i, const(int32, 1), const(float64, 1.0))

        b.emit_effect(ops.STORE, array, i, const(int32, 0), const(float64, 1.0))
        if conditional:
            b.emit_if(flag, region(b, [], store), region(b, [], lambda: None))
        else:
            store()

    params: list[ArrayType | Scalar] = [VECTORS, boolean]
    func = make("conditional", params, write, 1)
    assert AccessMap(func).covers_grid(func.params[0]) is not conditional
