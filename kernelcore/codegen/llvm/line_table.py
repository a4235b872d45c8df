"""Source lines of LLVM instructions, as DWARF line information that assembly shows."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kernelcore.base.errors import SrcLoc

# Metadata of other kinds have smaller numbers.
_FIRST = 100
SUBPROGRAM = f"!{_FIRST}"
_UNIT, _TYPES, _NO_TYPES, _VERSION, _MAIN_FILE = (f"!{_FIRST + k}" for k in range(1, 6))


def with_line_table(
    lines: Sequence[str], marks: Sequence[tuple[int, SrcLoc]]
) -> tuple[list[str], list[str]]:
    """The instructions of a function with their source lines, and the metadata of its module.

    Args:
        lines: Labels and instructions.
        marks: Where instructions of a source line begin, in order.
    """
    table = _Table(marks[0][1])
    found: list[str] = []
    where, following = marks[0][1], 0
    for at, line in enumerate(lines):
        while following < len(marks) and marks[following][0] <= at:
            where, following = marks[following][1], following + 1
        is_label = not line.startswith(" ")
        found.append(line if is_label else f"{line}, !dbg {table.location(where)}")
    return found, table.metadata()


class _Table:
    """The metadata of one function."""

    def __init__(self, start: SrcLoc) -> None:
        self.count = _FIRST + 6
        self.texts = [
            f"!llvm.dbg.cu = !{{{_UNIT}}}",
            f"!llvm.module.flags = !{{{_VERSION}}}",
            f'{_VERSION} = !{{i32 2, !"Debug Info Version", i32 3}}',
            f"{_MAIN_FILE} = {_file(start.file)}",
            f"{_NO_TYPES} = !{{}}",
            f"{_TYPES} = !DISubroutineType(types: {_NO_TYPES})",
            f"{_UNIT} = distinct !DICompileUnit(language: DW_LANG_C, file: {_MAIN_FILE}, "
            "isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)",
            f'{SUBPROGRAM} = distinct !DISubprogram(name: "kernel", scope: {_MAIN_FILE}, '
            f"file: {_MAIN_FILE}, line: {start.line}, type: {_TYPES}, scopeLine: {start.line}, "
            f"spFlags: DISPFlagDefinition, unit: {_UNIT})",
        ]
        self.scopes = {start.file: SUBPROGRAM}
        self.locations: dict[tuple[str, int], str] = {}

    def location(self, loc: SrcLoc) -> str:
        """The metadata of a source line."""
        key = loc.file, loc.line
        if key not in self.locations:
            text = f"!DILocation(line: {loc.line}, column: 0, scope: {self.scope(loc.file)})"
            self.locations[key] = self.add(text)
        return self.locations[key]

    def scope(self, file: str) -> str:
        """The metadata of the part of the function that comes from ``file``."""
        if file not in self.scopes:
            described = self.add(_file(file))
            text = f"!DILexicalBlockFile(scope: {SUBPROGRAM}, file: {described}, discriminator: 0)"
            self.scopes[file] = self.add(f"distinct {text}")
        return self.scopes[file]

    def add(self, text: str) -> str:
        name = f"!{self.count}"
        self.count += 1
        self.texts.append(f"{name} = {text}")
        return name

    def metadata(self) -> list[str]:
        return self.texts


def _file(path: str) -> str:
    folder, name = os.path.split(path)
    return f'!DIFile(filename: "{_escaped(name)}", directory: "{_escaped(folder)}")'


def _escaped(text: str) -> str:
    """``text`` as LLVM quotes it: other bytes than plain ASCII by their hexadecimal digits."""
    plain = text.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in plain)
