"""The chart of ``bench_frameworks``: our time over that of the best alternative, by operator."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

mpl.use("Agg")

KINDS = {
    "forward": ("o", "#0b6e4f"),
    "gradient": ("s", "#2e6fbb"),
    "gradient, expanded": ("^", "#edae49"),
}
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw a panel for each number of threads, a line for each operator."""
    operators = list(dict.fromkeys(row["operator"] for row in rows))
    threads = sorted({row["threads"] for row in rows})
    figure, panels = plt.subplots(
        1,
        len(threads),
        figsize=(3.2 + 4.2 * len(threads), 1.4 + 0.3 * len(operators)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axes, count in zip(panels[0], threads, strict=True):
        _panel(axes, operators, [row for row in rows if row["threads"] == count])
    axes = panels[0][0]
    axes.set_yticks(range(len(operators)), operators, fontsize=8)
    axes.set_ylim(len(operators) - 0.4, -0.6)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(KINDS), fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(axes: Axes, operators: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    for kind, (marker, colour) in KINDS.items():
        found = {row["operator"]: row["ratio"] for row in rows if row["kind"] == kind}
        places = [operators.index(name) for name in found]
        axes.scatter(list(found.values()), places, 26, colour, marker=marker, label=kind, zorder=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.axvspan(1e-3, 1, color="#0b6e4f", alpha=0.06)
    axes.set_xscale("log")
    ratios = [row["ratio"] for row in rows]
    axes.set_xlim(min(*ratios, 0.5) / 1.4, max(*ratios, 2) * 1.4)
    axes.set_xticks(TICKS)
    axes.set_xlim(min(*ratios, 0.5) / 1.4, max(*ratios, 2) * 1.4)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="y", linewidth=0.3)
    many = f"{rows[0]['threads']} thread{'s' if rows[0]['threads'] > 1 else ''}"
    axes.set_title(f"{many}: geometric mean {geometric_mean(ratios):.2f}", fontsize=10)
    axes.set_xlabel("time / best of torch, torch.compile, jax.jit, Warp", fontsize=8)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text())["rows"], Path(sys.argv[2]))
