"""``print`` and ``assert``."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernelcore.errors import KernelSyntaxError, KernelTypeError
from kernelcore.frontend.scope import Scope, settle
from kernelcore.frontend.value import Compound, Value, describe_type
from kernelcore.frontend.weak import Weak
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import ASSERT, PRINT
from kernelcore.types import Scalar

Lower = Callable[[Scope, ast.expr], Value]


class _Line:
    """A line of output: texts, and the values between them."""

    def __init__(self) -> None:
        self.pieces = [""]
        self.values: list[Atom] = []

    def text(self, text: str) -> None:
        """Append ``text``."""
        self.pieces[-1] += text

    def value(self, scope: Scope, value: Value, node: ast.expr) -> None:
        """Append ``value``; composites as calls of their types.

        Raises:
            KernelTypeError: It cannot be printed.
        """
        match value:
            case Weak() | Const() | Var(type=Scalar()):
                self.values.append(settle(value, scope.loc(node)))
                self.pieces.append("")
            case Compound(type_, members):
                self.text(f"{type_}(")
                self._members(scope, members, node)
                self.text(")")
            case tuple():
                self.text("(")
                self._members(scope, value, node)
                self.text(")")
            case _:
                raise KernelTypeError(
                    f"print() of {describe_type(value)}", scope.loc(node), "print its elements"
                )

    def _members(self, scope: Scope, members: tuple[Value, ...], node: ast.expr) -> None:
        for k, member in enumerate(members):
            self.text(", " if k else "")
            self.value(scope, member, node)


def lower_print(scope: Scope, node: ast.Call, lower: Lower) -> Value:
    """``print(...)``: one line per call, whatever other threads print.

    Raises:
        KernelTypeError: A value that cannot be printed, or an unknown keyword.
    """
    ends = {"sep": " ", "end": "\n"}
    for keyword in node.keywords:
        is_text = isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
        if keyword.arg not in ends or not is_text:
            raise KernelTypeError(
                f"print() does not take '{keyword.arg}' here",
                scope.loc(keyword),
                "give sep and end as literal strings",
            )
        assert isinstance(keyword.value, ast.Constant)
        ends[keyword.arg] = str(keyword.value.value)
    line = _Line()
    for k, arg in enumerate(node.args):
        line.text(ends["sep"] if k else "")
        _argument(scope, line, arg, lower)
    line.text(ends["end"])
    scope.at(node)
    scope.builder.emit_effect(PRINT, *line.values, pieces=tuple(line.pieces))
    return ()


def _argument(scope: Scope, line: _Line, arg: ast.expr, lower: Lower) -> None:
    match arg:
        case ast.Constant(value=str() as text):
            line.text(text)
        case ast.JoinedStr(values=parts):
            for part in parts:
                _argument(scope, line, part, lower)
        case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
            if spec is not None or conversion != -1:
                raise KernelSyntaxError(
                    "a format specification is no part of the kernel language",
                    scope.loc(arg),
                    "write {x} alone, or use printf()",
                )
            line.value(scope, lower(scope, value), value)
        case _:
            line.value(scope, lower(scope, arg), arg)


def lower_assert(scope: Scope, node: ast.Assert, condition: Atom) -> None:
    """``assert condition, "message"``: the launch fails if it does not hold in any thread.

    Raises:
        KernelTypeError: The message is no literal string.
    """
    text = ast.unparse(node.test)
    if node.msg is not None:
        if not isinstance(node.msg, ast.Constant) or not isinstance(node.msg.value, str):
            raise KernelTypeError(
                "the message of an assert is a literal string",
                scope.loc(node.msg),
                "print values on a line of its own",
            )
        text = node.msg.value
    scope.at(node)
    scope.builder.emit_effect(ASSERT, condition, text=text)
