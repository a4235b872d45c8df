"""Kernels, the strategy by which each is vectorised, and arguments: one table for all tests."""

from tests.helpers.vectorised import (
    along_rows,
    gangs,
    independent,
    loops,
    middles,
    row_products,
    rows,
)

CASES = [
    *(*gangs.CASES, *rows.CASES, *loops.CASES, *along_rows.CASES, *middles.CASES),
    *independent.CASES,
    *row_products.CASES,
]
