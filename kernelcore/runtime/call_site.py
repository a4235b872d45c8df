"""Call sites: lines of the user's program, for messages."""

from __future__ import annotations

import linecache
import sys

from kernelcore.base.errors import SrcLoc

_PACKAGE = __name__.partition(".")[0] + "."


def as_text(site: SrcLoc | None) -> str:
    """The file and line of a call, for a message."""
    return "an unknown line" if site is None else str(site)


def whole_line(site: SrcLoc | None) -> SrcLoc | None:
    """All of the source line of ``site``, for an error."""
    if site is None:
        return None
    text = linecache.getline(site.file, site.line).rstrip()
    return SrcLoc(site.file, site.line, len(text) - len(text.lstrip()), len(text))


# A file and a line number; cheaper than a location, which is made when it is shown.
Line = tuple[str, int]


def call_line() -> Line | None:
    """The line outside of kernelcore that called it; for kernelcore's own functions."""
    # Skips this function and its caller.
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def location(line: Line | None) -> SrcLoc | None:
    """The start of ``line``."""
    return None if line is None else SrcLoc(*line, 0, 0)


def call_site() -> SrcLoc | None:
    """The start of the line outside of kernelcore that called it."""
    return location(call_line())
