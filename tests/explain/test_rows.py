"""What ``kc.explain`` says of loops along rows of threads."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import kernelcore as kc


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
