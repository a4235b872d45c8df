"""The table of all built-ins as Markdown: signatures, derivatives and what they do."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kernelcore.builtins import BUILTINS, LIBRARY, Builtin
from kernelcore.builtins.function import Overload
from kernelcore.frontend import intrinsics
from kernelcore.frontend.intrinsics import Intrinsic
from kernelcore.ir.op import Op
from kernelcore.types import AnyScalar, ArrayOf, Dense, type_of

Row = tuple[str, str, str]

TITLE = """\
# Built-ins

What kernels can call, as `kc.name`; Python's `abs`, `min`, `max`, `round`, `pow` and the functions of
`math` by their own names. The file is written by `pytest tests/test_docs.py --update-golden`.

`Float`, `Int`, `Number` and `Scalar` stand for any dtype of that kind (`kc.types.AnyFloat` and so on),
`Any` for anything. In the first three sections equal classes in a signature mean equal types; such a
built-in of numbers also takes vectors and matrices of one shape, component by component. In the
others equal letters mean equal types, and the rest of a signature says what a letter stands for.

A derivative is the cotangent of an argument in terms of the arguments, the result `out` and its
cotangent `ct`; an argument without a formula has derivative zero. A function with the derivative
"of its body" is written in the kernel language, and differentiated like a user's own.
"""


def builtins_markdown() -> str:
    """All built-ins, one section per module that defines some, one row per name."""
    sections: dict[str, list[Row]] = {}
    for entry, names in _entries().items():
        sections.setdefault(entry.module, []).append(_entry_row(entry.op, names))
    for (module, name), overloads in _functions().items():
        sections.setdefault(module, []).append(_function_row(name, overloads))
    sections[intrinsics.__name__] = [
        (_code(i.usage), _cell(i.derivative), _cell(_first_line(i.__doc__)))
        for i in vars(intrinsics).values()
        if isinstance(i, Intrinsic)
    ]
    return "\n".join([TITLE, *(_section(module, rows) for module, rows in sections.items())])


def _entries() -> Mapping[Builtin[..., Any], list[str]]:
    """The entries of the table, with the public names of each."""
    found: dict[Builtin[..., Any], list[str]] = {}
    for name, entry in BUILTINS.items():
        found.setdefault(entry, []).append(name)
    return found


def _functions() -> Mapping[tuple[str, str], list[Overload]]:
    """The overloads of the library by module and name."""
    found: dict[tuple[str, str], list[Overload]] = {}
    for name, function in LIBRARY.items():
        for overload in function.overloads:
            found.setdefault((overload.pyfunc.__module__, name), []).append(overload)
    return found


def _section(module: str, rows: Iterable[Row]) -> str:
    heading, _, rest = (inspect.getdoc(sys.modules[module]) or "").partition("\n")
    lines = [f"## {heading.rstrip('.')}", "", rest.strip(), "" if rest else None]
    table = ["| signature | derivative | |", "|---|---|---|", *(f"| {' | '.join(r)} |" for r in rows)]
    return "\n".join([*(text for text in lines if text is not None), *table, ""])


def _entry_row(op: Op, names: Sequence[str]) -> Row:
    params = ", ".join(f"{name}: {_class(cls)}" for name, cls in op.params.items())
    signatures = [_code(f"{name}({params}) -> {_class(op.result)}") for name in names]
    if op.grad is None:
        derivative = f"none: {op.no_grad}"
    else:
        derivative = "<br>".join(_code(f"{k}: {text}") for k, text in op.grad.items()) or "0"
    return "<br>".join(signatures), derivative, _cell(_first_line(op.doc))


def _function_row(name: str, overloads: Sequence[Overload]) -> Row:
    derivatives = [f"none: {o.no_grad}" if o.no_grad else "of its body" for o in overloads]
    texts = [_cell(_first_line(o.pyfunc.__doc__)) for o in overloads]
    signatures = [_signature(name, o) for o in overloads]
    return _lines(signatures), _lines(dict.fromkeys(derivatives)), _lines(dict.fromkeys(texts))


def _signature(name: str, overload: Overload) -> str:
    """A call of ``overload``, what its type variables stand for, and what it assigns."""
    annotations = annotations_of(overload.pyfunc)
    params: list[str] = []
    bounds: dict[str, str] = {}
    for parameter in inspect.signature(overload.pyfunc).parameters.values():
        wanted = annotations.get(parameter.name, Any)
        if isinstance(wanted, TypeVar):
            bounds[wanted.__name__] = type_text(wanted.__bound__ or Any)
        is_given = parameter.default is not inspect.Parameter.empty
        default = f" = {parameter.default}" if is_given else ""
        params.append(f"{parameter.name}: {type_text(wanted)}{default}")
    notes = [f"{_code(name)} any {_code(bound)}" for name, bound in bounds.items()]
    notes += [f"assigns {_code(name)}" for name in overload.updates]
    return ", ".join([_code(f"{name}({', '.join(params)})"), *notes])


def annotations_of(pyfunc: Callable[..., Any]) -> Mapping[str, object]:
    """The annotations of a function as objects."""
    return inspect.get_annotations(pyfunc, eval_str=True)


def type_text(annotation: object) -> str:
    """A parameter's type as users write it."""
    if isinstance(annotation, TypeVar):
        return annotation.__name__
    if annotation is Any:
        return "Any"
    if isinstance(annotation, type) and annotation.__module__ == "builtins":
        return annotation.__name__
    match type_of(annotation):
        case Dense() as dense:
            return _dense_text(dense)
        case ArrayOf(element=element, ndim=ndim):
            return f"array({'Any' if element is None else type_text(element)}, {ndim})"
        case found if found == AnyScalar:
            return "Scalar"
        case found:
            return repr(found)


def _dense_text(type_: Dense) -> str:
    if not type_.is_pattern:
        return repr(type_)
    dtype = type_text(type_.dtype)
    extents = [name if n is None else str(n) for n, name in zip(type_.shape, "nm", strict=False)]
    match type_.kind:
        case "vector":
            return f"vector({extents[0]}, {dtype})"
        case "matrix":
            return f"matrix(({', '.join(extents)}), {dtype})"
        case "quaternion":
            return f"quaternion({dtype})"
        case _:
            return f"transformation({dtype})"


def _class(name: str) -> str:
    return "Scalar" if name == AnyScalar.name else name


def _first_line(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").partition("\n")[0]


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(texts)


def _code(text: str) -> str:
    return f"`{_cell(text)}`"


def _cell(text: str) -> str:
    """``text`` within a table."""
    return text.replace("``", "`").replace("|", "\\|")
