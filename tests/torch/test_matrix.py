"""Every kernel of the matrix under every transform equals plain torch, in every mode.

CI runs all of it eagerly and a slice of the compiled modes; KC_TORCH_MATRIX=1 runs all.
"""

from __future__ import annotations

import gc
import os
from functools import partial

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from tests.torch.matrix import (
    BACKWARD,
    CASES,
    MODES,
    REFUSED,
    TRANSFORMS,
    Function,
    argument,
    outcome,
    outcomes,
)

WHOLE = bool(os.environ.get("KC_TORCH_MATRIX"))
CELLS = [(case, name) for case in CASES for name in (*TRANSFORMS, *BACKWARD)]
TRANSFORMED = [name for name in TRANSFORMS if name not in REFUSED]
SLICE = {
    "aot_eager": [
        ("struct", "vmap_grad"),
        ("callable", "hessian"),
        ("vec3", "backward"),
        ("atomic_sum", "double_backward"),
    ],
    "inductor": [("multi_output", "backward")],
    "inductor_dynamic": [("callable", "grad")],
}
# To compile all that goes into one graph takes a third of the time of a graph for each.
APART = [(case, name) for case, name in CELLS if name not in TRANSFORMED]
COMPILED = [(mode, *cell) for mode in SLICE for cell in (APART if WHOLE else SLICE[mode])]
TOGETHER = [(m, c) for m in SLICE for c in CASES] if WHOLE else [("aot_eager", "gather_scatter")]


def check(mode: str, case: str, name: str) -> None:
    given = CASES[case]
    x = argument(given)
    if mode != "eager" and name in REFUSED:
        for function in (given.op, given.reference):
            check_refused(mode, name, function, x)
        return
    expected = outcome(name, given.reference, x, MODES["eager"])
    torch.testing.assert_close(outcome(name, given.op, x, MODES[mode]), expected)


def check_refused(mode: str, name: str, function: Function, x: torch.Tensor) -> None:
    # What torch leaves of a trace that it gives up below a transform sets the dispatch keys of
    # the thread whenever it is collected: that shall happen here.
    with torch._C._PreserveDispatchKeyGuard():
        with pytest.raises(RuntimeError, match=REFUSED[name]):
            outcome(name, function, x, MODES[mode])
        gc.collect()


@pytest.mark.parametrize(("case", "name"), CELLS)
def test_eager(case: str, name: str) -> None:
    check("eager", case, name)


@pytest.mark.parametrize(("mode", "case", "name"), COMPILED)
def test_compiled(mode: str, case: str, name: str) -> None:
    check(mode, case, name)


@pytest.mark.parametrize(("mode", "case"), TOGETHER)
def test_compiled_in_one_graph(mode: str, case: str) -> None:
    given = CASES[case]
    x = argument(given)
    found = outcomes(TRANSFORMED, given.op, x, MODES[mode])
    for name in TRANSFORMED:
        expected = outcome(name, given.reference, x, MODES["eager"])
        torch.testing.assert_close(found[name], expected, msg=partial("{}: {}".format, name))


@pytest.mark.parametrize("case", CASES)
def test_derivatives_match_differences(case: str) -> None:
    op, x = CASES[case].op, argument(CASES[case]).requires_grad_()
    assert gradcheck(op, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(op, (x,))
