"""HTML for notebooks: tables of texts, without style sheets or scripts of their own."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def titled(title: str, rows: Iterable[tuple[str, str]], rest: str = "") -> str:
    """A title over rows of a name and a text, and HTML below; texts are escaped."""
    lines = [
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'><code>{html.escape(text)}</code></td></tr>"
        for name, text in rows
    ]
    return f"<div><b>{html.escape(title)}</b><table>{''.join(lines)}</table>{rest}</div>"


def cells(rows: Iterable[Sequence[str]]) -> str:
    """A table of texts, which are escaped."""
    lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def preformatted(text: str) -> str:
    """Lines as they are."""
    return f"<pre>{html.escape(text)}</pre>"
