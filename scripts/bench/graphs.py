"""Graphs: how far cuts are off, by mechanism, over random cuts and over the worst that local search finds.
NOT PRIVATE: it looks at the graphs.

    python scripts/bench graphs                               # karate, and made-up graphs of 1,000 vertices
    python scripts/bench graphs --only blocks --vertices 2000 --epsilons 1 4 -o cuts.jsonl
    python scripts/bench graphs --edges edges.csv --vertices 4039

Mechanisms, each with the whole epsilon (delta 0): `noise`, randomised response; `weights`, the linear
program's or the spectral weights made of the same noise; `drawn`, the simple graph drawn from these; `even`,
the noisy number of edges spread over all pairs; `laplace`, each cut measured with its share of epsilon; `fk`
and `mw`, sessions of cuts with the least error bound on a grid for which the budget lasts. Ratios are to
`noise`. Random cuts: (S, the rest), S of every size. The worst: local search on the difference to the graph,
not for `laplace`, which answers nothing else, nor above 2,500 vertices.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.errors import BudgetExceeded
from factored_mwem.graphs import Cut, PairWeights, cuts, release_graph
from factored_mwem.graphs.norms import search_cuts
from factored_mwem.kernels.cuts import cut_sum, unpack

KARATE = Path(__file__).parents[2] / "datasets" / "karate.csv"
GRID = [0.5 * 0.8**i for i in range(24)]
"""Error bounds that sessions are tried with, as shares of the edges."""
TITLES = ("graph", "|V|", "|E|", "eps", "  mechanism", "random", "ratio", "worst", "ratio", "seconds")
WIDTHS = (-10, 7, 8, 6, -12, 10, 7, 10, 7, 9)
SEARCHED = 2500
"""Vertices up to which the worst cut is searched for."""


def random_edges(vertices: int, degree: int, rng: np.random.Generator) -> np.ndarray:
    """Erdos and Renyi's."""
    return _drawn(np.full((vertices, vertices), degree / vertices), rng)


def block_edges(vertices: int, degree: int, rng: np.random.Generator) -> np.ndarray:
    """Two halves, nine edges in ten inside one of them."""
    half = np.arange(vertices) < vertices // 2
    return _drawn(np.where(half[:, None] == half, 1.8, 0.2) * degree / vertices, rng)


