"""The records of a Tape as the text of a graph: arrays, and the events between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelcore.autograd.records import Record
from kernelcore.runtime.array.array import Array


class _Language(NamedTuple):
    """The lines of a language; ``escapes`` are replacements in labels."""

    begin: str
    array: str
    event: str
    edge: str
    end: str
    escapes: Mapping[str, str]


LANGUAGES = {
    "dot": _Language(
        "digraph tape {{\n  rankdir={};\n",
        '  {} [shape=ellipse, label="{}"];\n',
        '  {} [shape=box, label="{}"];\n',
        "  {} -> {};\n",
        "}\n",
        {"\\": "\\\\", '"': '\\"'},
    ),
    "mermaid": _Language(
        "flowchart {}\n", '  {}(["{}"])\n', '  {}["{}"]\n', "  {} --> {}\n", "", {'"': "#quot;"}
    ),
}


def graph_text(
    language: str, records: Sequence[Record], labels: Mapping[Array, str], direction: str
) -> str:
    """The graph in the language of Graphviz, 'dot', or of Mermaid, 'mermaid'."""
    form = LANGUAGES[language]
    escapes = str.maketrans(dict(form.escapes))
    known: dict[Array, str] = {}
    arrays, events, edges = "", "", ""
    for n, record in enumerate(records):
        for array in (*record.inputs, *record.outputs):
            if array not in known:
                known[array] = f"a{len(known)}"
                name = labels.get(array) or record.name_of(array)
                gradient = ", grad" if array.requires_grad else ""
                text = f"{name}: {array.element} {array.shape}{gradient}".translate(escapes)
                arrays += form.array.format(known[array], text)
        events += form.event.format(f"s{n}", record.label.translate(escapes))
        edges += "".join(form.edge.format(known[a], f"s{n}") for a in record.inputs)
        edges += "".join(form.edge.format(f"s{n}", known[a]) for a in record.outputs)
    return form.begin.format(direction) + arrays + events + edges + form.end
