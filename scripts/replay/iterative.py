"""Iterative database constructions of Gupta, Roth and Ullman: updates against B(alpha) under three
adversaries, error against queries in their Algorithm 1, and the last column of their Table 1. NOT PRIVATE.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replay.attacks import ASKED, ELEMENTS, MANY, QUERIES, RECORDS, SIZE, TOY, attacked, online
from replay.bounds import BETA, DELTA, EPSILON, FK, MEDIAN, MW, RESPONSE, accuracy, cut_bounds
from replay.figure import GRU, Claim, Row, Table, canvas, key, mark, pick, save, values

COLOURS = {MW: "tab:blue", FK: "tab:red", MEDIAN: "tab:green", RESPONSE: "tab:purple"}
STYLES = {"greedy": "-", "random": "--", "alternating": ":"}
ONLINE = ("greedy", "random")
BOUND: Row = {"linestyle": "-", "marker": "o", "alpha": 0.4}
VERTICES = (10**4, 10**5, 10**6, 10**7)
DRAWN = 10**6
"""Vertices whose bounds are drawn."""

SOURCE = GRU
TITLE = "Iterative constructions: Gupta, Roth and Ullman"
SETTINGS = (
    f"Updates: a table of {RECORDS:,.0f} records over {ELEMENTS} elements with Dirichlet(0.3) shares, and "
    f"{QUERIES} queries, each a random half of the elements; the median, which keeps every small table, has "
    f"{TOY} elements, tables of {SIZE}, and one of them is the truth. Adversaries know the truth and ask "
    "only what is off by alpha or more: the worst query; any; the worst that is too high and the worst "
    "that is too low in turn. Algorithm 1 with sigma = 1000 sqrt(B) log(4/delta) / epsilon, T = 4 sigma "
    "log(2k/beta) and alpha from equation 3 (the constants are not legible in the text that was replayed: "
    "these are ones under which the legible steps of its proof go through), epsilon = "
    f"{EPSILON:g}, delta = {DELTA:g}, beta = {BETA:g}, over {MANY:.0e} records, because it says nothing "
    f"about many fewer, {ELEMENTS} elements, seeded noise, against the greedy adversary and random queries. "
    "The bounds are those of Corollaries 4.10 and 5.2 and Lemma 6.1 with these constants; for cuts k = "
    "4^|V|, |X| = |V| (|V| - 1) / 2 and n = |E|; Frieze/Kannan's general bound is that of tables without a "
    "record twice. The columns of earlier bounds of Table 1 are not legible and are left out, as is the "
    "K-norm mechanism. Two seeds of NumPy's default generator (five in full): the attacks [8, seed], "
    "Algorithm 1 [9, seed, k]. Steady, a factor of 2 over the sizes, is this page's own."
)


def cases(full: bool) -> list[Row]:
    """Attacks on each construction, runs of Algorithm 1, and the bounds, which need no data."""
    shares = (1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64) if full else (1 / 4, 1 / 8, 1 / 16, 1 / 32)
    seeds = range(5 if full else 2)
    attacks = [
        {"what": "updates", "construction": c, "adversary": a, "alpha": alpha, "seed": s}
        for c in (MW, FK, MEDIAN)
        for a in STYLES
        for alpha in shares
        for s in seeds
    ]
    runs = [
        {"what": "online", "construction": c, "adversary": a, "queries": k, "seed": s}
        for c in (MW, FK)
        for a in ONLINE
        for k in ASKED
        for s in seeds
    ]
    return [*attacks, *runs, {"what": "bounds"}]


def run(case: Row) -> list[Row]:
    return {"updates": attacked, "online": online, "bounds": _bounds}[case["what"]](case)


def _bounds(case: Row) -> list[Row]:
    """As shares: of the edges for cuts, of the records for a million counting queries over 2^20 elements."""
    found = []
    for vertices in VERTICES:
        pairs = vertices * (vertices - 1) / 2
        for edges in np.geomspace(vertices, pairs, 60):
            for name, bound in cut_bounds(vertices, float(edges)).items():
                where = {"vertices": vertices, "edges": float(edges), "share": bound / float(edges)}
                found.append({"what": "cuts", "construction": name, **where})
    for records in np.geomspace(1e4, 1e14, 80):
        elements, log_queries = 2.0**20, math.log(2e6 / BETA)
        general = {
            MW: accuracy(records, elements, log_queries),
            MEDIAN: accuracy(records, elements, log_queries, median=True),
            FK: accuracy(records, elements, log_queries, norm=math.sqrt(records)),
        }
        for name, bound in general.items():
            if name == FK and records > elements:
                continue  # a set has at most |X| elements
            found.append(
                {"what": "general", "construction": name, "records": float(records), "share": bound / records}
            )
    return found


def plot(rows: list[Row], path: Path) -> None:
    """Updates and error under attack, both in Algorithm 1, and the bounds, general and for cuts."""
    drawn, axes = canvas(2, 3)
    _plot_updates(axes[0], pick(rows, what="updates", last=1))
    _plot_trace(axes[1], pick(rows, what="updates", seed=0))
    runs = pick(rows, what="online")
    _plot_online(axes[2], runs, "error", "guaranteed", "5 alpha / 3")
    axes[2].set(ylabel="largest error / n", yscale="log")
    _plot_online(axes[3], runs, "updates", "bound", "B(alpha)")
    axes[3].set(ylabel="updates", yscale="symlog")
    axes[3].set_ylim(0)
    for axis, of, x in ((axes[4], pick(rows, what="general"), "records"), (axes[5], _drawn(rows), "edges")):
        for name in dict.fromkeys(row["construction"] for row in of):
            some = sorted(pick(of, construction=name), key=lambda row: row[x])
            ys = [row["share"] for row in some]
            axis.plot([row[x] for row in some], ys, color=COLOURS[name], label=name)
        axis.axhline(1, color="0.6", linestyle=":", label="all of them")
        axis.set(xscale="log", yscale="log")
        key(axis)
    axes[4].set(xlabel="records; 2^20 elements, 10^6 queries", ylabel="bound on the error / n")
    axes[5].set(xlabel=f"edges among {DRAWN:,} vertices, all cuts", ylabel="bound on the error / |E|")
    save(drawn, path)


def _drawn(rows: list[Row]) -> list[Row]:
    return pick(rows, what="cuts", vertices=DRAWN)


def _plot_updates(axis: Any, ends: list[Row]) -> None:
    """The longest sequences of all seeds, and B(alpha)."""
    xs = values(ends, "alpha")
    for name in values(ends, "construction"):
        for adversary, style in STYLES.items():
            some = pick(ends, construction=name, adversary=adversary)
            ys = [max(row["updates"] for row in pick(some, alpha=x)) for x in xs]
            axis.plot(xs, ys, style, color=COLOURS[name])
        bound = [max(row["bound"] for row in pick(ends, construction=name, alpha=x)) for x in xs]
        axis.plot(xs, bound, color=COLOURS[name], **BOUND)
    axis.set(xlabel="alpha", ylabel="updates", xscale="log", yscale="symlog")
    axis.set_xticks(xs, [f"n/{1 / x:.0f}" for x in xs])
    axis.minorticks_off()
    axis.set_ylim(0)
    key(axis, _signs((MW, FK, MEDIAN), STYLES, "B(alpha)"))


def _plot_trace(axis: Any, rows: list[Row]) -> None:
    """How the error falls, at the smallest alpha."""
    at = min(values(rows, "alpha"))
    for name in values(rows, "construction"):
        for adversary, style in STYLES.items():
            some = pick(rows, construction=name, adversary=adversary, alpha=at)
            some.sort(key=lambda row: row["updates"])
            axis.plot([r["updates"] for r in some], [r["error"] for r in some], style, color=COLOURS[name])
    axis.set(xlabel=f"updates, alpha = n/{1 / at:.0f}", ylabel="maximum error / n", xscale="symlog")
    axis.set_xlim(0)
    key(axis, _signs((MW, FK, MEDIAN), STYLES))


def _plot_online(axis: Any, runs: list[Row], measured: str, proven: str, words: str) -> None:
    """The largest of all seeds, by the number of queries."""
    ks, adversaries = values(runs, "queries"), {a: STYLES[a] for a in ONLINE}
    for name in values(runs, "construction"):
        some = pick(runs, construction=name)
        for adversary, style in adversaries.items():
            own = pick(some, adversary=adversary)
            ys = [max(row[measured] for row in pick(own, queries=k)) for k in ks]
            axis.plot(ks, ys, style, color=COLOURS[name])
        bound = [max(row[proven] for row in pick(some, queries=k)) for k in ks]
        axis.plot(ks, bound, color=COLOURS[name], **BOUND)
    axis.set(xlabel="queries to Algorithm 1", xscale="log")
    key(axis, _signs((MW, FK), adversaries, words))


def _signs(names: Sequence[str], styles: Mapping[str, str], bound: str = "") -> dict[str, Row]:
    """Colours say which construction, dashes which adversary."""
    signs: dict[str, Row] = {name: {"color": COLOURS[name]} for name in names}
    signs |= {name: {"color": "gray", "linestyle": style} for name, style in styles.items()}
    return signs | ({bound: {"color": "gray", **BOUND}} if bound else {})


def judge(rows: list[Row]) -> list[Claim]:
    """Inequalities of the theorems, on every sequence and run; the remarks, on the bounds themselves."""
    ends = pick(rows, what="updates", last=1)
    return [
        *(_never_longer(pick(ends, construction=name), name) for name in (MW, FK, MEDIAN)),
        _accurate(pick(rows, what="online")),
        _dense_graphs(pick(rows, what="cuts")),
        _below_all(pick(rows, what="cuts")),
    ]


def _never_longer(ends: list[Row], name: str) -> Claim:
    longer = sum(row["updates"] > row["bound"] for row in ends)
    unfinished = sum(row["error"] >= row["alpha"] for row in ends)
    most = max((row["updates"] / row["bound"] for row in ends), default=math.nan)
    return Claim(
        f"No update sequence of the {name} construction is longer than B(alpha), and one that cannot go on "
        "answers every query within alpha.",
        mark(bool(ends) and not longer and not unfinished),
        f"{longer} of {len(ends)} sequences were longer, the longest had {most:.1%} of its bound; "
        f"{unfinished} ended with a query that is off by alpha or more",
    )


def _accurate(runs: list[Row]) -> Claim:
    wrong = sum(row["error"] > row["guaranteed"] or row["updates"] > row["bound"] for row in runs)
    nearest = max((row["error"] / row["guaranteed"] for row in runs), default=math.nan)
    most = max((row["updates"] for row in runs), default=0)
    allowed = BETA * len(runs) + 4 * math.sqrt(len(runs) * BETA * (1 - BETA))
    return Claim(
        "Algorithm 1 answers all k queries within 5 alpha / 3 and stops updating before B(alpha), but with "
        "probability beta (Theorem 4.9).",
        mark(bool(runs) and wrong <= allowed),
        f"{wrong} of {len(runs)} runs did not (up to {allowed:.1f} would be chance, beta = {BETA:g}); the "
        f"largest error is {nearest:.0%} of what is guaranteed; at most {most} updates",
    )


def _dense_graphs(cuts: list[Row]) -> Claim:
    """Remark 5.3: from c |V|^2 / log |V| edges on, with the same c at every size."""
    constants = {}
    for vertices in values(cuts, "vertices"):
        own = pick(cuts, vertices=vertices)
        share = {(row["construction"], row["edges"]): row["share"] for row in own}
        better = [edges for edges in values(own, "edges") if share[FK, edges] < share[MW, edges]]
        if better and better == values(own, "edges")[-len(better) :]:
            constants[vertices] = better[0] * math.log(vertices) / vertices**2
    steady = bool(constants) and max(constants.values()) <= 2 * min(constants.values())
    return Claim(
        "The Frieze/Kannan construction improves on multiplicative weights for the cuts of dense graphs, "
        "from the order of |V|^2 / log |V| edges on (Remark 5.3).",
        mark(steady and len(constants) == len(values(cuts, "vertices"))),
        "its bound is the smaller one from |V|^2 / log |V| edges on times "
        + ", ".join(f"{c:.3f} for |V| = {v:.0e}" for v, c in constants.items())
        + " (steady: within a factor of 2)",
    )


def _below_all(cuts: list[Row]) -> Claim:
    """On complete graphs, the densest."""
    densest = {
        name: [
            max(pick(cuts, vertices=v, construction=name), key=lambda row: row["edges"])["share"]
            for v in values(cuts, "vertices")
        ]
        for name in (MW, FK)
    }
    falls = all(
        len(shares) > 1 and all(a > b for a, b in itertools.pairwise(shares)) and shares[-1] < 1
        for shares in densest.values()
    )
    listed = "; ".join(f"{name} " + ", ".join(f"{s:.2g}" for s in shares) for name, shares in densest.items())
    return Claim(
        "All cut queries of sufficiently dense graphs are answered with an error of a vanishing part of |E|.",
        mark(falls),
        f"bounds over |E| on complete graphs of {', '.join(f'{v:.0e}' for v in values(cuts, 'vertices'))} "
        f"vertices, with the paper's constants: {listed}",
    )


def tables(rows: list[Row]) -> list[Table]:
    """The longest sequence by adversary, and B(alpha)."""
    ends, lines = pick(rows, what="updates", last=1), []
    for name in (MW, FK, MEDIAN):
        some = pick(ends, construction=name)
        for alpha in sorted(values(some, "alpha"), reverse=True):
            at = pick(some, alpha=alpha)
            longest = [str(max(row["updates"] for row in pick(at, adversary=a))) for a in STYLES]
            bound = f"{min(row['bound'] for row in at):,.0f}"
            lines.append([name, f"n / {1 / alpha:.0f}", *longest, bound])
    return [
        Table("Updates at most, of all seeds, and the smallest bound", ["", "alpha", *STYLES, "B"], lines)
    ]
