"""Follows the links between the pages of a built site: ``python -m tests.site.links SITE``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the names of places in it that links may end in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[name] or "" for name in ("id", "name") if name in found}
        self.links += [found[name] or "" for name in ("href", "src") if name in found]


def broken_links(site: Path) -> Iterator[str]:
    """The links between pages of ``site`` that lead nowhere."""
    pages = {p: Page(p.read_text(encoding="utf-8")) for p in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_place = not parts.fragment or target not in pages
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} does not exist"
            elif not is_place and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link} has no such place"


def main() -> int:
    """Run the command line; returns the exit status."""
    wrong = list(broken_links(Path(sys.argv[1]).resolve()))
    print("\n".join(wrong) or "every link leads somewhere")
    return len(wrong) > 0


if __name__ == "__main__":
    sys.exit(main())
