"""Graph attention
===============

Attention over the neighbours of each node of a graph in compressed rows (CSR).

A node takes the mean of its neighbours' features, weighted by the softmax of a score of each edge.
In a graph where a third of the nodes are noise, it learns which neighbours to believe.
Source: Velickovic et al., "Graph Attention Networks", ICLR 2018, equations 1 to 4.
"""

import argparse
import math
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch

import kernelcore as kc

Floats = kc.array[float]
Ints = kc.array[int]
Table = kc.array2d[float]


@kc.func
def score(centre: float, neighbour: float) -> float:
    return kc.max(centre + neighbour, 0.2 * (centre + neighbour))


@kc.op(launch_dims="centre", output_dims="columns")
@kc.kernel
def attention(rows: Ints, columns: Ints, centre: Floats, neighbour: Floats, weights: Floats):
    i = kc.tid()  # The edges of node i are rows[i] to rows[i + 1].
    largest = -math.inf
    for e in range(rows[i], rows[i + 1]):
        largest = kc.max(largest, score(centre[i], neighbour[columns[e]]))
    total = 0.0
    for e in range(rows[i], rows[i + 1]):
        total += kc.exp(score(centre[i], neighbour[columns[e]]) - largest)
    for e in range(rows[i], rows[i + 1]):
        weights[e] = kc.exp(score(centre[i], neighbour[columns[e]]) - largest) / total


@kc.op(launch_dims="z")
@kc.kernel
def gather(rows: Ints, columns: Ints, weights: Floats, z: Table, mean: Table):
    i, f = kc.tid()
    total = 0.0
    for e in range(rows[i], rows[i + 1]):
        total += weights[e] * z[columns[e], f]
    mean[i, f] = total


class Layer(torch.nn.Module):
    """One head of attention, or of the plain mean."""

    def __init__(self, inputs: int, outputs: int, attends: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)
        self.to_score = torch.nn.Parameter(0.1 * torch.randn(outputs, 2))
        self.attends = attends

    def forward(self, rows: torch.Tensor, columns: torch.Tensor, x: torch.Tensor) -> Any:
        z = self.linear(x)
        centre, neighbour = (z @ self.to_score).T * float(self.attends)
        weights = attention(rows, columns, centre, neighbour)
        return gather(rows, columns, weights, z), weights


def noisy_graph(nodes: int, kinds: int) -> tuple[np.ndarray, ...]:
    """Rows, columns, features (nodes, kinds + 1), kinds, and which nodes are noise and say so."""
    rng = np.random.default_rng(0)
    kind, noise = rng.integers(kinds, size=nodes), rng.random(nodes) < 0.35
    x = rng.normal(0.0, 1.0, (nodes, kinds)) + np.eye(kinds)[kind]
    x[noise] = rng.normal(0.0, 3.0, (noise.sum(), kinds))
    edges = rng.random((nodes, nodes)) < np.where(kind[:, None] == kind, 16.0, 1.0) / nodes
    edges[:, noise] = rng.random((nodes, noise.sum())) < 5.0 / nodes
    edges |= np.eye(nodes, dtype=bool)
    rows = np.concatenate([[0], np.cumsum(edges.sum(1))]).astype(np.int32)
    columns = np.nonzero(edges)[1].astype(np.int32)
    return rows, columns, np.column_stack([x, noise]).astype(np.float32), kind, noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chart", nargs="?", default="graph_attention.png")
    parser.add_argument("--small", action="store_true", help="for a few seconds")
    options = parser.parse_args()
    nodes, kinds, steps = (80, 3, 20) if options.small else (3000, 5, 150)
    rows, columns, x, kind, noise = map(torch.from_numpy, noisy_graph(nodes, kinds))
    is_train = torch.arange(nodes) % 2 == 0
    is_judged = ~is_train & ~noise
    figure, (curve, bars) = plt.subplots(1, 2, figsize=(12, 4.5), constrained_layout=True)
    weights = torch.empty(0)
    for name, attends in (("mean", False), ("attention", True)):
        torch.manual_seed(0)
        layer = Layer(kinds + 1, kinds, attends)
        optimiser = torch.optim.Adam(layer.parameters(), lr=3e-2)
        shares: list[float] = []
        for _ in range(steps):
            optimiser.zero_grad()
            found, weights = layer(rows, columns, x)
            torch.nn.functional.cross_entropy(found[is_train], kind[is_train]).backward()
            optimiser.step()
            right = (found.argmax(1) == kind)[is_judged]
            shares.append(100.0 * right.float().mean().item())
        print(f"{name:9s} {shares[-1]:.1f} % of {int(is_judged.sum())} nodes right")
        curve.plot(shares, label=name)
    curve.set(title="Nodes without labels", xlabel="step of Adam", ylabel="right / %")
    curve.legend()
    times_degree = (weights * rows.diff().repeat_interleave(rows.diff())).detach()
    for name, chosen in (("noise", noise), ("other nodes", ~noise)):
        bars.hist(times_degree[chosen[columns]], bins=60, alpha=0.6, label=f"edges to {name}")
    bars.set(title="Attention", xlabel="weight, relative to the mean", ylabel="edges")
    bars.legend()
    figure.savefig(options.chart, dpi=80)


if __name__ == "__main__":
    main()
