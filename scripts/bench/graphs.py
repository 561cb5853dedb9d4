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

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import networkx
import numpy as np
from common.runner import Benchmark, Options, Row
from common.tables import BUNDLED

from factored_mwem.errors import BudgetExceeded
from factored_mwem.kernels.cuts import cut_sum, unpack
from factored_mwem.sessions.graph import Cut, PairWeights, cuts, release_graph
from factored_mwem.sessions.graph.norms import search_cuts

GRID = [0.5 * 0.8**i for i in range(24)]
"""Error bounds that sessions are tried with, as shares of the edges."""
SEARCHED = 2500
"""Vertices up to which the worst cut is searched for."""


@dataclass(frozen=True, kw_only=True)
class Graphs(Options):
    only: tuple[Literal["karate", "random", "blocks", "attached"], ...] = ()
    edges: Annotated[Path | None, "an edge list of whole numbers with a header, in their place"] = None
    vertices: int = 1000
    degree: int = 20
    epsilons: tuple[float, ...] = (1.0,)
    queries: int = 200


def made_up(name: str, vertices: int, degree: int, rng: np.random.Generator) -> np.ndarray:
    """Erdos and Renyi's; two halves, nine edges in ten inside one of them; Barabasi and Albert's, in which
    few vertices have most edges.
    """
    share, seed = degree / vertices, int(rng.integers(2**31))
    if name == "attached":
        made = networkx.barabasi_albert_graph(vertices, max(1, degree // 2), seed=seed)
    elif name == "blocks":
        halves = [vertices // 2, vertices - vertices // 2]
        inside = [[1.8 * share, 0.2 * share], [0.2 * share, 1.8 * share]]
        made = networkx.stochastic_block_model(halves, inside, seed=seed)
    else:
        made = networkx.fast_gnp_random_graph(vertices, share, seed=seed)
    return np.array(made.edges)


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
    edges, began = np.stack([truth.low, truth.high], axis=1), time.perf_counter()
    made = release_graph(edges, truth.vertices, epsilon=epsilon)
    seconds = time.perf_counter() - began
    drawn = np.zeros(made.vertices.pairs)
    drawn[made.edges] = 1
    assert made.weights is not None
    ways = {"noise": made.noisy, "weights": made.weights.astype(np.float64), "drawn": drawn}
    for name, weights in ways.items():
        yield {"mechanism": name, **truth.errors(weights), "seconds": seconds}
    # the two baselines are simulated: numpy's noise of the same law
    total = len(edges) + rng.laplace(0, 1 / epsilon)
    even = truth.errors(np.full(len(drawn), total / len(drawn)))
    yield {"mechanism": "even", **even, "seconds": 0.0}
    noise = rng.laplace(0, len(truth.cuts) / epsilon, len(truth.cuts))
    yield {"mechanism": "laplace", "random": float(np.abs(noise).max()), "seconds": 0.0}
    for name, hypothesis in (("fk", "frieze-kannan"), ("mw", "multiplicative-weights")):
        yield {"mechanism": name, **asked(truth, edges, epsilon, hypothesis)}


def asked(truth: Truth, edges: np.ndarray, epsilon: float, hypothesis: Any) -> dict[str, Any]:
    """A session with the least bound for which the budget lasts through all cuts; error 0 costs nothing."""
    best: dict[str, Any] = {"random": float("nan"), "seconds": 0.0}
    believed: Any = None
    for alpha in GRID:
        began = time.perf_counter()
        try:
            with cuts(edges, truth.vertices, alpha=alpha, epsilon=epsilon, hypothesis=hypothesis) as session:
                told = np.array([session.cut(cut).value for cut in truth.cuts])
        except BudgetExceeded:
            break
        best = {"random": float(np.abs(told - truth.exact).max()), "seconds": time.perf_counter() - began}
        best |= {"bound": session.alpha, "measured": session.counts["measured"]}
        believed = session.believed
    if isinstance(believed, PairWeights):
        best["worst"] = truth.errors(believed.weights()).get("worst")
    return best


def compared(options: Graphs, folder: Path) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    names = (
        [options.edges.stem] if options.edges else options.only or ("karate", "random", "blocks", "attached")
    )
    for name in names:
        vertices = options.vertices
        if options.edges or name == "karate":
            path = options.edges or BUNDLED / "karate.csv"
            edges = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64, usecols=(0, 1))
            vertices = vertices if options.edges else 34
        else:
            edges = made_up(name, vertices, options.degree, rng)
        truth = Truth(edges, vertices, options.queries, rng)
        for epsilon in options.epsilons:
            about = {"graph": name, "vertices": vertices, "edges": len(edges), "epsilon": epsilon}
            for line in measured(truth, epsilon, rng):
                yield {**about, **line}


RANDOM = "random = {random:,.0f} | ratio = {random/:.2f}"
WORST = "worst = {worst:,.0f} | ratio of worst = {worst/:.2f} | seconds = {seconds:.1f}"
KEY = "graph vertices edges epsilon mechanism"
graphs = Benchmark(Graphs, compared, KEY, f"{RANDOM} | {WORST}", base="noise", also=("bound", "measured"))
