"""Which built-in each Python operator is."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kernelcore.builtins.declare import Builtin
from kernelcore.builtins.table import BUILTINS


def _table(names: Mapping[type[ast.AST], str]) -> Mapping[type[ast.AST], Builtin[..., Any]]:
    return MappingProxyType({operator: BUILTINS[name] for operator, name in names.items()})


BINARY = _table(
    {
        ast.Add: "add",
        ast.Sub: "sub",
        ast.Mult: "mul",
        ast.Div: "div",
        ast.FloorDiv: "floordiv",
        ast.Mod: "mod",
        ast.Pow: "pow",
        ast.MatMult: "mul",
        ast.BitAnd: "bitand",
        ast.BitOr: "bitor",
        ast.BitXor: "bitxor",
        ast.LShift: "shl",
        ast.RShift: "shr",
    }
)

UNARY = _table({ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "logical_not"})

COMPARE = _table(
    {
        ast.Lt: "less",
        ast.LtE: "less_equal",
        ast.Gt: "greater",
        ast.GtE: "greater_equal",
        ast.Eq: "equal",
        ast.NotEq: "not_equal",
    }
)

BOOLEAN = _table({ast.And: "logical_and", ast.Or: "logical_or"})
