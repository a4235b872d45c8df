"""How many registers the values of a kernel in PTX need, and a limit where that is few.

``ptxas`` hides latencies by registers, as many as leave an SM its threads. How many these are
differs between GPUs; those with the most threads have 32 for each, so what fits takes no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST = 32
# What ``ptxas`` needs besides values: the address of the stack, pairs at even numbers, operands of
# instructions that are several of its own; and for the functions of its own that some call.
BESIDES = 10
FOR_CALLS = 4

_ENTRY = re.compile(r"(\.entry [^{]*?\n\))(\s*\{.*?\n\})", re.DOTALL)
_DECLARED = re.compile(r"\.reg \.([a-z])(\w+)\s+%([a-z]+)<\d+>")
_REGISTER = re.compile(r"%([a-z]+)\d+\b")
_LABEL = re.compile(r"(\$\w+):")
_TARGET = re.compile(r"\$\w+")
_GUARD = re.compile(r"@!?(%\w+)\s+(.*)")
# The name, the operand before the first comma outside of braces, the rest.
_PARTS = re.compile(r"(\S+)\s+(\{[^}]*\}|[^,]*)(.*)")
_COMMENT = re.compile(r"//.*")
_WITHOUT_RESULT = ("st.", "red.", "bra", "ret", "bar", "trap", "exit", "membar", "fence")
_LAST = ("bra", "ret", "trap", "exit")
_CALLING = re.compile(r"\b(?:div|rcp|sqrt)\.rn\b|\b(?:div|rem)\.[su]64\b")
# Where control goes, or what happens there, is not seen here.
_UNKNOWN = re.compile(r"\b(call|brx)\b")


class Step(NamedTuple):
    """An instruction, or a label: which registers it writes and reads, and what may follow.

    Attributes:
        written: Registers as bits.
        read: Likewise.
        targets: Labels that it may go to.
        goes_on: Whether the next step may follow.
        label: The name of a label.
    """

    written: int = 0
    read: int = 0
    targets: tuple[str, ...] = ()
    goes_on: bool = True
    label: str = ""


def limited(ptx: str) -> str:
    """``ptx``, its entry limited to ``MOST`` registers if it does with them."""

    def with_limit(found: re.Match[str]) -> str:
        head, body = found.groups()
        besides = BESIDES + (FOR_CALLS if _CALLING.search(body) else 0)
        if _UNKNOWN.search(body) or needed(body) + besides > MOST:
            return found.group()
        return f"{head}\n.maxnreg {MOST}{body}"

    return _ENTRY.sub(with_limit, ptx)


def needed(body: str) -> int:
    """The most registers of 32 bits that hold values at once, in the order of ``body``.

    Predicates have registers of their own, and what is loaded from parameters can be loaded again.
    """
    registers = _Registers()
    steps = list(_steps(body, registers))
    widths = {
        name: 0 if kind == "p" else -(-int(bits) // 32)
        for kind, bits, name in _DECLARED.findall(body)
    }
    counted = registers.counted(widths)
    return max(sum((live & some).bit_count() for some in counted) for live in _alive(steps))


class _Registers:
    """The bit of every register, and those that hold parameters."""

    def __init__(self) -> None:
        self._bits: dict[str, int] = {}
        self.parameters = 0

    def named(self, text: str) -> int:
        """The registers that ``text`` names."""
        found = 0
        for register in _REGISTER.finditer(text):
            found |= self._bits.setdefault(register.group(), 1 << len(self._bits))
        return found

    def counted(self, widths: Mapping[str, int]) -> list[int]:
        """Sets of registers, each in as many of them as it takes registers of 32 bits."""
        sets = [0] * max(widths.values(), default=0)
        for name, bit in self._bits.items():
            for at in range(widths.get(name.strip("%0123456789"), 0)):
                sets[at] |= bit & ~self.parameters
        return sets


def _steps(body: str, registers: _Registers) -> Iterator[Step]:
    for line in _COMMENT.sub("", body).split("\n"):
        if label := _LABEL.match(line):
            yield Step(label=label[1])
            continue
        # A line of inline assembly has several instructions and declarations, in braces.
        for text in line.strip().strip("{}").split(";"):
            if (text := text.strip()) and text[0] != ".":
                yield _instruction(text, registers)


def _instruction(text: str, registers: _Registers) -> Step:
    guard = _GUARD.match(text)
    if guard is not None:
        text = guard[2]
    parts, written = _PARTS.match(text), 0
    if parts is None or text.startswith(_WITHOUT_RESULT):
        read = registers.named(text)
    else:
        name, result, rest = parts.groups()
        written, read = registers.named(result), registers.named(rest)
        is_address = name.startswith("cvta") and not read & ~registers.parameters
        if is_address or name.startswith("ld.param"):
            registers.parameters |= written
    if guard is not None:
        # What is written only sometimes else is what it was.
        read |= written | registers.named(guard[1])
    is_last = text.startswith(_LAST)
    targets = tuple(_TARGET.findall(text)) if is_last else ()
    return Step(written, read, targets, guard is not None or not is_last)


def _alive(steps: list[Step]) -> list[int]:
    """The registers whose values are still read, before every step."""
    at_labels: dict[str, int] = {}
    while True:
        before, found, live = dict(at_labels), list[int](), 0
        for step in reversed(steps):
            if not step.goes_on:
                live = 0
            for target in step.targets:
                live |= at_labels.get(target, 0)
            live = live & ~step.written | step.read
            found.append(live)
            if step.label:
                at_labels[step.label] = live
        if before == at_labels:
            return found
