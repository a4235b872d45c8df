"""Opens a page in Chromium, clicks on its dearest line, and keeps a screenshot.

``python -m tests.explain.browser PAGE PICTURE``; fails if the page reports an error, or if the
click does not mark lines of the source, the IR and the assembly.
"""

# Qt's browser is installed for this program alone.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import os
import sys

os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = "--no-sandbox --disable-gpu"

from PyQt6.QtCore import QTimer, QUrl
from PyQt6.QtWebEngineCore import QWebEnginePage
from PyQt6.QtWebEngineWidgets import QWebEngineView
from PyQt6.QtWidgets import QApplication

CLICK = """
const costs = [...document.querySelectorAll(".code")[0].querySelectorAll(".line[data-at]")];
const share = (line) => parseFloat(line.title.split(", ")[1]);
costs.sort((a, b) => share(b) - share(a))[0].click();
const marked = [...document.querySelectorAll(".code")].map((c) => c.querySelectorAll(".on").length);
JSON.stringify(marked)
"""


class Page(QWebEnginePage):
    """A page that keeps what its scripts report."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def javaScriptConsoleMessage(self, level: object, message: str, *_: object) -> None:
        self.messages.append(f"{level}: {message}")


def main() -> int:
    file, picture = sys.argv[1:3]
    app = QApplication(sys.argv)
    view, page = QWebEngineView(), Page()
    view.setPage(page)
    view.resize(1500, 1000)
    marked: list[int] = []

    def grab() -> None:
        view.grab().save(picture)
        app.quit()

    def clicked(found: str) -> None:
        marked.extend(json.loads(found))
        QTimer.singleShot(500, grab)

    page.loadFinished.connect(lambda _: page.runJavaScript(CLICK, clicked))
    QTimer.singleShot(30_000, app.quit)
    view.load(QUrl.fromLocalFile(os.path.abspath(file)))
    view.show()
    app.exec()
    print(f"lines marked in source, IR and assembly: {marked}; messages: {page.messages}")
    return 0 if len(marked) == 3 and all(marked) and not page.messages else 1


if __name__ == "__main__":
    raise SystemExit(main())
