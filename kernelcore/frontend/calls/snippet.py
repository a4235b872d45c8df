"""Native functions: functions of the kernel language whose body is C++ text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kernelcore.base.dataclass import dataclass
from kernelcore.base.errors import KernelError, KernelSyntaxError, KernelTypeError, SrcLoc
from kernelcore.base.lazy import Deferred
from kernelcore.frontend.calls.overloads import argument, resolve
from kernelcore.frontend.scope import Scope
from kernelcore.frontend.values.packed_array import array_of
from kernelcore.frontend.values.value import (
    ArrayChoice,
    ArrayView,
    Axis,
    CompositeValue,
    Value,
    describe_type,
    flatten,
)
from kernelcore.ir.core import Atom, Const, Var
from kernelcore.ir.op import SNIPPET
from kernelcore.ir.snippet import Snippet, SnippetType, Variant
from kernelcore.ir.snippet_effects import make_snippet
from kernelcore.language.annotations import result_types
from kernelcore.language.definition import Definition, define
from kernelcore.language.function import Function, Overload, require_function
from kernelcore.language.source import Source
from kernelcore.language.types import ArrayOf, ArrayType, Dense, Scalar, element_type

# Few functions are pickled.
if TYPE_CHECKING:
    from kernelcore.language import pickling
else:
    pickling = Deferred("kernelcore.language.pickling")

_REMEDY = (
    "annotate it with an integer, bool, float32 or float64, a vector or matrix of these, "
    "or an array of one of them"
)

# Python has and, or, not and others as well: they cannot be parameters.
_CXX_KEYWORDS = frozenset(
    """
    alignas alignof and_eq asm auto bitand bitor bool case catch char char16_t char32_t char8_t
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit
    decltype default delete do double dynamic_cast enum explicit export extern false float friend
    goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private
    protected public register reinterpret_cast requires short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true typedef typeid typename union
    unsigned using virtual void volatile wchar_t xor xor_eq
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class NativeFunction:
    """A function that kernels call, with C++ texts for a body; made by ``func_native``.

    Attributes:
        function: Its name and signature.
        texts: Its texts by variant.
    """

    function: Function
    texts: Mapping[Variant, str]

    @property
    def name(self) -> str:
        """The name it was defined with."""
        return self.function.name

    def __copy__(self) -> NativeFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> NativeFunction:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        pyfunc = self.function.overloads[0].pyfunc
        made = NativeFunction, (self.function, dict(self.texts))
        return pickling.reduced(self, pyfunc, lambda: made)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise KernelError(
            f"native function '{self.name}' was called from Python",
            remedy="call it in a kernel",
        )


def func_native(
    snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None
) -> Callable[[Callable[..., Any]], NativeFunction]:
    """Make a function of the kernel language of C++ text; the decorated function is its signature.

    The text is the body of a C++17 function that is compiled with the system's compiler (``CXX``,
    c++, g++ or clang++) when a kernel that calls it is compiled. It sees each parameter under its
    name: scalars as C++ scalars; vectors and quaternions with ``.x .y .z .w`` and ``[i]``, matrices
    with ``(i, j)``; arrays with ``[i]``, ``[i][j]`` or ``(i, j)``, ``.shape[k]``, and
    ``.strides[k]`` in bytes; the components of an element are further indices. ``<cmath>`` is
    there, and ``kc::atomic_add(out[i], value)``. A result is annotated, as in ``-> float``, and
    returned.

    What a text does to an array is read off it: one whose elements it only uses in expressions is
    an input, one whose elements it only assigns with ``=`` is an output; any other array counts as
    read and written. So do arrays that are written and mentioned in ``adj_snippet``.
    A text without arrays must give the same result for the same arguments.

    Derivatives are the author's to answer for, races between threads included: those of a text are
    not checked. Reverse mode runs ``adj_snippet``, which sees the parameters, ``adj_ret``, and per
    float parameter ``x`` its cotangent ``adj_x``: values to add to, and arrays, for which ``+=``
    and ``-=`` are atomic. It sees arrays as they were after ``snippet``. Where ``snippet``
    overwrites elements whose values before count, it sets their cotangents to zero. There are no
    derivatives in forward mode, and no second ones.

    Args:
        snippet: The text.
        adj_snippet: Its adjoint; a kernel that calls it has no derivative without one.
        replay_snippet: What an adjoint runs where it needs the results of ``snippet`` again;
            default: ``snippet``.

    Raises:
        KernelTypeError: An argument that is no text.
    """
    texts = {Variant.FORWARD: snippet, Variant.ADJOINT: adj_snippet, Variant.REPLAY: replay_snippet}
    given = {variant: text for variant, text in texts.items() if text is not None}
    for text in given.values():
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelTypeError(
                f"func_native: expected C++ text, found {type(text).__name__}",
                remedy="write @func_native(snippet) above the function",
            )
    if Variant.FORWARD not in given:
        raise KernelTypeError(
            "func_native: expected C++ text, found None",
            remedy="write @func_native(snippet) above the function",
        )

    def make(pyfunc: Callable[..., Any]) -> NativeFunction:
        require_function(pyfunc, "func_native(...)")
        for name in inspect.signature(pyfunc).parameters:
            if name in _CXX_KEYWORDS:
                raise KernelTypeError(
                    f"func_native: {pyfunc.__name__}(): expected parameters that C++ text can "
                    f"name, found '{name}', a keyword of C++",
                    remedy="give the parameter another name",
                )
        return NativeFunction(Function(pyfunc.__name__, [Overload(pyfunc)]), given)

    return make


