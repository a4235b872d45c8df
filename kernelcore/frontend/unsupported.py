"""Python syntax outside of the kernel language, with the replacement to write."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from kernelcore.base.errors import KernelSyntaxError, SrcLoc

_STATEMENTS = "statements are assignments, if, for, while, break, continue, return, pass and calls"
_EXPRESSIONS = (
    "expressions are numbers, names, operators, comparisons, and/or/not, a if c else b, "
    "array elements and calls"
)
_COLLECT = "use a for loop over range() and write to an array"
_TEXT = (
    "kernels compute with numbers; print() and the message of an assert take text as it is, and "
    "kc.printf('%g', x) takes formats"
)
# Names and replacements of constants that are not numbers, by Python type.
_CONSTANTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "str": ("a string", _TEXT),
        "bytes": ("a bytes literal", "pass the bytes as an array of uint8"),
        "NoneType": ("None", "use a number that stands for 'no value'"),
        "ellipsis": ("an ellipsis literal", "write every index out"),
        "complex": ("a complex literal", "use a vec2 of the real and the imaginary part"),
    }
)

_WHAT: Mapping[type[ast.AST], tuple[str, str]] = MappingProxyType(
    {
        ast.With: ("'with'", _STATEMENTS),
        ast.AsyncFunctionDef: ("'async def'", "write def: kernels do not wait"),
        ast.AsyncFor: ("'async for'", "write for: kernels do not wait"),
        ast.AsyncWith: ("'async with'", _STATEMENTS),
        ast.TryStar: ("'try'", "test the values before you use them: kernels raise nothing"),
        ast.Try: ("'try'", "test the values before you use them: kernels raise nothing"),
        ast.Raise: ("'raise'", "write a status to an array and check it on the host"),
        ast.Delete: ("'del'", "leave it out: names cost nothing"),
        ast.Match: ("'match'", "use if, elif and else"),
        ast.Import: ("'import'", "import at the top of the module"),
        ast.ImportFrom: ("'import'", "import at the top of the module"),
        ast.Global: ("'global'", "kernels read globals as constants; write results to an array"),
        ast.Nonlocal: ("'nonlocal'", "kernels read closures as constants; write to an array"),
        ast.ClassDef: ("'class'", "pass the members as parameters"),
        ast.Lambda: ("'lambda'", "define a function decorated with @func"),
        ast.ListComp: ("a list comprehension", _COLLECT),
        ast.SetComp: ("a set comprehension", _COLLECT),
        ast.DictComp: ("a dict comprehension", _COLLECT),
        ast.GeneratorExp: ("a generator expression", _COLLECT),
        ast.Yield: ("'yield'", "write results to an array"),
        ast.YieldFrom: ("'yield'", "write results to an array"),
        ast.Await: ("'await'", _EXPRESSIONS),
        ast.NamedExpr: ("':='", "assign on a line of its own"),
        ast.List: ("a list", "use a tuple or a vector, or pass an array as a parameter"),
        ast.Set: ("a set", "use a tuple or a vector, or pass an array as a parameter"),
        ast.Dict: ("a dict", "use a tuple or a vector, or pass an array as a parameter"),
        ast.JoinedStr: ("a string", _TEXT),
        ast.Starred: ("'*'", "write the arguments, targets or members out"),
        ast.keyword: ("'**'", "write the arguments out"),
        ast.MatMult: (
            "'@' on these types",
            "it multiplies vectors, matrices, quaternions and transforms; write '*' for numbers",
        ),
        ast.Is: ("'is'", "use =="),
        ast.IsNot: ("'is not'", "use !="),
        ast.In: ("'in'", "compare with each element in a loop"),
        ast.NotIn: ("'not in'", "compare with each element in a loop"),
    }
)


def unsupported(node: ast.AST, loc: SrcLoc | None) -> KernelSyntaxError:
    """The error for a node that the kernel language does not have."""
    if isinstance(node, ast.Constant):
        kind = type(node.value).__name__
        what, remedy = _CONSTANTS.get(kind, (f"a {kind} literal", _EXPRESSIONS))
    else:
        default = _EXPRESSIONS if isinstance(node, ast.expr) else _STATEMENTS
        what, remedy = _WHAT.get(type(node), (type(node).__name__, default))
    return KernelSyntaxError(f"{what} is no part of the kernel language", loc, remedy)
