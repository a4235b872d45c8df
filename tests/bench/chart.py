"""One picture of what benchmarks found: kernels beside their peers, latencies, every goal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from tests.bench.results import Goal

mpl.use("Agg")

COLOURS = {
    "kernelcore": "#0b6e4f",
    "kernelcore, 2 threads": "#7bc8a4",
    "Warp": "#d1495b",
    "numba": "#edae49",
    "numba, 2 threads": "#f6d8a8",
}
OURS = "kernelcore"
PEERS = {"warp": "#d1495b", "numba": "#edae49"}
OTHERS = "#555555"
# Inches.
HEAD, ROW = 0.9, 0.3
# Entries with more timings have a row for each.
MOST_IN_A_ROW = 3
# Bars end there.
MOST_TIMES = 100.0
MET, MISSED = "#0b6e4f", "#d1495b"

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Panel:
    """Axes with a row per title: the timings of its contenders."""

    title: str
    rows: Mapping[str, Mapping[str, Entry]]

    def __len__(self) -> int:
        return len(self.rows)


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw the results that there are, and write the picture to ``path``.

    Kernels are at the top; below them other times at the left, and goals at the right.
    """
    entries: Sequence[Entry] = results["results"]
    suite = [e for e in entries if e["script"] == "bench_suite"]
    others = [e for e in entries if e["script"] != "bench_suite" and e["rows"]]
    panels = list(_panels(others))
    goals = [goal for entry in entries for goal in entry["goals"]]
    heights = [HEAD + ROW * len(panel) for panel in panels] or [HEAD]
    below = max(sum(heights), HEAD + ROW * len(goals))
    above = 9.0 * len(suite)
    figure = plt.figure(figsize=(18, above + below + 1), layout="constrained")
    parts = figure.subfigures(2, 1, height_ratios=[max(above, 0.1), below], squeeze=False)
    top, bottom = parts[:, 0]
    if suite:
        for axes, part in zip(top.subplots(2, 1), ("forward", "adjoint"), strict=True):
            _kernels(axes, part, suite[0]["rows"][part])
    left, right = bottom.subfigures(1, 2, squeeze=False)[0]
    if panels:
        # Rows are equally high in both columns.
        blank = max(below - sum(heights), 0.01)
        count = len(panels) + 1
        axes = left.subplots(count, 1, height_ratios=[*heights, blank], squeeze=False)[:, 0]
        axes[-1].set_axis_off()
        for panel, at in zip(panels, axes[:-1], strict=True):
            _times(at, panel)
    if goals:
        used = HEAD + ROW * len(goals)
        ratios = [used, max(below - used, 0.01)]
        axes = right.subplots(2, 1, height_ratios=ratios)
        axes[1].set_axis_off()
        _goals(axes[0], goals)
    machine = [f"{name}: {value}" for name, value in results["machine"].items()]
    lines = [", ".join(machine[:4]), ", ".join(machine[4:])]
    figure.suptitle("\n".join(lines), fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panels(entries: Sequence[Entry]) -> Iterator[Panel]:
    """What is drawn on common axes: entries of few rows together per script, any other alone."""
    for script, group in groupby(entries, key=lambda e: e["script"]):
        found = list(group)
        small = [e for e in found if len(e["rows"]) <= MOST_IN_A_ROW]
        if small:
            yield Panel(script, {e["title"]: e["rows"] for e in small})
        for entry in found:
            if len(entry["rows"]) > MOST_IN_A_ROW:
                rows = {name: {name: timing} for name, timing in entry["rows"].items()}
                yield Panel(f"{script}: {entry['title']}", rows)


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


def _times(axes: Axes, panel: Panel) -> None:
    """A line per row with a dot per contender, its quartiles and its name."""
    for at, (title, timings) in enumerate(panel.rows.items()):
        for number, (name, timing) in enumerate(timings.items()):
            middle = timing["median"]
            spread = [[middle - timing["low"]], [timing["high"] - middle]]
            colour = _colour(name)
            axes.errorbar(middle, at, xerr=spread, fmt="o", color=colour, markersize=4, capsize=2)
            text = _time(middle) if name in (title, OURS) else f"{_time(middle)}, {name}"
            axes.annotate(
                text,
                (middle, at),
                # Dots may be close.
                xytext=(0, 5 if number % 2 == 0 else -9),
                textcoords="offset points",
                ha="center",
                fontsize=6,
                color=colour,
            )
    axes.set_yticks(range(len(panel.rows)), list(panel.rows), fontsize=8)
    axes.set_ylim(len(panel.rows) - 0.5, -0.8)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.margins(x=0.12)
    axes.grid(axis="y", linewidth=0.3)
    axes.set_xlabel("microseconds of one call", fontsize=7)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(panel.title, fontsize=10)


def _colour(name: str) -> str:
    """By whose program it is."""
    known = (c for peer, c in PEERS.items() if peer in name.lower())
    return next(known, COLOURS[OURS] if OURS in name.lower() else OTHERS)


def _time(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds * 1e3:.3g} ns"


def _goal(entry: Entry) -> Goal:
    return Goal(**{k: v for k, v in entry.items() if k != "met"})


def _times_as_good(goal: Goal) -> float:
    """How far the figure is beyond the goal; it may be 0."""
    if goal.at_least:
        return max(goal.value / goal.goal, 1 / MOST_TIMES)
    return goal.goal / max(goal.value, goal.goal / MOST_TIMES)


def _goals(axes: Axes, goals: Sequence[Entry]) -> None:
    """A bar per goal: how far beyond it the figure is."""
    ratios = [_times_as_good(_goal(g)) for g in goals]
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
    axes.margins(y=0.01)
    axes.set_xlabel("how many times as good as the goal", fontsize=7)
    axes.set_title("goals: right of the line is met", fontsize=10)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_suffix(".png"))
