"""Iterative database constructions of Gupta, Roth and Ullman: updates against B(alpha) under three
adversaries, error against queries in their Algorithm 1, and the last column of their Table 1, with the
constants of their proofs. NOT PRIVATE.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from factored_mwem.sessions.online.algorithm1 import Algorithm1, Terminated, sigma_of, threshold_of
from factored_mwem.sessions.online.constructions import (
    Construction,
    FriezeKannan,
    Median,
    MultiplicativeWeights,
)
from replay.drawing import canvas, frame, line
from replay.figure import Mark, Marks, Row, Table, by, grid, mark, pick, values

MW, FK, MEDIAN, RESPONSE = "multiplicative weights", "Frieze/Kannan", "median", "randomised response"
EPSILON, DELTA, BETA = 1.0, 1e-6, 0.05
ELEMENTS, RECORDS, QUERIES = 64, 1_000.0, 400
TOY, SIZE = 4, 12
"""Elements of the median's universe, and of each of its tables."""
MOST = 50_000
"""Updates after which a sequence is given up: far above every bound here."""
MANY, ASKED = 3e8, (10, 30, 100, 300, 1_000)
"""Records and numbers of queries of Algorithm 1: its constants say nothing about much smaller tables."""


COLOURS = {MW: "tab:blue", FK: "tab:red", MEDIAN: "tab:green", RESPONSE: "tab:purple"}
STYLES = {"greedy": "-", "random": "--", "alternating": ":"}
ONLINE = ("greedy", "random")
VERTICES = (10**4, 10**5, 10**6, 10**7)
DRAWN = 10**6
"""Vertices whose bounds are drawn."""


def cases(full: bool) -> list[Row]:
    """Attacks on each construction, runs of Algorithm 1, and the bounds, which need no data."""
    shares = (1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64) if full else (1 / 4, 1 / 8, 1 / 16, 1 / 32)
    seeds = range(5 if full else 1)
    attacks = {"construction": (MW, FK, MEDIAN), "adversary": STYLES, "alpha": shares, "seed": seeds}
    runs = {"construction": (MW, FK), "adversary": ONLINE, "queries": ASKED, "seed": seeds}
    return [*grid(what="updates", **attacks), *grid(what="online", **runs), {"what": "cuts"}]


def run(case: Row) -> list[Row]:
    return {"updates": attacked, "online": online, "cuts": bounds}[case["what"]](case)


# ---- what is proven


def accuracy(
    records: float, elements: float, log_queries: float, *, norm: float | None = None, median: bool = False
) -> float:
    """The alpha of equation (3), in records: Corollary 4.10 for multiplicative weights and for the median,
    Corollary 5.2 where the table's `norm` is given. `log_queries`: log(2 k / beta).
    """
    each = 3000 * math.log(4 / DELTA) * log_queries / EPSILON
    if norm is not None:
        return math.sqrt(each * norm * math.sqrt(elements))
    log_k = log_queries - math.log(2 / BETA)
    root = math.sqrt(log_k * math.log(elements)) if median else 2 * math.sqrt(math.log(elements))
    return math.sqrt(each * records * root)


def cut_bounds(vertices: int, edges: float) -> dict[str, float]:
    """The errors of all cuts, in edges."""
    pairs, log_queries = vertices * (vertices - 1) / 2, vertices * math.log(4) + math.log(2 / BETA)
    return {
        MW: accuracy(edges, pairs, log_queries),
        FK: accuracy(edges, pairs, log_queries, norm=math.sqrt(edges)),
        MEDIAN: accuracy(edges, pairs, log_queries, median=True),
        RESPONSE: math.sqrt(6 * pairs * log_queries) / EPSILON,
    }


def bounds(case: Row) -> list[Row]:
    """The errors of all cuts of graphs of a million vertices and other numbers, as shares of the edges."""
    return [
        {"what": "cuts", "construction": name, "vertices": v, "edges": edges, "share": bound / edges}
        for v in VERTICES
        for edges in map(float, np.geomspace(v, v * (v - 1) / 2, 60))
        for name, bound in cut_bounds(v, edges).items()
    ]


# ---- attacks, and Algorithm 1


def attacked(case: Row) -> list[Row]:
    """How many updates a sequence has, and the maximum error after the last."""
    rng = np.random.default_rng([8, case["seed"]])
    alpha = case["alpha"] * RECORDS
    toy = case["construction"] == MEDIAN
    queries = (rng.random((QUERIES, TOY if toy else ELEMENTS)) < 0.5).astype(np.float64)
    if toy:
        table = rng.multinomial(SIZE, rng.dirichlet(np.full(TOY, 0.5))) * (RECORDS / SIZE)
    else:
        table = rng.dirichlet(np.full(ELEMENTS, 0.3)) * RECORDS
    built, truth = construction(case["construction"], table, RECORDS, alpha), queries @ table
    for updates in range(MOST + 1):
        gaps = np.array([built.answer(query) for query in queries]) - truth
        error = float(np.abs(gaps).max())
        if error < alpha:
            break
        chosen = next_query(case["adversary"], gaps, alpha, updates + 1, rng)
        built.update(queries[chosen], truth[chosen])
    return [{**case, "updates": updates, "error": error / RECORDS, "bound": built.bound(alpha)}]