def lower_snippet_call(
    scope: Scope,
    callee: NativeFunction,
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    node: ast.Call,
) -> Value:
    """The value of calling a native function.

    Raises:
        KernelTypeError: It does not take these arguments, or its signature has types that C++ text
            cannot be passed.
    """
    loc = scope.at(node)
    snippet = snippet_of_function(callee)
    match = resolve(scope, callee.function, args, keywords, loc)
    inputs: list[Atom] = []
    for param, value, target in zip(snippet.params, match.values, match.targets, strict=True):
        given = argument(scope, value, target, loc)
        if isinstance(given, ArrayChoice):
            raise KernelTypeError(
                f"{callee.name}(): argument '{param.name}': a native function takes one array, "
                f"found {given.name}, as the path decides",
                loc,
                "call it in each branch, where the array is known",
            )
        if isinstance(given, ArrayView):
            inputs += _array_inputs(scope, callee, param.name, given, loc)
        else:
            inputs += [_typed(leaf) for leaf in flatten(given)[1]]
    scope.at(node)
    found = scope.builder.emit_all(SNIPPET, inputs, snippet=snippet)
    match snippet.result:
        case None:
            return ()
        case Dense() as type_:
            return CompositeValue(type_, tuple(found))
        case Scalar():
            return found[0]


def snippet_of_function(callee: NativeFunction) -> Snippet:
    """The texts and the signature of ``callee``.

    Raises:
        KernelTypeError: The signature has types that C++ text cannot be passed.
        KernelSyntaxError: The Python function has a body.
    """
    known = _snippets().get(callee)
    if known is None:
        definition = define(callee.function.overloads[0])
        known = _snippets()[callee] = _make_snippet(callee, definition)
    return known


@cache
def _snippets() -> WeakKeyDictionary[NativeFunction, Snippet]:
    return WeakKeyDictionary()


def _make_snippet(callee: NativeFunction, definition: Definition) -> Snippet:
    source = definition.source
    for stmt in source.tree.body:
        is_text = isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant)
        if not is_text and not isinstance(stmt, ast.Pass):
            raise KernelSyntaxError(
                f"native function '{callee.name}' has code in Python",
                source.loc(stmt),
                "its body is the snippet: write ... here",
            )
    names = {node.arg for node in definition.nodes}
    for node in definition.nodes:
        if node.arg in {"ret", *(f"adj_{name}" for name in names)}:
            raise KernelSyntaxError(
                f"native function '{callee.name}': parameter '{node.arg}' has the name of a result "
                "or of a cotangent",
                source.loc(node),
                "choose another name",
            )
    params: list[tuple[str, SnippetType]] = []
    for node, want in zip(definition.nodes, definition.wanted, strict=True):
        found = _native_type(want)
        if found is None:
            raise KernelTypeError(
                f"native function '{callee.name}': parameter '{node.arg}': C++ text cannot be "
                "passed this type",
                source.loc(node),
                _REMEDY,
            )
        params.append((node.arg, found))
    texts = callee.texts
    locs = [(variant, loc) for variant, text in texts.items() if (loc := _place(source, text))]
    return make_snippet(
        callee.name,
        params,
        _result(callee, source),
        texts[Variant.FORWARD],
        texts.get(Variant.ADJOINT),
        texts.get(Variant.REPLAY),
        tuple(locs),
    )


def _native_type(want: object) -> SnippetType | None:
    """The type that C++ text sees for a parameter of type ``want``; None if there is none."""
    found: SnippetType | None = None
    match want:
        case Scalar():
            found = want
        case Dense() if not want.is_pattern:
            found = want
        case ArrayOf(element=Scalar() as element, is_indexed=False):
            found = ArrayType(element, want.ndim)
        case ArrayOf(element=Dense() as element, is_indexed=False) if not element.is_pattern:
            shape = element.extents
            found = ArrayType(element.scalar, want.ndim + len(shape), shape)
        case _:
            pass
    if found is None or (element_type(found).is_float and element_type(found).bits == 16):
        return None
    return found


def _result(callee: NativeFunction, source: Source) -> Scalar | Dense | None:
    types = result_types(source)
    if (not types and source.tree.returns is None) or types == ():
        return None
    found = _native_type(types[0]) if types is not None and len(types) == 1 else None
    if found is None or isinstance(found, ArrayType):
        raise KernelTypeError(
            f"native function '{callee.name}': C++ text cannot return this type",
            source.loc(source.tree.returns or source.tree),
            "return one scalar, vector or matrix, and write anything else to arrays",
        )
    return found


def _array_inputs(
    scope: Scope, callee: NativeFunction, name: str, view: ArrayView, loc: SrcLoc | None
) -> list[Atom]:
    """The array that holds ``view``, and the indices that ``view`` fixes."""
    fixed = [a for a in view.axes if isinstance(a, Var | Const)]
    rest = view.axes[len(fixed) :]
    if any(not isinstance(a, Axis) or a != Axis() for a in rest):
        raise KernelTypeError(
            f"{callee.name}(): argument '{name}': a native function takes whole arrays and their "
            f"rows, found {describe_type(view)} that is sliced or looked up",
            loc,
            "pass the array, and what is needed of the slice as numbers",
        )
    (array,) = view.arrays
    return [array_of(scope, array), *fixed]


def _typed(leaf: object) -> Atom:
    assert isinstance(leaf, Var | Const)
    return leaf


def _place(source: Source, text: str) -> SrcLoc | None:
    """The first line of ``text`` in the file of ``source``, if it is found there as it is."""
    lines = source.file_text.lines
    whole = "".join(lines)
    end = sum(len(line) for line in lines[: source.tree.lineno + source.line_offset])
    at = whole.rfind(text, 0, end)
    at = whole.find(text) if at < 0 else at
    if at < 0 or not text.strip():
        return None
    line = whole.count("\n", 0, at) + 1
    return SrcLoc(source.file, line, 0, 1 << 16)
