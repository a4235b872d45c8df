"""The report of ``python -m kernelcore port`` as text, and the imports that it writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelcore.compat.warp.port.imports import with_own_imports
from kernelcore.compat.warp.port.reading import FileReport, Finding, Verdict, read_program


def port(path: Path, *, write: bool = False, every_line: bool = False) -> bool:
    """Print what becomes of a program, line by line; see ``read_program``.

    Args:
        path: A file of Python, or a folder of such.
        write: Whether to replace its imports of ``warp`` by those of ``kernelcore.compat.warp``.
        every_line: Whether to print the lines that run as they are, too.

    Returns:
        Whether nothing is missing.

    Raises:
        KernelError: There is no such file, or it is not Python.
    """
    reports = read_program(path)
    for report in reports:
        print("\n".join(_lines(report, every_line)))
        if write:
            text = with_own_imports(report.text)
            if text != report.text:
                report.path.write_text(text, encoding="utf-8")
                print("  imports rewritten")
    print(_summary(reports))
    return not any(r.missing for r in reports)


def _lines(report: FileReport, every_line: bool) -> Iterator[str]:
    yield str(report.path)
    source = report.text.splitlines()
    rows = [(f.line, f.verdict, _text(f)) for f in report.findings]
    if every_line:
        rows += [(n, Verdict.RUNS, source[n - 1].strip()) for n in report.runs]
    for line, verdict, text in sorted(rows, key=lambda row: row[0]):
        yield f"  {line:5} {verdict.value:8} {text}"
    differing = len({f.line for f in report.findings if not f.is_missing})
    yield (
        f"  {report.kernels} kernels and functions; lines with names of Warp: {len(report.runs)} "
        f"run as they are, {differing} differ, {len({f.line for f in report.missing})} need what "
        "is missing"
    )


def _text(finding: Finding) -> str:
    return f"{finding.name}{': ' if finding.is_missing else ' '}{finding.text}"


def _summary(reports: list[FileReport]) -> str:
    if not reports:
        return "nothing here imports warp"
    if any(r.missing for r in reports):
        return "what is missing must be written in another way; see each line"
    if any(r.findings for r in reports):
        return (
            "everything is there: `import kernelcore.compat.warp as wp` gives Warp's results, "
            "`import kernelcore as wp` those of kernelcore where lines differ"
        )
    return "everything is there, and gives the same results with `import kernelcore as wp`"
