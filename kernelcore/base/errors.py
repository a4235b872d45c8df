"""User-facing errors: what was expected, what was found, where, and what to do."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kernelcore.base.dataclass import dataclass
from kernelcore.base.lazy import Deferred

# Few programs have errors.
if TYPE_CHECKING:
    import difflib
else:
    difflib = Deferred("difflib")


@dataclass(frozen=True, slots=True)
class SrcLoc:
    """A span of one source line; ``line`` counts from 1, ``col`` and ``end_col`` from 0."""

    file: str
    line: int
    col: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def labelled(name: str, loc: SrcLoc | None) -> str:
    """``name`` and the place of its definition, as traces, profiles and errors show them."""
    return name if loc is None else f"{name} ({os.path.basename(loc.file)}:{loc.line})"


def suggestion(name: str, known: Sequence[str], otherwise: str | None, owner: str = "") -> Any:
    """The remedy for ``owner`` and an unknown ``name``: one among ``known`` that is alike."""
    if owner and name.lower() in ("pi", "tau", "e", "inf", "nan"):
        return f"use math.{name.lower()}: numbers of modules are constants of a kernel"
    close = difflib.get_close_matches(name, known, 1, 0.7)
    return f"did you mean '{owner}{close[0]}'?" if close else otherwise


# How threads combine what a reduction would; none: in a loop only.
_REDUCTIONS = {
    **dict.fromkeys(("sum", "mean", "dot", "norm", "std", "var"), "kc.atomic_add(total, 0, ...)"),
    "min": "kc.atomic_min(least, 0, ...)",
    "max": "kc.atomic_max(most, 0, ...)",
    **dict.fromkeys(("prod", "any", "all"), None),
}


def reduction_remedy(name: str) -> str | None:
    """The remedy for a reduction ``name`` of an array in a kernel; None for other names."""
    if name not in _REDUCTIONS:
        return None
    atomic = _REDUCTIONS[name]
    loop = "kernels reduce arrays in a loop: for j in range(len(a))"
    return f"{loop}, or all threads together with {atomic}" if atomic else loop


def excerpt(loc: SrcLoc) -> str:
    """The source line at ``loc`` with a caret run under the span."""
    head = f'  File "{loc.file}", line {loc.line}'
    text = linecache.getline(loc.file, loc.line).rstrip("\n").expandtabs(1)
    if not text:
        return head
    indent = len(text) - len(text.lstrip())
    start = max(loc.col - indent, 0)
    width = max(min(loc.end_col, len(text)) - loc.col, 1)
    return f"{head}\n    {text.strip()}\n    {' ' * start}{'^' * width}"


class KernelError(Exception):
    """Base of every error that a user of kernelcore can cause.

    Attributes:
        loc: Where in the user's source the error lies, or None.
        remedy: What to do about it, or None.
        others: Further errors of the same compilation, which the text shows too.
    """

    others: tuple[KernelError, ...] = ()

    def __init__(self, message: str, loc: SrcLoc | None = None, remedy: str | None = None) -> None:
        self.message = message
        self.loc = loc
        self.remedy = remedy
        parts = [message]
        if loc is not None:
            parts.append(excerpt(loc))
        if remedy is not None:
            parts.append(f"  help: {remedy}")
        super().__init__("\n".join(parts))


# More errors of one compilation are counted only.
_MOST_SHOWN = 10


def all_of(errors: Sequence[KernelError]) -> KernelError:
    """One error that shows all ``errors`` of one compilation, of the type of the first."""
    flat = [one for error in errors for one in (error, *error.others)]
    own: dict[tuple[str, SrcLoc | None], KernelError] = {}
    for one in flat:
        own.setdefault((one.message, one.loc), type(one)(one.message, one.loc, one.remedy))
    first, *others = own.values()
    if not others:
        return first
    shown = [str(one) for one in others[: _MOST_SHOWN - 1]]
    if len(own) > _MOST_SHOWN:
        shown.append(f"and {len(own) - _MOST_SHOWN} more")
    first.args = ("\n".join([str(first), *shown, f"{len(own)} errors"]),)
    first.others = tuple(others)
    return first


class KernelSyntaxError(KernelError):
    """Python that the kernel language does not have."""


class KernelTypeError(KernelError, TypeError):
    """Operand types that an operation does not take."""


class KernelNameError(KernelError, NameError):
    """A name that is not defined, or not defined on every path."""


class KernelWarning(UserWarning):
    """Code of a kernel that is probably not what is meant; debug mode warns of it."""


class KernelAttributeError(KernelError, AttributeError):
    """A component or a field that a value does not have."""


class KernelArgumentError(KernelError, TypeError):
    """A launch argument of the wrong dtype, rank, device, shape or access."""


class KernelPlacementError(KernelArgumentError):
    """An array that is on another device than the launch."""


class KernelDeviceError(KernelError):
    """A device that is not there, or what it or its driver refused."""


class KernelGradError(KernelError):
    """A kernel, or a line of it, that has no exact derivative."""


class KernelCompileError(KernelError):
    """The text of a native function, or (a defect of kernelcore) generated code, was rejected."""


class KernelMemoryError(KernelError, MemoryError):
    """A launch ran out of memory, for recorded values for instance."""


class KernelAssertionError(KernelError, AssertionError):
    """An ``assert`` of a kernel that did not hold at some grid point."""

    @classmethod
    def of(cls, text: str, loc: SrcLoc | None) -> KernelAssertionError:
        """The error of an ``assert`` at ``loc`` with message ``text``, which may be empty."""
        return cls(f"assertion failed: {text}" if text else "assertion failed", loc)


class KernelIndexError(KernelError, IndexError):
    """An index of a kernel that is outside of its array."""

    @classmethod
    def of(cls, text: str, loc: SrcLoc | None) -> KernelIndexError:
        """The error of an access at ``loc``; ``text`` says which index is outside of what."""
        return cls(text, loc, "guard the access, or launch over fewer points")


class KernelFiniteError(KernelError, FloatingPointError):
    """A kernel that wrote NaN or an infinity while ``config.check_finite`` is set."""

    @classmethod
    def of(cls, text: str, loc: SrcLoc | None) -> KernelFiniteError:
        """The error of a write at ``loc``; ``text`` says which thread writes what, and where."""
        remedy = "guard the operation that makes it; where it is meant: kc.check_finite(False)"
        return cls(text, loc, remedy)


# The kinds of checks that settings add to kernels: what the message of a failure starts with, and
# its error. No source text has these characters, nor the places.
CHECKS: Mapping[str, tuple[str, type[KernelIndexError | KernelFiniteError]]] = MappingProxyType(
    {"index": ("\1", KernelIndexError), "finite": ("\2", KernelFiniteError)}
)
# Where the text of a check has a number that only the launch knows.
INTEGER_PLACE, FLOAT_PLACE = "\3", "\4"


def filled(text: str, numbers: Iterable[Any]) -> str:
    """``text`` with ``numbers``, in order, at the places for them."""
    given = iter(numbers)
    shown = {INTEGER_PLACE: lambda: str(next(given)), FLOAT_PLACE: lambda: f"{next(given):g}"}
    return "".join(shown[c]() if c in shown else c for c in text)


class KernelRaceError(KernelError):
    """Threads of one launch share an element that one of them writes; Python mode tells."""


class VerifyError(KernelError):
    """Ill-formed IR; a defect of the pass that made it."""


def require_framework(name: str, adapter: str) -> None:
    """Import the framework ``name``, which the package ``adapter`` is for.

    Raises:
        ModuleNotFoundError: It is not installed; says which extra of kernelcore brings it.
    """
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        text = f"{adapter} needs {name}, which is not installed"
        remedy = f"pip install 'kernelcore[{name}]'"
        raise ModuleNotFoundError(f"{text}\n  help: {remedy}", name=name) from None
