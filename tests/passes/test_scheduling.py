"""Scheduling: what uses a value follows it closely, and nothing that matters changes places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import kernelcore as kc
from kernelcore.ir.core import Eqn, Func
from kernelcore.ir.op import AddForm, OpKind
from kernelcore.ir.walk import walk_regions
from kernelcore.passes import scheduling
from kernelcore.passes.access.accumulation_plan import form_of, unplanned
from kernelcore.passes.pipeline import optimize
from kernelcore.passes.scheduling import schedule
from tests.helpers.kernel_harness import adjoint_func

SIZE = 64
V = kc.types.vector(length=SIZE, dtype=kc.float32)


@kc.kernel
def decayed(x: kc.array(V), s: kc.array(kc.float32), y: kc.array(V)):
    i = kc.tid()
    total = x[i]
    for j in range(s.shape[0]):
        total = total * kc.exp(s[j]) + x[j] * s[j]
    y[i] = total


@kc.kernel
def shifted(x: kc.array(V), y: kc.array(V)):
    i = kc.tid()
    moved = x[i] * 2.0
    kc.atomic_add(y, 0, moved)
    other = x[i + 1] * 3.0
    kc.atomic_add(y, 1, other)


def blocks_of(func: Func) -> list[Sequence[Eqn]]:
    return [region.eqns for region in walk_regions(func.body)]


def distances(eqns: Sequence[Eqn]) -> list[int]:
    """How far behind what makes them the floats in ``eqns`` are used for the first time."""
    made = {v: at for at, eqn in enumerate(eqns) for v in eqn.outputs if v.type == kc.float32}
    found: dict[object, int] = {}
    for at, eqn in enumerate(eqns):
        for atom in eqn.inputs:
            if atom in made:
                found.setdefault(atom, at - made[atom])
    return list(found.values())


def test_components_go_through_all_operations_one_after_the_other() -> None:
    func = optimize(decayed.func)
    before, after = (max(blocks_of(f), key=len) for f in (func, schedule(func)))
    assert np.median(distances(before)) > SIZE / 2
    assert np.median(distances(after)) <= 2


def test_equations_stay_and_follow_what_they_need() -> None:
    for func in (optimize(decayed.func), adjoint_func(decayed)):
        ordered = schedule(func)
        for before, after in zip(blocks_of(func), blocks_of(ordered), strict=True):
            assert len(after) == len(before)
            known: set[object] = set()
            made = {v for eqn in after for v in eqn.outputs}
            for eqn in after:
                assert not [a for a in eqn.inputs if a in made and a not in known]
                known |= set(eqn.outputs)
        kept = {e for block in blocks_of(func) for e in block if not e.regions}
        assert kept == {e for block in blocks_of(ordered) for e in block if not e.regions}


def test_short_blocks_are_left_alone() -> None:
    @kc.kernel
    def short(x: kc.array(kc.float32), y: kc.array(kc.float32)):
        i = kc.tid()
        y[i] = x[i] * 2.0 + x[0]

    func = optimize(short.func)
    assert schedule(func) is func


def order_of(func: Func, *kinds: OpKind) -> list[Eqn]:
    return [eqn for block in blocks_of(func) for eqn in block if eqn.op.kind in kinds]


@pytest.mark.parametrize("is_planned", [True, False])
def test_loads_pass_additions_only_to_arrays_of_their_own(
    is_planned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "LEAST_EQNS", 2)
    planned = optimize(shifted.func)
    func = planned if is_planned else unplanned(planned)
    additions = order_of(func, OpKind.ATOMIC_ADD)
    assert {form_of(eqn) for eqn in additions} <= (
        {AddForm.SHARED, AddForm.PARTIAL} if is_planned else {AddForm.ATOMIC}
    )
    ordered = schedule(func)
    assert order_of(ordered, OpKind.ATOMIC_ADD) == additions
    if is_planned:
        return
    both = OpKind.LOAD, OpKind.ATOMIC_ADD
    for number in (0, SIZE):
        sides = []
        for f in (func, ordered):
            eqns = order_of(f, *both)
            cut = eqns.index(additions[number])
            sides.append({e for e in eqns[:cut] if e.op.kind is OpKind.LOAD})
        assert sides[0] == sides[1]


def test_every_stack_is_pushed_and_popped_as_before() -> None:
    func = adjoint_func(decayed)
    ordered = schedule(func)
    for kind in (OpKind.PUSH, OpKind.POP):
        assert set(order_of(func, kind)) == set(order_of(ordered, kind))
        stacks = [e.inputs[0] for e in order_of(ordered, kind)]
        assert len(stacks) == len(set(stacks)) >= SIZE
