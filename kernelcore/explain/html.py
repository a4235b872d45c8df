"""An explanation as one self-contained HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from string import Template
from typing import TYPE_CHECKING

from kernelcore.base.errors import SrcLoc

if TYPE_CHECKING:
    from kernelcore.explain.report import Explanation

escape = html.escape

_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+(?:"([^"]*)"\s+)?"([^"]*)"')
# Directives, comments, and the labels that mark line information and functions.
_NOISE = re.compile(r"\s*(\.(?!L)|#|$)|\.L(tmp|func_)\w*:|\s+\.")
# What follows the code: tables of source lines.
_TABLES = re.compile(r"\s*\.section\s+\.debug")

_PAGE = Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title</title>
<style>
  body { font: 14px/1.4 system-ui, sans-serif; margin: 0; color: #1c1c1c; background: #fff; }
  h1 { font-size: 18px; margin: 12px 16px; }
  pre { margin: 0 16px 12px; font: 12px/1.45 ui-monospace, monospace; white-space: pre-wrap; }
  main { display: grid; grid-template-columns: 1fr 1fr 1fr; gap: 1px; background: #ccc; }
  section { background: #fff; min-width: 0; }
  h2 { font-size: 14px; margin: 6px 8px; }
  .code { font: 12px/1.45 ui-monospace, monospace; height: 70vh; overflow: auto; }
  .line { white-space: pre; padding: 0 8px; min-width: max-content; }
  .line[data-at] { cursor: pointer; }
  .line.on { box-shadow: inset 4px 0 #1565c0; font-weight: 600; }
  .note { white-space: pre-wrap; padding: 0 8px 0 40px; color: #555; }
</style>
</head>
<body>
<h1>$title</h1>
<details open><summary style="margin: 0 16px">report</summary><pre>$report</pre></details>
<main>
<section><h2>source</h2><div class="code">$source</div></section>
<section><h2>IR</h2><div class="code">$ir</div></section>
<section><h2>assembly</h2><div class="code">$assembly</div></section>
</main>
<script>
  const lines = document.querySelectorAll(".line[data-at]");
  for (const line of lines) {
    line.addEventListener("click", () => {
      const at = line.dataset.at;
      for (const other of lines) other.classList.toggle("on", other.dataset.at === at);
      for (const column of document.querySelectorAll(".code")) {
        const first = column.querySelector(".line.on");
        if (first && !column.contains(line)) first.scrollIntoView({ block: "center" });
      }
    });
  }
</script>
</body>
</html>
""")


def page(
    e: Explanation, report: str, ir: Sequence[tuple[str, SrcLoc | None]], assembly: str
) -> str:
    """The page: the report above three columns, whose lines have the colour of their cost.

    Args:
        e: The explanation.
        report: Its text.
        ir: The lines of the IR with their places in the source.
        assembly: With line information.
    """
    numbered = enumerate(e.source, e.first_line)
    source = [(line, SrcLoc(e.file, number, 0, 0)) for number, line in numbered]
    return _PAGE.substitute(
        title=escape(f"{e.name}: what it compiles to"),
        report=escape(report),
        source=_column(e, source),
        ir=_column(e, ir),
        assembly=_column(e, list(instructions(assembly))),
    )


def _column(e: Explanation, lines: Sequence[tuple[str, SrcLoc | None]]) -> str:
    return "\n".join(_line(e, text, loc) for text, loc in lines)


def _line(e: Explanation, text: str, loc: SrcLoc | None) -> str:
    if loc is None:
        return f'<div class="line">{escape(text) or "&nbsp;"}</div>'
    share = e.share_of(loc)
    at = escape(f"{loc.file}:{loc.line}")
    tip = f"{at}, {100 * share:.0f} % of the estimated instructions"
    colour = f"background: rgba(230, 74, 25, {0.75 * share**0.5:.2f})"
    return (
        f'<div class="line" data-at="{at}" title="{tip}" style="{colour}">'
        f"{escape(text) or '&nbsp;'}</div>"
    )


def instructions(assembly: str) -> Iterator[tuple[str, SrcLoc | None]]:
    """The labels and instructions of ``assembly``, with the source lines of instructions."""
    files: dict[str, str] = {}
    where: SrcLoc | None = None
    for line in assembly.splitlines():
        if _TABLES.match(line):
            return
        if found := _FILE.match(line):
            number, folder, name = found.groups()
            files[number] = f"{folder}/{name}" if folder else name
        elif found := _LOCATION.match(line):
            number, at = found.groups()
            # Line 0 is code of no line.
            where = SrcLoc(files.get(number, ""), int(at), 0, 0) if int(at) else None
        elif not _NOISE.match(line):
            text = line.split("#")[0].rstrip().expandtabs(8)
            if text:
                yield text, where if text.startswith(" ") else None
