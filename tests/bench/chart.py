"""One picture of what benchmarks found: kernels beside their peers, latencies, every goal."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from tests.bench.results import Goal

mpl.use("Agg")

COLOURS = {
    "kernelcore": "#0b6e4f",
    "kernelcore, 2 threads": "#7bc8a4",
    "Warp": "#d1495b",
    "numba": "#edae49",
    "numba, 2 threads": "#f6d8a8",
}
MET, MISSED = "#0b6e4f", "#d1495b"

Entry = Mapping[str, Any]


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw the results that there are, and write the picture to ``path``."""
    entries: Sequence[Entry] = results["results"]
    suite = [e for e in entries if e["script"] == "bench_suite"]
    others = [e for e in entries if e["script"] != "bench_suite" and e["rows"]]
    goals = [goal for entry in entries for goal in entry["goals"]]
    heights = [4.5] * (2 * len(suite)) + [0.7 + 0.28 * len(e["rows"]) for e in others]
    heights += [0.7 + 0.26 * len(goals)] if goals else []
    figure, axes = plt.subplots(
        len(heights),
        1,
        figsize=(14, sum(heights) + 2),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    left = iter(axes[:, 0])
    for entry in suite:
        for part in ("forward", "adjoint"):
            _kernels(next(left), part, entry["rows"][part])
    for entry in others:
        _times(next(left), entry)
    if goals:
        _goals(next(left), goals)
    machine = [f"{name}: {value}" for name, value in results["machine"].items()]
    lines = [", ".join(machine[:4]), ", ".join(machine[4:])]
    figure.suptitle("\n".join(lines), fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _kernels(axes: Axes, part: str, rows: Mapping[str, Mapping[str, Entry]]) -> None:
    """Groups of bars, one per kernel: how many times as long as kernelcore on one thread."""
    names = [n for n in COLOURS if any(n in row for row in rows.values())]
    width = 0.8 / max(len(names), 1)
    for at, name in enumerate(names):
        places, heights, errors = [], [], ([], [])
        for k, row in enumerate(rows.values()):
            if name in row:
                unit = row["kernelcore"]["median"]
                places.append(k + (at - (len(names) - 1) / 2) * width)
                heights.append(row[name]["median"] / unit)
                errors[0].append((row[name]["median"] - row[name]["low"]) / unit)
                errors[1].append((row[name]["high"] - row[name]["median"]) / unit)
        axes.bar(places, heights, width, label=name, color=COLOURS[name], yerr=errors, capsize=1.5)
        for x, y in zip(places, heights, strict=True):
            axes.annotate(f"{y:.2g}", (x, y), ha="center", va="bottom", fontsize=7, rotation=90)
    labels = [
        "\n".join((*name.split(), f"({_time(row['kernelcore']['median'])})"))
        for name, row in rows.items()
    ]
    axes.set_xticks(range(len(rows)), labels, fontsize=8)
    axes.set_yscale("log")
    axes.axhline(1, color="black", linewidth=0.6)
    axes.set_ylabel("time / kernelcore, one thread")
    axes.set_title(f"{part}: lower is faster; under a name the time of kernelcore, one thread")
    axes.legend(ncols=len(names), fontsize=8)
    axes.margins(y=0.2)


def _times(axes: Axes, entry: Entry) -> None:
    """A bar per row, with the quartiles."""
    rows = entry["rows"]
    values = [row["median"] for row in rows.values()]
    rows_high = [row["high"] for row in rows.values()]
    errors = (
        [row["median"] - row["low"] for row in rows.values()],
        [row["high"] - row["median"] for row in rows.values()],
    )
    colours = [COLOURS["Warp"] if "warp" in n.lower() else COLOURS["kernelcore"] for n in rows]
    axes.barh(range(len(rows)), values, color=colours, xerr=errors, capsize=1.5)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 5, max(values) * 3)
    for at, value in enumerate(values):
        axes.annotate(f"  {_time(value)}", (rows_high[at], at), va="center", fontsize=8)
    axes.set_title(entry["title"], fontsize=10)


def _time(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds * 1e3:.3g} ns"


def _goal(entry: Entry) -> Goal:
    return Goal(**{k: v for k, v in entry.items() if k != "met"})


def _goals(axes: Axes, goals: Sequence[Entry]) -> None:
    """A bar per goal: how far beyond it the figure is."""
    ratios = [g["value"] / g["goal"] if g["at_least"] else g["goal"] / g["value"] for g in goals]
    colours = [MET if g["met"] else MISSED for g in goals]
    axes.barh(range(len(goals)), ratios, color=colours, alpha=0.35)
    for at, goal in enumerate(goals):
        axes.annotate(
            str(_goal(goal)),
            (0.005, at),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
        )
    axes.set_yticks([])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_title("goals: right of the line is met", fontsize=10)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_suffix(".png"))
