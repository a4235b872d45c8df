"""Graph attention
===============

Attention over the neighbours of each node of a graph in compressed rows (CSR).

A node averages its neighbours, weighted by the softmax of scores, and learns which are noise.
Source: Velickovic et al., "Graph Attention Networks", ICLR 2018, equations 1 to 4.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch

import kernelcore as kc

Floats = kc.array[float]
Ints = kc.array[int]


@kc.func
def score(centre: float, neighbour: float) -> float:
    return kc.max(centre + neighbour, 0.2 * (centre + neighbour))


@kc.op(launch_dims="centre", output_dims="columns")
@kc.kernel
def attention(rows: Ints, columns: Ints, centre: Floats, neighbour: Floats, weights: Floats):
    i = kc.tid()  # The edges of node i are rows[i] to rows[i + 1].
    largest = -kc.inf
    for e in range(rows[i], rows[i + 1]):
        largest = kc.max(largest, score(centre[i], neighbour[columns[e]]))
    total = 0.0
    for e in range(rows[i], rows[i + 1]):
        total += kc.exp(score(centre[i], neighbour[columns[e]]) - largest)
    for e in range(rows[i], rows[i + 1]):
        weights[e] = kc.exp(score(centre[i], neighbour[columns[e]]) - largest) / total


@kc.op(launch_dims="z")
@kc.kernel
def gather(rows: Ints, columns: Ints, weights: Floats, z: kc.array2d[float], y: kc.array2d[float]):
    i, f = kc.tid()
    total = 0.0
    for e in range(rows[i], rows[i + 1]):
        total += weights[e] * z[columns[e], f]
    y[i, f] = total


def noisy_graph(nodes: int, kinds: int) -> tuple[np.ndarray, ...]:
    """Rows, columns, features (nodes, kinds + 1), kinds, and which nodes are noise and say so."""
    rng = np.random.default_rng(0)
    kind, noise = rng.integers(kinds, size=nodes), rng.random(nodes) < 0.35
    x = rng.normal(0.0, 1.0, (nodes, kinds)) + np.eye(kinds)[kind]
    x[noise] = rng.normal(0.0, 3.0, (noise.sum(), kinds))
    edges = rng.random((nodes, nodes)) < np.where(kind[:, None] == kind, 16.0, 1.0) / nodes
    edges[:, noise] = rng.random((nodes, noise.sum())) < 5.0 / nodes
    np.fill_diagonal(edges, True)
    rows = np.concatenate([[0], np.cumsum(edges.sum(1))]).astype(np.int32)
    columns = np.nonzero(edges)[1].astype(np.int32)
    return rows, columns, np.column_stack([x, noise]).astype(np.float32), kind, noise


def main(small: bool) -> None:
    nodes, kinds, steps = (80, 3, 20) if small else (3000, 5, 150)
    rows, columns, x, kind, noise = map(torch.from_numpy, noisy_graph(nodes, kinds))
    is_train = torch.arange(nodes) % 2 == 0
    is_judged = ~is_train & ~noise
    figure, (curve, bars) = plt.subplots(1, 2, figsize=(12, 4.5), constrained_layout=True)
    weights = torch.empty(0)
    for name, attends in (("mean", 0.0), ("attention", 1.0)):
        torch.manual_seed(0)
        linear = torch.nn.Linear(kinds + 1, kinds)
        to_score = torch.nn.Parameter(0.1 * torch.randn(kinds, 2))
        optimiser = torch.optim.Adam([*linear.parameters(), to_score], lr=3e-2)
        shares: list[float] = []
        for _ in range(steps):
            optimiser.zero_grad()
            z = linear(x)
            centre, neighbour = attends * (z @ to_score).T  # Scores of 0 give the plain mean.
            weights = attention(rows, columns, centre, neighbour)
            found = gather(rows, columns, weights, z)
            torch.nn.functional.cross_entropy(found[is_train], kind[is_train]).backward()
            optimiser.step()
            shares.append(100.0 * (found.argmax(1) == kind)[is_judged].float().mean().item())
        print(f"{name:9s} {shares[-1]:.1f} % of {int(is_judged.sum())} nodes right")
        curve.plot(shares, label=name)
    curve.set(title="Nodes without labels", xlabel="step of Adam", ylabel="right / %")
    curve.legend()
    times_degree = (weights * rows.diff().repeat_interleave(rows.diff())).detach()
    bars.hist(times_degree[noise[columns]], bins=60, alpha=0.6, label="edges to noise")
    bars.hist(times_degree[~noise[columns]], bins=60, alpha=0.6, label="edges to other nodes")
    bars.set(title="Attention", xlabel="weight, relative to the mean", ylabel="edges")
    bars.legend()
    figure.savefig("graph_attention.png", dpi=80)


if __name__ == "__main__":
    main(small="--small" in sys.argv)
