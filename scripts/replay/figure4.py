"""Figure 4: relative entropy of the National Long-Term Care Survey against epsilon, for pairs and for
triples.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from replay import barak, data
from replay.barak import entropy_of
from replay.baselines import log_linear, relative_entropy
from replay.drawing import canvas, frame, line
from replay.figure import Mark, Marks, Row, Table, by, grid, mark, mean, pick
from replay.paper import Paper, Task, paper_mwem

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
ROUNDS = (20, 30, 40)
REPLAYED = "mwem, replay"
SWEEPS = {"mwem": 1, REPLAYED: 5}
FIT_SWEEPS = {2: 40, 3: 15}
SUBSTANTIAL = 1.5
"""Accuracy is substantially higher where the relative entropy is this many times lower."""


def cases(full: bool) -> list[Row]:
    runs = {"epsilon": EPSILONS if full else (0.5,), "run": range(10 if full else 1)}
    name = data.nltcs_name()
    return grid(data=name, part="floor", order=(3, 2)) + grid(data=name, part="run", order=(3, 2), **runs)


def run(case: Row) -> list[Row]:
    """The log-linear fit, not private; or the runs of every method."""
    table = data.nltcs(case["data"])
    counts, order = table.histogram(), case["order"]
    base = {"data": table.name, "order": order}
    if case["part"] == "floor":
        fit = log_linear(counts, table.shape, order, sweeps=FIT_SWEEPS[order])
        return [{**base, "method": "fit", "entropy": relative_entropy(counts, fit)}]
    task, rows = Task.of_parities(table, order), []
    base |= {"epsilon": case["epsilon"], "run": case["run"]}
    seed = [case["run"], order, round(case["epsilon"] * 1000)]
    for rounds in ROUNDS:
        for method, sweeps in SWEEPS.items():
            paper = Paper(case["epsilon"], rounds, sweeps=sweeps, guard=1.0, joined=True)
            model = paper_mwem(task, paper, np.random.default_rng([*seed, rounds, sweeps])).model
            scores = barak.scored(counts, model.components[0].weights)
            rows.append({**base, "method": method, "rounds": rounds, **scores})
    return [*rows, *barak.rows_of(task, counts, base, seed)]


def plot(rows: list[Row]) -> Any:
    """A panel for pairs and one for triples."""
    drawn, axes = canvas(2)
    for axis, order in zip(axes, (2, 3), strict=True):
        here = pick(rows, order=order)
        at = by(here, "epsilon")
        for rounds, colour in zip(ROUNDS, ("#9ecae1", "#4292c6", "#08306b"), strict=True):
            for method, style in zip(SWEEPS, ("--", "-"), strict=True):
                runs = {e: pick(found, method=method, rounds=rounds) for e, found in at.items()}
                label = f"MWEM{', replay' if method == REPLAYED else ''}, T = {rounds}"
                line(axis, runs, entropy_of, style, color=colour, marker="o", markersize=3, label=label)
        barak.draw(axis, at)
        fit = mean(pick(here, method="fit"), "entropy")
        axis.axhline(fit, color="0.35", lw=1, label="log-linear fit")
        title = f"{rows[0]['data']}, at most {order} attributes"
        scales = {"xlabel": "epsilon", "xscale": "log", "yscale": "log", "ylim": (fit / 1.3, 15)}
        frame(axis, list(at), title=title, **scales)
    axes[0].set_ylabel("relative entropy (nats)")
    return drawn


def tables(rows: list[Row]) -> list[Table]:
    """The numbers behind the marks."""
    lines = [
        [str(order), f"{e:g}", *(f"{entropy_of(pick(at, rounds=t)):.3g}" for t in ROUNDS), *barak.cells(here)]
        for (order, e), here in by(rows, "order", "epsilon").items()
        for at in [pick(here, method=REPLAYED)]
    ]
    header = ["attributes", "epsilon", *(f"MWEM, replay, T = {rounds}" for rounds in ROUNDS)]
    return [Table("Relative entropy (nats)", [*header, "Barak et al., best", "which"], lines)]


def marks(rows: list[Row]) -> Marks:
    if any(row["data"] != "nltcs" for row in rows) or not rows:
        return "nltcs is not here; what is drawn is a made-up stand-in of the same shape"
    pairs, triples = (barak.gains(pick(rows, order=order), REPLAYED) for order in (2, 3))
    nearer = math.exp(np.mean([math.log(triples[e] / pairs[e]) for e in pairs]))
    first = next((e for e in pairs if all(gain <= 1 for at, gain in pairs.items() if at >= e)), None)
    ahead = any(gain > 1 for gain in pairs.values())
    back = first is not None and triples[first] > 1 and pairs[min(pairs)] > 1
    end = "at no end of the grid at most 1" if first is None else f"at most 1 from {first:g} on"
    both = {"pairs": pairs, "triples": triples}
    wide = barak.spans(barak.widest(triples, SUBSTANTIAL))
    apart = nearer >= SUBSTANTIAL and all(pairs[e] < triples[e] for e in pairs)
    return [
        mark(wide, triples=triples, floor=barak.resting_on_floor(rows)),
        mark(apart, nearer=nearer, **both),
        mark(first is not None and ahead, pairs=pairs, end=end),
        mark(back, **both),
        by_rounds(rows),
        mark(min(triples.values()) >= SUBSTANTIAL, triples=triples),
    ]


def by_rounds(rows: list[Row]) -> Mark:
    """Over the whole grid, for MWEM with and without replay."""
    ours = [row for row in rows if row["method"] in SWEEPS]
    risen, points = [], by(ours, "order", "method", "epsilon")
    for (order, method, e), runs in points.items():
        entropies = [entropy_of(pick(runs, rounds=rounds)) for rounds in ROUNDS]
        if entropies != sorted(entropies, reverse=True):
            risen.append(f"{order}-way, {method} at {e:g}: {', '.join(f'{v:.3f}' for v in entropies)}")
    words = f"; not so: {'; '.join(risen)}" if risen else ""
    return mark(not risen, falling=len(points) - len(risen), points=len(points), risen=words)
