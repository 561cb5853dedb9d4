"""Figure 3: relative entropy of small contingency tables against epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from factored_mwem.workload.queries.parities import Parities
from replay import barak, data
from replay.baselines import log_linear, relative_entropy
from replay.contrasts import (
    METHODS,
    NEAR,
    NOTICEABLE,
    RANGE,
    SETS,
    best_rounds,
    everywhere,
    improves,
    near_fit,
    no_longer,
    only_hurts,
    optimised,
)
from replay.figure import OPEN, PROJECT, Claim, Row, Table, canvas, key, mean, pick, save, values
from replay.paper import Paper, Task, paper_mwem

ROUNDS = {"plain": (2, 4, 8, 16, 32, 64), "optimised": (2, 4, 8, 16)}
"""Plain MWEM, Figure 1 of the paper, may ask a parity again, so that T may pass their number."""
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
FIT_SWEEPS = 5_000
"""Of the fits that are not private, at most: mildew's fit of all triples is then within 1e-5 of 0.01735."""

TITLE = "Figure 3: relative entropy of contingency tables"
SETTINGS = (
    "All parities of at most three attributes; relative entropy of the data to the synthetic distribution, "
    "in nats, on a logarithmic axis; means of the runs (100 in full, 10 in quick). The paper leaves open "
    "epsilon, T and the share of epsilon for the histogram. Here epsilon goes from 0.1 to 50; plain MWEM is "
    "Figure 1 of the paper, which may choose a parity again and replays nothing, with T "
    f"{', '.join(map(str, ROUNDS['plain']))} (not 64 in quick); MWEM with both optimisations has T "
    f"{', '.join(map(str, ROUNDS['optimised']))} and, as the paper's listing, asks no parity twice; the best "
    "T at each epsilon is drawn and judged (the paper sets T by hand; choosing it looks at the data and is "
    "not private, and on the same runs its mean is a little too low: so it is for the best of Barak et al.). "
    "The optimisations: a fifth of epsilon for noisy counts of all cells, of which those below the noise are "
    "left out and the rest is mixed half and half with the uniform distribution; and after each round at "
    "most 100 sweeps over all measurements, each left alone once the model lies within one standard "
    "deviation of its noise (the listing: 100 sweeps, none left alone). Every measurement is clipped to what "
    "a parity can be, from -n to n; the last iterate is released, n is exact. An improvement is noticeable "
    f"from {NOTICEABLE:g} times on in a range of epsilon that spans {RANGE:g}-fold: the rule is this page's "
    "own. Seeds of NumPy's default generator: [run, number of the table, 1,000 epsilon], and for MWEM also "
    "0 for plain or 1 for optimised, and T. "
    f"{barak.IN_WORDS}. The linear program of Barak et al. is solved on fewer runs (20 in full, 5 in quick) "
    "and not drawn."
)
COLOURS = {"plain": "tab:green", "optimised": "tab:blue"}
LABELS = {"plain": "MWEM, plain", "optimised": "MWEM, optimised"}


def cases(full: bool) -> list[Row]:
    runs, step = (100, 25) if full else (10, 10)
    floors = [{"data": name, "part": "floor"} for name in SETS]
    most = max(ROUNDS["plain"]) if full else 32
    parts = [{"part": "runs", "first": i, "runs": step, "most": most} for i in range(0, runs, step)]
    parts.append({"part": "linear program", "first": 0, "runs": 20 if full else 5})
    return floors + [
        {"data": name, "epsilon": epsilon, **part} for name in SETS for epsilon in EPSILONS for part in parts
    ]


def run(case: Row) -> list[Row]:
    """The uniform model and the log-linear fits, not private; or the runs of every method."""
    table = data.small(case["data"])
    counts = table.histogram()
    if case["part"] == "floor":
        fits = {
            f"{order}-way fit": log_linear(counts, table.shape, order, sweeps=FIT_SWEEPS, close=1e-12)
            for order in (1, 2, 3)
        }
        fits["uniform"] = np.full(len(counts), 1 / len(counts))
        return [
            {"data": table.name, "method": method, "entropy": relative_entropy(counts, fit)}
            for method, fit in fits.items()
        ]
    task = Task.of(Parities.up_to(range(len(table.shape)), 3), table.domain, table.rows)
    rows: list[Row] = []
    for number in range(case["first"], case["first"] + case["runs"]):
        base = {"data": table.name, "epsilon": case["epsilon"], "run": number}
        seed = [number, SETS.index(table.name), round(case["epsilon"] * 1000)]
        if case["part"] == "linear program":
            noisy = barak.measured(task, case["epsilon"], np.random.default_rng(seed))
            masks = barak.masks_of(task.questions.members, len(table.shape))
            shares = barak.linear_program(noisy, masks, len(table.shape))
            rows.append({**base, "method": barak.LINEAR_PROGRAM, **barak.scored(counts, shares)})
            continue
        for at, (method, settings) in enumerate(METHODS.items()):
            for rounds in (t for t in ROUNDS[method] if t <= case["most"]):
                paper = Paper(case["epsilon"], rounds, joined=True, **settings)  # type: ignore[arg-type]
                rng = np.random.default_rng([*seed, at, rounds])
                shares = paper_mwem(task, paper, rng).model.components[0].weights
                rows.append({**base, "method": method, "rounds": rounds, **barak.scored(counts, shares)})
        rows += barak.rows_of(task, counts, base, seed)
    return rows


