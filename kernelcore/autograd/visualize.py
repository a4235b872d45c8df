"""What a Tape recorded as the text of a graph: arrays, and what happened between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelcore.autograd.records import Record
from kernelcore.runtime.array.array import Array


@dataclass(slots=True)
class Graph:
    """Nodes by identifier, and edges between identifiers.

    Attributes:
        arrays: The text of arrays.
        steps: The text of launches, copies and functions.
        edges: Pairs, in order.
    """

    arrays: dict[str, str] = field(default_factory=dict[str, str])
    steps: dict[str, str] = field(default_factory=dict[str, str])
    edges: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def dot_text(records: Sequence[Record], labels: Mapping[Array, str], direction: str) -> str:
    """The graph in the language of Graphviz."""
    graph = _graph(records, labels)
    lines = ["digraph tape {", f"  rankdir={direction};"]
    lines += [f'  {n} [shape=ellipse, label="{_escaped(t)}"];' for n, t in graph.arrays.items()]
    lines += [f'  {n} [shape=box, label="{_escaped(t)}"];' for n, t in graph.steps.items()]
    lines += [f"  {a} -> {b};" for a, b in graph.edges]
    return "\n".join([*lines, "}", ""])


def mermaid_text(records: Sequence[Record], labels: Mapping[Array, str], direction: str) -> str:
    """The graph in the language of Mermaid."""
    graph = _graph(records, labels)
    lines = [f"flowchart {direction}"]
    lines += [f'  {n}(["{_quoted(t)}"])' for n, t in graph.arrays.items()]
    lines += [f'  {n}["{_quoted(t)}"]' for n, t in graph.steps.items()]
    lines += [f"  {a} --> {b}" for a, b in graph.edges]
    return "\n".join([*lines, ""])


def _graph(records: Sequence[Record], labels: Mapping[Array, str]) -> Graph:
    graph = Graph()
    known: dict[Array, str] = {}

    def node(array: Array, record: Record) -> str:
        if array not in known:
            known[array] = f"a{len(known)}"
            name = labels.get(array) or record.name_of(array)
            gradient = ", grad" if array.requires_grad else ""
            graph.arrays[known[array]] = f"{name}: {array.element} {array.shape}{gradient}"
        return known[array]

    for n, record in enumerate(records):
        step = f"s{n}"
        graph.steps[step] = record.label
        graph.edges += [(node(a, record), step) for a in record.inputs]
        graph.edges += [(step, node(a, record)) for a in record.outputs]
    return graph


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;")
