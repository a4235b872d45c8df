"""The map of addresses to kernels that Linux's perf reads: /tmp/perf-PID.map."""

from __future__ import annotations

import os
import struct
import threading

from kernelcore.base.config import config

# Lines of this process, by address: a process that it forks has a map of its own.
_lines: dict[int, str] = {}
_lock = threading.Lock()
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2


def path() -> str:
    """The file of this process; perf looks for it in this folder only."""
    return f"/tmp/perf-{os.getpid()}.map"


def add(name: str, symbol: str, code: bytes, address: int) -> None:
    """Tell perf that ``symbol`` of the object ``code``, loaded at ``address``, is kernel ``name``.

    Has no effect unless ``config.perf_map`` is set, on code of other systems than Linux, or where
    the address has a name. The whole section of the symbol has the name: it holds the functions
    that the kernel calls.
    """
    if not config.perf_map or not code.startswith(b"\x7fELF"):
        return
    found = _section_of(symbol, code)
    if found is None:
        return
    with _lock:
        if address in _lines:
            return
        offset, size = found
        _lines[address] = f"{address - offset:x} {size:x} {' '.join(name.split())}\n"
        _append(_lines[address])


def _append(text: str) -> None:
    # Python's own map (-X perf) is the same file, so nothing is truncated.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(path(), flags, 0o600)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _section_of(symbol: str, code: bytes) -> tuple[int, int] | None:
    """Where ``symbol`` lies in its section, and the bytes of the section."""
    (table,) = struct.unpack_from("<Q", code, 40)
    entry_bytes, count = struct.unpack_from("<HH", code, 58)
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(code, table + k * entry_bytes) for k in range(count)
    ]
    for _, kind, _, _, start, size, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for name, _, _, section, value, _ in _SYMBOL.iter_unpack(code[start : start + size]):
            if code.startswith(symbol.encode() + b"\0", names + name) and section < count:
                return int(value), sections[int(section)][5]
    return None


def _continue_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    if _lines:
        _append("".join(_lines.values()))


os.register_at_fork(after_in_child=_continue_in_child)