def plot(rows: list[Row], path: Path) -> None:
    """A panel for each table."""
    drawn, axes = canvas(len(SETS))
    for axis, name in zip(axes, SETS, strict=True):
        here = pick(rows, data=name)
        at = {e: pick(here, epsilon=e) for e in values(here, "epsilon")}

        def line(
            of: Callable[[list[Row]], float], axis: Any = axis, at: Any = at, **style: Any
        ) -> list[float]:
            ys = [of(found) for found in at.values()]
            axis.plot(list(at), [y if math.isfinite(y) else math.nan for y in ys], markersize=4, **style)
            return ys

        ours = [
            line(lambda r, m=m: best_rounds(r, m), marker="o", color=COLOURS[m], label=LABELS[m])
            for m in METHODS
        ]
        line(lambda r: barak.best_way(r)[0], color="tab:red", lw=2.5, label="Barak, best")
        for (sweeps, words), style in zip(barak.SWEEPS.items(), (":", "--", "-.", "-"), strict=True):
            method = next(m for m, way in barak.WAYS.items() if way == (sweeps, 0.0))
            line(
                lambda r, m=method: barak.entropy_of(pick(r, method=m)),
                color="tab:red",
                lw=0.9,
                ls=style,
                label=f"Barak, {words}",
            )
        fixed = {m: mean(pick(here, method=m), "entropy") for m in ("uniform", "2-way fit", "3-way fit")}
        for (label, y), style in zip(fixed.items(), ("--", "-", ":"), strict=True):
            axis.axhline(y, color="0.35", ls=style, lw=1, label=label)
        low = min(fixed["3-way fit"], *(y for ys in ours for y in ys))
        axis.set(title=name, xlabel="epsilon", xscale="log", yscale="log")
        axis.set_ylim(low / 1.5, 8 * fixed["uniform"])
        axis.set_ylabel("relative entropy (nats)")
        key(axis)
    for spare in axes[len(SETS) :]:
        spare.remove()
    save(drawn, path)


def tables(rows: list[Row]) -> list[Table]:
    """The numbers behind the marks."""
    found = []
    for name in SETS:
        here = pick(rows, data=name)
        for epsilon in values(here, "epsilon"):
            at = pick(here, epsilon=epsilon)
            theirs, way = barak.best_way(at)
            ours = [f"{best_rounds(at, method):.3g}" for method in METHODS]
            found.append([name, f"{epsilon:g}", *ours, f"{theirs:.3g}", way.removeprefix("Barak, ")])
    header = ["table", "epsilon", "MWEM", "MWEM with replay and histogram", "Barak et al., best", "which"]
    return [Table("Relative entropy (nats), each at its best setting", header, found)]


def judge(rows: list[Row]) -> list[Claim]:
    texts = (
        "“In each case, we see that we noticeably improve on the algorithm of Barak et al.”: MWEM with "
        "replay and histogram",
        "The same of “our theoretically pure algorithm”, plain MWEM",
        "Replay and histogram are a “heuristic improvement” on plain MWEM, each at its best T",
        "“For every dataset and query set, there is some sufficiently high epsilon level” from which on "
        "choosing queries “does not provide an improvement over more naive approaches”",
        "“a linear programming step instead of Multiplicative Weights … only hurts” Barak et al. “with "
        "respect to relative entropy”",
        "“in many cases our heuristic approach matches the good non-private values” of Fienberg et al.",
        "(a stricter reading) MWEM with replay and histogram is more accurate than Barak et al. at every "
        "epsilon, on every table",
        f"(in place of Fienberg et al.) at the largest epsilon the relative entropy is within {NEAR:g} times "
        "that of the log-linear fit of all pairs, on most tables",
    )
    whose = {6: PROJECT, 7: PROJECT}
    if set(values(pick(rows, method="plain"), "data")) != set(SETS):
        return [
            Claim(text, OPEN, "not all runs are there", *([whose[i]] if i in whose else []))
            for i, text in enumerate(texts)
        ]
    return [
        improves(rows, "optimised", texts[0]),
        improves(rows, "plain", texts[1]),
        optimised(rows, texts[2]),
        no_longer(rows, texts[3]),
        only_hurts(rows, texts[4]),
        Claim(
            texts[5],
            OPEN,
            "the paper does not print these values, and the article that does is not at hand; the last claim "
            "compares with fits made here, which are not theirs",
        ),
        everywhere(rows, texts[6]),
        near_fit(rows, texts[7]),
    ]
