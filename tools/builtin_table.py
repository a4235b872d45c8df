"""The table of all built-ins as Markdown: signatures, derivatives and what they do."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kernelcore.builtins import BUILTINS, LIBRARY, Builtin
from kernelcore.frontend.calls import intrinsics
from kernelcore.frontend.calls.intrinsics import Intrinsic
from kernelcore.ir.op import Op
from kernelcore.language.function import Overload
from kernelcore.language.types import AnyScalar, ArrayOf, Dense, type_of

Row = tuple[str, str, str]

TITLE = """\
# Built-ins

What kernels can call, as `kc.name`; Python's `abs`, `min`, `max`, `pow` and `round` are those of
kernelcore there. This file is written by `pytest tests/project/test_docs.py --update-golden`.

`Float`, `Int`, `Number` and `Scalar` stand for every dtype of that kind (`kc.types.AnyFloat` and so
on), `Any` for anything. A built-in with a result in its signature is an operation on scalars: equal
names of kinds mean equal types. It takes vectors or matrices of one shape as well, with scalars
among them, and works on each component; `equal` and `not_equal` then give one bool, the other
comparisons and the product of two vectors are refused. The other built-ins are functions in the
kernel language: equal letters mean equal types, and the signature says what a letter stands for.

A derivative is the cotangent of an argument in terms of the arguments, the result `out` and its
cotangent `ct`; an argument without a formula has derivative zero. A function whose derivative is
that "of its body" is differentiated as a user's own is.
"""


def builtins_markdown() -> str:
    """All built-ins, one section per module that defines some, one row per name."""
    found = _sections()
    return "\n".join([TITLE, *(_heading(m) + _table(m, rows) for m, rows in found.items())])


def builtin_tables() -> dict[str, str]:
    """The rows of ``builtins_markdown`` by module, each as a table of its own."""
    return {module: _table(module, rows) for module, rows in _sections().items()}


def _sections() -> dict[str, list[Row]]:
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
    return sections


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


def _heading(module: str) -> str:
    return f"## {(inspect.getdoc(sys.modules[module]) or '').splitlines()[0].rstrip('.')}\n\n"


def _table(module: str, rows: Iterable[Row]) -> str:
    rest = (inspect.getdoc(sys.modules[module]) or "").partition("\n")[2]
    text = [rest.strip().replace("``", "`"), ""] if rest else []
    table = [f"| {' | '.join(row)} |" for row in (("signature", "derivative", ""), *rows)]
    table.insert(1, "|---|---|---|")
    return "\n".join([*text, *table, ""])


def _entry_row(op: Op, names: Sequence[str]) -> Row:
    params = ", ".join(f"{name}: {_class(cls)}" for name, cls in op.params.items())
    signatures = [_code(f"{name}({params}) -> {_class(op.result)}") for name in names]
    if op.grad is None:
        derivative = f"none: {op.no_grad}"
    else:
        derivative = "<br>".join(_code(f"{k}: {text}") for k, text in op.grad.items()) or "0"
    return "<br>".join(signatures), derivative, _cell(_first_line(op.doc))


def _function_row(name: str, overloads: Sequence[Overload]) -> Row:
    texts = [_cell(_first_line(o.pyfunc.__doc__)) for o in overloads]
    notes = [f"{_code(k)} any {_code(b)}" for o in overloads for k, b in _letters(o).items()]
    notes += [f"assigns {_code(parameter)}" for o in overloads for parameter in o.updates]
    signatures = [_code(f"{name}({_parameters(o)})") for o in overloads]
    signatures += [", ".join(dict.fromkeys(notes))] if notes else []
    return _lines(signatures), "of its body", _lines(dict.fromkeys(texts))


def _parameters(overload: Overload) -> str:
    found: list[str] = []
    annotations = annotations_of(overload.pyfunc)
    for parameter in inspect.signature(overload.pyfunc).parameters.values():
        is_given = parameter.default is not inspect.Parameter.empty
        default = f" = {parameter.default}" if is_given else ""
        wanted = type_text(annotations.get(parameter.name, Any))
        found.append(f"{parameter.name}: {wanted}{default}")
    return ", ".join(found)


def _letters(overload: Overload) -> Mapping[str, str]:
    """The type variables of a signature, and what they stand for."""
    wanted = annotations_of(overload.pyfunc).values()
    variables = [w for w in wanted if isinstance(w, TypeVar)]
    limits = {w.__name__: w.__constraints__ or (w.__bound__ or Any,) for w in variables}
    return {name: " or ".join(map(type_text, given)) for name, given in limits.items()}


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
