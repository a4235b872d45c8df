"""Keeps a picture of every page of a built site, as Chromium draws it.

``python -m tests.site.pictures SITE FOLDER``; fails if a script of a page reports an error.
"""

# Qt's browser is installed for this program alone.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = "--no-sandbox --disable-gpu"

from PyQt6.QtCore import QEventLoop, QTimer, QUrl
from PyQt6.QtWebEngineWidgets import QWebEngineView
from PyQt6.QtWidgets import QApplication

from tests.explain.browser import Page

WIDTH, HEIGHT = 1280, 1600
DRAWN_AFTER_MS = 300


def main() -> int:
    """Run the command line; returns the exit status."""
    site, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    app = QApplication(sys.argv)
    view, page = QWebEngineView(), Page()
    view.setPage(page)
    view.resize(WIDTH, HEIGHT)
    view.show()
    for path in sorted(site.rglob("*.html")):
        waiting = QEventLoop()
        page.loadFinished.connect(
            lambda _, end=waiting.quit: QTimer.singleShot(DRAWN_AFTER_MS, end)
        )
        page.load(QUrl.fromLocalFile(str(path)))
        waiting.exec()
        page.loadFinished.disconnect()
        name = "-".join(path.relative_to(site).with_suffix("").parts)
        view.grab().save(str(folder / f"{name}.png"))
    print("\n".join(page.messages) or "no page complains")
    app.quit()
    return len(page.messages) > 0


if __name__ == "__main__":
    sys.exit(main())
