"""Kernels that tests of captures launch."""

from __future__ import annotations

import kernelcore as kc


@kc.kernel
def add(x: kc.array(dtype=float), a: float, y: kc.array(dtype=float)):
    i = kc.tid()
    y[i] = y[i] + a * x[i]


@kc.kernel
def squares(x: kc.array(dtype=float), loss: kc.array(dtype=float)):
    i = kc.tid()
    kc.atomic_add(loss, 0, x[i] * x[i])


@kc.kernel
def count_down(n: kc.array(dtype=int), total: kc.array(dtype=int)):
    total[0] = total[0] + n[0]
    n[0] = n[0] - 1
