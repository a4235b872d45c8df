"""The mathematical constants of the kernel language; they are literals in kernels."""

from __future__ import annotations

import math

E = e = math.e
LOG2E = log2e = 1.4426950408889634
LOG10E = log10e = 0.4342944819032518
LN2 = ln2 = 0.6931471805599453
LN10 = ln10 = 2.302585092994046
# The golden ratio.
PHI = phi = 1.618033988749895
PI = pi = math.pi
HALF_PI = half_pi = math.pi / 2
TAU = tau = math.tau
INF = inf = math.inf
NAN = nan = math.nan