def attached_edges(vertices: int, degree: int, rng: np.random.Generator) -> np.ndarray:
    """Barabasi and Albert's: few vertices have most edges."""
    import networkx

    made = networkx.barabasi_albert_graph(vertices, max(1, degree // 2), seed=int(rng.integers(2**31)))
    return np.array(made.edges)


def _drawn(share: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.argwhere(np.triu(rng.random(share.shape) < share, 1))


MADE: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "random": random_edges,
    "blocks": block_edges,
    "attached": attached_edges,
}


class Truth:
    """The graph, the random cuts, and how far weights are off."""

    def __init__(self, edges: np.ndarray, vertices: int, queries: int, rng: np.random.Generator) -> None:
        self.vertices, self.low, self.high = vertices, edges.min(axis=1), edges.max(axis=1)
        sides = rng.random((queries, vertices)) < rng.random((queries, 1))
        self.cuts = [Cut(side, ~side) for side in sides]
        self.exact = np.array([cut.count(self.low, self.high) for cut in self.cuts])

    def errors(self, weights: np.ndarray) -> dict[str, float]:
        """Over the random cuts, and over the worst found."""
        told = np.array([cut_sum(weights, cut.sources, cut.targets) for cut in self.cuts])
        found = {"random": float(np.abs(told - self.exact).max())}
        if self.vertices <= SEARCHED:
            off = np.empty((self.vertices, self.vertices))
            unpack(weights.astype(np.float64), self.vertices, off)
            off[self.low, self.high] -= 1
            off[self.high, self.low] -= 1
            worst = [Cut(each.sources, each.targets) for each in search_cuts(off)[:20]]
            found["worst"] = max(
                abs(cut_sum(weights, c.sources, c.targets) - c.count(self.low, self.high)) for c in worst
            )
        return found


def measured(truth: Truth, epsilon: float, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """A line for each mechanism."""
    edges, n, began = np.stack([truth.low, truth.high], axis=1), truth.vertices, time.perf_counter()
    made = release_graph(edges, n, epsilon=epsilon)
    seconds = time.perf_counter() - began
    yield {"mechanism": "noise"} | truth.errors(made.noisy) | {"seconds": seconds}
    assert made.weights is not None
    yield {"mechanism": "weights"} | truth.errors(made.weights.astype(np.float64)) | {"seconds": seconds}
    drawn = np.zeros(made.vertices.pairs)
    drawn[made.edges] = 1
    yield {"mechanism": "drawn"} | truth.errors(drawn) | {"seconds": seconds}
    # the two baselines are simulated: numpy's noise of the same law
    total = len(edges) + rng.laplace(0, 1 / epsilon)
    yield {"mechanism": "even"} | truth.errors(np.full(len(drawn), total / len(drawn))) | {"seconds": 0.0}
    noise = rng.laplace(0, len(truth.cuts) / epsilon, len(truth.cuts))
    yield {"mechanism": "laplace", "random": float(np.abs(noise).max()), "seconds": 0.0}
    for name, hypothesis in (("fk", "frieze-kannan"), ("mw", "multiplicative-weights")):
        yield {"mechanism": name} | asked(truth, edges, epsilon, hypothesis)


def asked(truth: Truth, edges: np.ndarray, epsilon: float, hypothesis: Any) -> dict[str, Any]:
    """A session with the least bound for which the budget lasts through all cuts; error 0 costs nothing."""
    best: dict[str, Any] = {"random": float("nan"), "seconds": 0.0}
    believed: Any = None
    for alpha in GRID:
        began = time.perf_counter()
        try:
            with cuts(edges, truth.vertices, alpha=alpha, epsilon=epsilon, hypothesis=hypothesis) as session:
                told = np.array([session.cut(cut).value for cut in truth.cuts])
                updates = session.counts["measured"]
        except BudgetExceeded:
            break
        off = float(np.abs(told - truth.exact).max())
        best = {"random": off, "bound": session.alpha, "measured": updates}
        best["seconds"] = time.perf_counter() - began
        believed = session.believed
    if best["seconds"] and isinstance(believed, PairWeights):
        best |= {"worst": truth.errors(believed.weights()).get("worst")}
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=["karate", *MADE], action="append")
    parser.add_argument(
        "--edges", type=Path, help="an edge list of whole numbers with a header, in its place"
    )
    parser.add_argument("--vertices", type=int, default=1000)
    parser.add_argument("--degree", type=int, default=20, help="mean degree of those made up")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("-o", dest="output", type=Path, help="also write JSON lines there")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    out = options.output.open("w") if options.output else None
    for title, width in zip(TITLES, WIDTHS, strict=True):
        print(f"{title:>{width}}" if width > 0 else f"{title:{-width}}", end="")
    print()
    for name in [str(options.edges.stem)] if options.edges else options.only or ["karate", *MADE]:
        vertices = options.vertices
        if options.edges or name == "karate":
            path = options.edges or KARATE
            edges = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, usecols=(0, 1))
            vertices = vertices if options.edges else 34
        else:
            edges = MADE[name](vertices, options.degree, rng)
        truth = Truth(edges, vertices, options.queries, rng)
        for epsilon in options.epsilons:
            first: dict[str, Any] = {}
            for line in measured(truth, epsilon, rng):
                first = first or line
                line |= {"graph": name, "vertices": vertices, "edges": len(edges), "epsilon": epsilon}
                _show(line, first)
                if out:
                    print(json.dumps(line), file=out, flush=True)
    return 0


def _show(line: dict[str, Any], first: dict[str, Any]) -> None:
    def pair(what: str) -> str:
        if line.get(what) is None or np.isnan(line[what]):
            return f"{'':10}{'':7}"
        return f"{line[what]:10,.0f}{line[what] / first[what]:7.2f}"

    about = f"{line['graph']:10}{line['vertices']:7,}{line['edges']:8,}{line['epsilon']:6g}  "
    print(f"{about}{line['mechanism']:10}{pair('random')}{pair('worst')}{line['seconds']:9.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
