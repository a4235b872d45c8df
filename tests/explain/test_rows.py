"""What ``kc.explain`` says of loops along rows of threads."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import kernelcore as kc
from tests.helpers.vectorised.along_rows import softmax


@kc.kernel
def doubled_rows(x: kc.array2d(dtype=float), y: kc.array2d(dtype=float)):
    i = kc.tid()
    for j in range(x.shape[1]):
        y[i, j] = kc.exp(kc.sin(x[i, j]))


def test_independent_iterations_run_along_one_row_after_the_other() -> None:
    found = kc.explain(doubled_rows)
    assert [a.how for a in found.accesses] == ["adjacent elements"] * 2
    assert [loop.how for loop in found.loops] == [
        "32 or 8 iterations at once, lane after lane of a gang"
    ]


def test_loops_that_share_the_values_of_a_row() -> None:
    hows = [loop.how for loop in kc.explain(softmax).loops]
    assert [how.rsplit("; ", 1)[-1] for how in hows[1:]] == [
        "in long rows it keeps values for later loops",
        "in long rows it takes values that an earlier loop has kept",
    ]
    assert "values" not in hows[0]
