"""Kernels whose threads go down columns."""

# pyright: basic, reportInvalidTypeForm=false

from __future__ import annotations

import kernelcore as kc


@kc.kernel
def column_sum(x: kc.array2d[float], y: kc.array1d[float]):
    j = kc.tid()
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k, j]
    y[j] = total


@kc.kernel
def column_softmax(x: kc.array2d[float], y: kc.array2d[float]):
    j = kc.tid()
    top = x[0, j]
    for k in range(x.shape[0]):
        top = kc.max(top, x[k, j])
    total = 0.0
    for k in range(x.shape[0]):
        total += kc.exp(x[k, j] - top)
    for k in range(x.shape[0]):
        y[k, j] = kc.exp(x[k, j] - top) / total
