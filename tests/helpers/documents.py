"""The code blocks of a document as a script, and what they are to print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

# A block of Python and, when one follows at once, the block with its output.
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
# It begins the output of a block, in which it cannot occur.
MARK = "\x1e"


@dataclass(frozen=True, slots=True)
class Block:
    """Code that starts at ``line`` of a document, and its output, where the document shows one."""

    line: int
    code: str
    output: str | None


def blocks(path: Path) -> list[Block]:
    """The blocks of Python in the Markdown file ``path``."""
    text = path.read_text(encoding="utf-8")
    return [
        Block(text.count("\n", 0, m.start("code")) + 1, m["code"], m["output"])
        for m in BLOCK.finditer(text)
    ]


def script(found: list[Block]) -> str:
    """One program of all blocks, each at its line of the document, for errors to name."""
    lines: list[str] = []
    for block in found:
        # The line with the fence has nothing of the program.
        lines += [""] * (block.line - 2 - len(lines))
        lines += [f"print({MARK!r})", *block.code.splitlines()]
    return "\n".join(lines) + "\n"


def wrong_outputs(found: list[Block], printed: str) -> list[str]:
    """What blocks printed where their document shows something else; ``...`` is any text."""
    wrong: list[str] = []
    for block, text in zip(found, printed.split(f"{MARK}\n")[1:], strict=True):
        if block.output is None:
            continue
        pattern = ".*?".join(re.escape(part) for part in block.output.strip().split("..."))
        if not re.fullmatch(pattern, text.strip(), re.DOTALL):
            wrong.append(f"line {block.line} prints:\n{text}\ninstead of:\n{block.output}")
    return wrong
