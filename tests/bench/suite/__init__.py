"""The kernels that the compiler is measured by."""

from tests.bench.suite import elementwise, loops, scattered
from tests.bench.suite.case import Case

CASES: tuple[Case, ...] = (*elementwise.CASES, *loops.CASES, *scattered.CASES)
