"""What ``explain`` says of the arrays of a gradient, and of launches over several devices."""

from __future__ import annotations

import numpy as np

import kernelcore as kc


@kc.kernel
def weighted_neighbours(
    u: kc.array2d(dtype=float),
    weight: kc.array(dtype=float),
    o: kc.array2d(dtype=float),
    total: kc.array(dtype=float),
):
    i, j = kc.tid()
    n = u.shape[0]
    v = u[kc.max(i - 2, 0), j] * u[kc.min(i + 1, n - 1), j] * weight[i]
    o[i, j] = v
    kc.atomic_add(total, 0, v)


def test_frameworks_keep_what_the_adjoint_reads_and_devices_exchange_borders() -> None:
    u, weight = np.ones((8, 4), np.float32), np.ones(8, np.float32)
    text = str(kc.explain(weighted_neighbours, u, weight, u, np.zeros(1, np.float32)))
    assert "frameworks keep u (128 bytes), weight (32 bytes) for it" in text
    assert (
        "  cut along launch axis 0: a device needs 2 before and 1 after its part of u; "
        "the sum of total over the devices\n"
        "  cut along launch axis 1: a device needs the sum of total over the devices; "
        "the whole of weight (32 bytes), which it gathers if that is cut\n"
    ) in text
    found = kc.explain(weighted_neighbours)
    assert found.adjoint.kept == {"u": None, "weight": None}
    assert [a.borders for a in found.axes] == [{"u": (2, 1)}, {}]
    axes = "not cut along launch axis 0: each device gathers src"
    assert axes in str(kc.explain(reversed_rows))


@kc.kernel
def reversed_rows(src: kc.array(dtype=float), o: kc.array(dtype=float)):
    i = kc.tid()
    o[src.shape[0] - 1 - i] = src[i]


@kc.kernel
def pooled(x: kc.array(dtype=float), o: kc.array(dtype=float)):
    i = kc.tid()
    o[i] = x[2 * i] + x[kc.min(2 * i + 2, x.shape[0] - 1)]


def test_arrays_of_other_extents_than_the_launch_are_cut_with_it() -> None:
    x, o = np.ones(16, np.float32), np.zeros(8, np.float32)
    axis = "cut along launch axis 0: a device needs 0 before and 1 after its part of x"
    assert f"  {axis}" in str(kc.explain(pooled, x, o, dim=8))