def construction(name: str, table: np.ndarray, total: float, alpha: float) -> Construction[np.ndarray]:
    """A fresh construction for a table; Frieze and Kannan's is told the table's norm."""
    if name == MEDIAN:
        return Median(len(table), total, SIZE)
    if name == FK:
        return FriezeKannan(len(table), float(np.linalg.norm(table)), alpha)
    return MultiplicativeWeights(len(table), total, alpha)


def next_query(adversary: str, gaps: np.ndarray, alpha: float, step: int, rng: np.random.Generator) -> int:
    """The next query, one that is off by alpha or more."""
    if adversary == "random":
        return int(rng.choice(np.flatnonzero(np.abs(gaps) >= alpha)))
    signed = gaps if step % 2 else -gaps
    if adversary == "alternating" and signed.max() >= alpha:
        return int(signed.argmax())
    return int(np.abs(gaps).argmax())


def online(case: Row) -> list[Row]:
    """Algorithm 1 against an adversary that knows the truth, or asks at random: the largest error of its
    answers, and its updates.
    """
    greedy, rng = case["adversary"] == "greedy", np.random.default_rng([9, case["seed"], case["queries"]])
    k = case["queries"]
    queries = (rng.random((max(k, QUERIES), ELEMENTS)) < 0.5).astype(np.float64)
    table = rng.dirichlet(np.full(ELEMENTS, 0.3)) * MANY
    norm = float(np.linalg.norm(table)) if case["construction"] == FK else None
    alpha = accuracy(MANY, ELEMENTS, math.log(2 * k / BETA), norm=norm)
    built, truth = construction(case["construction"], table, MANY, alpha), queries @ table
    bound, worst = built.bound(alpha), 0.0
    sigma = sigma_of(bound, EPSILON, DELTA)
    threshold = threshold_of(sigma, k, BETA)

    def noise(scale: float) -> float:
        return float(rng.laplace(scale=scale))

    algorithm = Algorithm1(built, lambda query: float(query @ table), noise, sigma, threshold, bound)
    for number in range(k):
        gaps = [abs(built.answer(q) - t) for q, t in zip(queries, truth, strict=True)] if greedy else []
        asked = int(np.argmax(gaps)) if greedy else number
        try:
            worst = max(worst, abs(algorithm.answer(queries[asked]) - truth[asked]))
        except Terminated:  # its updates say so, and the mark falls
            break
    shares = {"alpha": alpha / MANY, "error": worst / MANY, "guaranteed": 5 * alpha / 3 / MANY}
    return [{**case, "updates": algorithm.updates, "bound": bound, **shares}]


# ---- what is shown


def plot(rows: list[Row]) -> Any:
    """Updates under attack; error and updates in Algorithm 1; and the bounds for cuts."""
    drawn, axes = canvas(2, 2)
    ends, runs = pick(rows, what="updates"), pick(rows, what="online")
    shares, online = values(ends, "alpha"), {a: STYLES[a] for a in ONLINE}
    longest(axes[0], ends, "alpha", STYLES, {"updates": "B(alpha)"}, "bound")
    axes[0].set(xlabel="alpha", ylabel="updates", xscale="log", yscale="symlog")
    axes[0].set_xticks(shares, [f"n/{1 / x:.0f}" for x in shares])
    axes[0].minorticks_off()
    longest(axes[1], runs, "queries", online, {"error": "5 alpha / 3"}, "guaranteed")
    longest(axes[2], runs, "queries", online, {"updates": "B(alpha)"}, "bound")
    axes[1].set(xlabel="queries to Algorithm 1", ylabel="largest error / n", xscale="log", yscale="log")
    axes[2].set(xlabel="queries to Algorithm 1", ylabel="updates", xscale="log", yscale="symlog")
    for axis in (axes[0], axes[2]):
        axis.set_ylim(0)
    for name, cuts in by(pick(rows, what="cuts", vertices=DRAWN), "construction").items():
        line(axes[3], by(cuts, "edges"), "share", color=COLOURS[name], label=name)
    axes[3].axhline(1, color="0.6", linestyle=":", label="all of them")
    edges = f"edges among {DRAWN:,} vertices, all cuts"
    frame(axes[3], xscale="log", yscale="log", xlabel=edges, ylabel="bound on the error / |E|")
    return drawn


