"""Effects of C++ text on the arrays that it names, decided from its tokens.

Any access that is not clearly a load, a store or a sum counts as all of them. The C++ types of the
arrays (``codegen/snippet/translation_unit.py``) enforce the decision: a text with other accesses
does not compile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelcore.base.errors import SrcLoc
from kernelcore.ir.snippet import Snippet, SnippetParam, SnippetType, Use, Variant
from kernelcore.language.types import ArrayType, Dense, Scalar

_ANYTHING = Use.LOAD | Use.STORE | Use.ADD
_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|<<=|>>=|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|::|\S"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SUMS = _words("+= -=")
_ASSIGNS = _words("*= /= %= &= |= ^= <<= >>=")
_OPENING, _CLOSING = _words("[ ("), _words("] )")
_STATEMENT_STARTS_AFTER = _words("; { } ) else")
# Tokens that may stand before, and after, an element that is only loaded.
_BEFORE = (
    _SUMS | _ASSIGNS | _words("+ - * / % < > <= >= == != && || ; , ( [ { } ? : = ! ^ | << ~ return")
)
_AFTER = _words("+ - * / % < > <= >= == != && || ; , ) ] } ? : & | ^ << >>")
# Functions that cannot write to their arguments.
_MATH = _words(
    "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 "
    "log10 log1p pow sqrt cbrt hypot erf erfc tgamma lgamma ceil floor trunc round nearbyint rint "
    "fmod remainder copysign fabs abs fmin fmax fma fdim isnan isinf isfinite signbit min max"
)
_KEYWORDS = _words("float double int bool unsigned long short if while for switch return sizeof")
_INTEGERS = {f"{s}int{bits}_t" for s in ("", "u") for bits in (8, 16, 32, 64)}
_BY_VALUE = _MATH | _KEYWORDS | _INTEGERS | {f"{name}f" for name in _MATH}


def make_snippet(
    name: str,
    params: Sequence[tuple[str, SnippetType]],
    result: Scalar | Dense | None,
    forward: str,
    adjoint: str | None = None,
    replay: str | None = None,
    locs: tuple[tuple[Variant, SrcLoc], ...] = (),
) -> Snippet:
    """The Snippet of the given texts, with their accesses to the arrays among ``params``."""
    in_derivative = set(_tokens(adjoint or "")) | set(_tokens(replay or ""))
    marked: list[SnippetParam] = []
    for param, type_ in params:
        if not isinstance(type_, ArrayType):
            marked.append(SnippetParam(param, type_))
            continue
        use = array_use(forward, param)
        if replay is not None:
            use |= array_use(replay, param)
        cotangent = Use.NONE if adjoint is None else array_use(adjoint, f"adj_{param}", sums=True)
        is_in_derivative = param in in_derivative
        marked.append(SnippetParam(param, type_, use, cotangent, is_in_derivative))
    return Snippet(name, tuple(marked), result, forward, adjoint, replay, locs=locs)


def array_use(text: str, name: str, *, sums: bool = False) -> Use:
    """The accesses that ``text`` may make to the elements of the array ``name``.

    With ``sums``, ``+=`` and ``-=`` count as sums; else as a load and a store.
    """
    if re.search(r"(?m)^\s*#", text):
        return _ANYTHING if re.search(rf"\b{name}\b", text) else Use.NONE
    tokens = _tokens(text)
    found = Use.NONE
    for at, token in enumerate(tokens):
        if token == name:
            found |= _use_at(tokens, at)
    if Use.ADD in found and not sums:
        return _ANYTHING
    return found


def _use_at(tokens: list[str], at: int) -> Use:
    before = tokens[at - 1] if at else ";"
    if tokens[at + 1 : at + 2] == ["."]:
        is_extent = tokens[at + 2 : at + 3] in (["shape"], ["strides"])
        return Use.NONE if is_extent else _ANYTHING
    end = _after_groups(tokens, at + 1)
    if end == at + 1:
        return _ANYTHING
    after = tokens[end] if end < len(tokens) else ";"
    if after == "=":
        return Use.STORE if before in _STATEMENT_STARTS_AFTER else _ANYTHING
    if after in _SUMS:
        return Use.ADD if before in _STATEMENT_STARTS_AFTER else _ANYTHING
    if before not in _BEFORE or after not in _AFTER:
        return _ANYTHING
    if _may_bind_reference(tokens, at, before, after):
        return _ANYTHING
    return Use.LOAD


def _may_bind_reference(tokens: list[str], at: int, before: str, after: str) -> bool:
    """Whether a reference may be bound to the element: in a declaration or a call."""
    if before == "=":
        return at >= 3 and tokens[at - 3] in ("&", "&&")
    if before not in ("(", ",", "{") or after not in (")", ",", "}"):
        return False
    depth = 0
    for place in range(at - 1, -1, -1):
        if tokens[place] in (")", "]", "}"):
            depth += 1
        elif tokens[place] in ("(", "[", "{"):
            if depth == 0:
                callee = tokens[place - 1] if place else ";"
                return tokens[place] == "{" or (
                    re.match(r"\w|>", callee) is not None and callee not in _BY_VALUE
                )
            depth -= 1
    return True


def _after_groups(tokens: list[str], at: int) -> int:
    """The place after the bracketed groups that start at ``at``."""
    while at < len(tokens) and tokens[at] in _OPENING:
        depth = 0
        while at < len(tokens):
            depth += (tokens[at] in _OPENING) - (tokens[at] in _CLOSING)
            at += 1
            if depth == 0:
                break
    return at


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(_SKIPPED.sub(" ", text))
