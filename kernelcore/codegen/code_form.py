"""The form of a kernel that code for processors is generated from."""

from __future__ import annotations

from functools import lru_cache

from kernelcore.codegen.analysis.small_rows import rows_as_elements
from kernelcore.codegen.simd.contraction import contract_sums
from kernelcore.ir.core import Func


@lru_cache(maxsize=4)
def code_form(func: Func) -> Func:
    """``func``, which has a plan, with elements in place of small rows, and contracted sums."""
    return contract_sums(rows_as_elements(func))
