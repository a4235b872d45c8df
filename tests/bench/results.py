"""What a benchmark found: printed, and kept where ``run.py`` collects it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.bench.timing import Timing

# Set by run.py: a file that every benchmark appends its results to, a line of JSON each.
RESULTS_VARIABLE = "KC_BENCH_RESULTS"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, and what it is to be."""

    name: str
    value: float
    unit: str
    goal: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the figure is what it is to be."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        verdict = "met" if self.met else "missed"
        value = f"{self.value:.3g} {self.unit}".rstrip()
        return f"{self.name}: {value}, goal {sign} {self.goal:g}: {verdict}"


def show(title: str, timings: Mapping[str, Timing], ours: str, goals: Sequence[Goal] = ()) -> None:
    """Print times with their spread and as multiples of ``ours``, then ``goals``; keep both."""
    print(f"\n{title}")
    for name, t in timings.items():
        ratio = t.median / timings[ours].median
        print(f"  {name:44s} {t.median:10.2f} us +- {t.spread / 2:4.0%}   x{ratio:.2f}")
    for goal in goals:
        print(f"  {goal}")
    record(title, {name: asdict(t) for name, t in timings.items()}, goals)


def record(title: str, rows: Any, goals: Sequence[Goal] = ()) -> None:
    """Keep ``rows``, which JSON can hold, and ``goals`` under ``title``."""
    path = os.environ.get(RESULTS_VARIABLE)
    if path is None:
        return
    entry = {"title": title, "rows": rows, "goals": [asdict(g) | {"met": g.met} for g in goals]}
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