def longest(
    axis: Any, rows: list[Row], x: str, styles: Mapping[str, str], what: Mapping[str, str], proven: str
) -> None:
    """The largest of all seeds for each construction (colour) and adversary (dashes), and what is proven."""
    ((key, words),) = what.items()
    signs: dict[str, Row] = {}
    for name, some in by(rows, "construction").items():
        signs[name] = {"color": COLOURS[name]}
        for adversary, style in styles.items():
            at = by(pick(some, adversary=adversary), x)
            line(axis, at, lambda runs: max(row[key] for row in runs), style, color=COLOURS[name])
        line(
            axis,
            by(some, x),
            lambda runs: max(row[proven] for row in runs),
            "o-",
            color=COLOURS[name],
            alpha=0.4,
        )
    signs |= {adversary: {"color": "gray", "linestyle": style} for adversary, style in styles.items()}
    signs[words] = {"color": "gray", "linestyle": "-", "marker": "o", "alpha": 0.4}
    frame(axis, keyed={"signs": signs})


def tables(rows: list[Row]) -> list[Table]:
    """The longest sequence by adversary, and B(alpha)."""
    ends, lines = pick(rows, what="updates"), []
    for name in (MW, FK, MEDIAN):
        for alpha, at in reversed(by(pick(ends, construction=name), "alpha").items()):
            lengths = [str(max(row["updates"] for row in pick(at, adversary=a))) for a in STYLES]
            bound = f"{min(row['bound'] for row in at):,.0f}"
            lines.append([name, f"n / {1 / alpha:.0f}", *lengths, bound])
    caption = "Updates at most, of all seeds, and the smallest bound"
    return [Table(caption, ["", "alpha", *STYLES, "B"], lines)]


def marks(rows: list[Row]) -> Marks:
    """Inequalities of the theorems, on every sequence and run; the remarks, on the bounds themselves."""
    ends, cuts = pick(rows, what="updates"), pick(rows, what="cuts")
    return [
        *(never_longer(pick(ends, construction=name)) for name in (MW, FK, MEDIAN)),
        accurate(pick(rows, what="online")),
        dense_graphs(cuts),
        below_all(cuts),
    ]


def never_longer(ends: list[Row]) -> Mark:
    longer = sum(row["updates"] > row["bound"] for row in ends)
    unfinished = sum(row["error"] >= row["alpha"] for row in ends)
    most = max((row["updates"] / row["bound"] for row in ends), default=math.nan)
    good = bool(ends) and not longer and not unfinished
    return mark(good, longer=longer, sequences=len(ends), most=most, unfinished=unfinished)


def accurate(runs: list[Row]) -> Mark:
    wrong = sum(row["error"] > row["guaranteed"] or row["updates"] > row["bound"] for row in runs)
    allowed = BETA * len(runs) + 4 * math.sqrt(len(runs) * BETA * (1 - BETA))
    nearest = max((row["error"] / row["guaranteed"] for row in runs), default=math.nan)
    most, good = max((row["updates"] for row in runs), default=0), bool(runs) and wrong <= allowed
    return mark(good, wrong=wrong, runs=len(runs), allowed=allowed, nearest=nearest, most=most)


def dense_graphs(cuts: list[Row]) -> Mark:
    """Remark 5.3: from c |V|^2 / log |V| edges on, with the same c at every size."""
    constants, sizes = {}, by(cuts, "vertices")
    for vertices, own in sizes.items():
        share = {(row["construction"], row["edges"]): row["share"] for row in own}
        better = [edges for edges in values(own, "edges") if share[FK, edges] < share[MW, edges]]
        if better and better == values(own, "edges")[-len(better) :]:
            constants[vertices] = better[0] * math.log(vertices) / vertices**2
    steady = bool(constants) and max(constants.values()) <= 2 * min(constants.values())
    listed = [f"{c:.3f} for |V| = {v:.0e}" for v, c in constants.items()]
    return mark(steady and len(constants) == len(sizes), constants=listed)


def below_all(cuts: list[Row]) -> Mark:
    """On complete graphs, the densest."""
    densest = {}
    for name in (MW, FK):
        sizes = by(pick(cuts, construction=name), "vertices").values()
        densest[name] = [max(own, key=lambda row: row["edges"])["share"] for own in sizes]
    falls = all(
        len(shares) > 1 and all(a > b for a, b in itertools.pairwise(shares)) and shares[-1] < 1
        for shares in densest.values()
    )
    listed = "; ".join(f"{name} " + ", ".join(f"{s:.2g}" for s in shares) for name, shares in densest.items())
    return mark(falls, vertices=values(cuts, "vertices"), bounds=listed)
