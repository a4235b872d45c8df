"""``print`` and ``assert``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from kernelcore.base.errors import KernelSyntaxError, KernelTypeError
from kernelcore.frontend.expressions.apply import cast
from kernelcore.frontend.scope import Scope, scalar, settle
from kernelcore.frontend.values.literal_types import UntypedLiteral
from kernelcore.frontend.values.value import CompositeValue, Value, describe_type
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import ASSERT, PRINT
from kernelcore.language.types import SCALARS, Scalar

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
            case UntypedLiteral() | Const() | Var(type=Scalar()):
                self.values.append(settle(value, scope.loc(node)))
                self.pieces.append("")
            case CompositeValue(type_, members):
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
                # Python 3.11 knows the place of the whole string only.
                _argument(scope, line, ast.copy_location(part, arg), lower)
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


def lower_printf(scope: Scope, node: ast.Call, lower: Lower) -> Value:
    """``printf("format", ...)``, with the directives of C for numbers.

    Raises:
        KernelTypeError: The format is no literal string, or does not fit the values.
    """
    first = node.args[0] if node.args else None
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str) or node.keywords:
        raise KernelTypeError(
            "printf() takes a literal format and values",
            scope.loc(node),
            'write printf("%d %f\\n", i, x)',
        )
    parts = _DIRECTIVE.split(first.value)
    pieces, directives = parts[0::2], parts[1::2]
    texts = [pieces[0]]
    formats: list[str] = []
    for directive, piece in zip(directives, pieces[1:], strict=True):
        if directive == "%%":
            texts[-1] += "%" + piece
        else:
            formats.append(directive)
            texts.append(piece)
    if any("%" in piece for piece in pieces):
        raise KernelTypeError(
            f"printf(): a directive of {first.value!r} is not known",
            scope.loc(first),
            "use %d %i %u %x %f %e %g with flags, width and precision, and %%",
        )
    if len(formats) != len(node.args) - 1:
        raise KernelTypeError(
            f"printf(): the format asks for {len(formats)} values, found {len(node.args) - 1}",
            scope.loc(node),
            "give a value per directive, and write %% for a percent sign",
        )
    values = [
        _directed(scope, directive, arg, lower)
        for directive, arg in zip(formats, node.args[1:], strict=True)
    ]
    scope.at(node)
    scope.builder.emit_effect(PRINT, *values, pieces=tuple(texts), formats=tuple(formats))
    return ()


_DIRECTIVE = re.compile(r"(%%|%[-+ 0#]*[0-9]*(?:\.[0-9]+)?[diuxXofeEgG])")


def _directed(scope: Scope, directive: str, arg: ast.expr, lower: Lower) -> Atom:
    """The value of ``arg``, as ``directive`` takes it."""
    loc = scope.loc(arg)
    value = settle(scalar(lower(scope, arg), loc), loc)
    assert isinstance(value.type, Scalar)
    takes_float = directive[-1] in "feEgG"
    if takes_float != value.type.is_float:
        raise KernelTypeError(
            f"printf(): {directive} takes {'a float' if takes_float else 'an integer'}, "
            f"found {value.type}",
            loc,
            "convert it, or use another directive",
        )
    if directive[-1] in "uxXo" and value.type.kind == "int":
        unsigned = next(s for s in SCALARS if s.kind == "uint" and s.bits == value.type.bits)
        return cast(scope, unsigned, value, loc)
    return value


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
