"""Theorem 2.3 as a calculator, and as an inequality that runs of the theorem's own algorithm keep. NOT
PRIVATE.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from common.runner import tabulated

from factored_mwem.model.dense import ProductModel
from replay import data
from replay.data import SMALL
from replay.drawing import canvas, frame, line
from replay.figure import Mark, Marks, Row, Table, by, grid, mark, pick, words
from replay.paper import Paper, Task, paper_mwem

EPSILONS = (0.1, 1.0, 10.0, 100.0)
ROUNDS = (1, 2, 4, 8, 16, 32)
QUESTIONS = {"mildew": 41, "czech": 41, "rochdale": 92}
LIKELY = 0.5
"""A bound says something where it is below n with at least this probability."""
DRAWN = 1.0
"""The epsilon of the plot."""
ASKED = "experiment n |X| |Q| epsilon"
BOUNDS = "T of the least bound = {t} | bound = {least:,.0f} | bound / n = {share:.2f}"
BOUNDS += " | with probability = {chance:.2f}"
CONSTANT = 3 * 10 ** (1 / 3)


class Setting(NamedTuple):
    """What the bound depends on besides T."""

    name: str
    records: int
    cells: int
    queries: int
    epsilon: float


EXPERIMENTS = [Setting(**setting) for setting in words("theorem")["experiments"]]


def bound(at: Setting, rounds: float) -> float:
    """2 n sqrt(log |X| / T) + 10 T log |Q| / epsilon: Theorem 2.3, in records."""
    learnt = 2 * at.records * math.sqrt(math.log(at.cells) / rounds)
    return learnt + 10 * rounds * math.log(at.queries) / at.epsilon


def best_rounds(at: Setting) -> float:
    """The T, not rounded, at which the bound is least."""
    root = at.records * at.epsilon * math.sqrt(math.log(at.cells)) / (10 * math.log(at.queries))
    return root ** (2 / 3)


def closed_form(at: Setting) -> float:
    """3 (10 n^2 log |X| log |Q| / epsilon)^(1/3): Corollary 2.5 with its constant."""
    logs = math.log(at.cells) * math.log(at.queries)
    return CONSTANT * (at.records**2 * logs / at.epsilon) ** (1 / 3)


def whole_rounds(at: Setting, most: float = math.inf) -> tuple[int, float]:
    """(T, bound) of the whole T, of at most `most`, with the least bound."""
    near = {max(1, math.floor(best_rounds(at))), math.ceil(best_rounds(at))}
    least, t = min((bound(at, t), t) for t in {int(min(t, most)) for t in near})
    return t, least


def probability(queries: int, rounds: int) -> float:
    """1 - 2 T / |Q|, of Theorem 2.3; it says nothing where this is not positive."""
    return 1 - 2 * rounds / queries


def cases(full: bool) -> list[Row]:
    every = grid(data=SMALL, epsilon=EPSILONS, rounds=ROUNDS, runs=20 if full else 5)
    return [case for case in every if 2 * case["rounds"] < QUESTIONS[case["data"]]]


def run(case: Row) -> list[Row]:
    """The maximum errors of the average and of the last iterate, with the bound of their setting."""
    table, epsilon, rounds = data.small(case["data"]), case["epsilon"], case["rounds"]
    task, rows = Task.of_parities(table), []
    at = Setting(table.name, table.total, table.cells, len(task.truth), epsilon)
    for number in range(case["runs"]):
        rng = np.random.default_rng([number, SMALL.index(table.name), rounds, round(epsilon * 10)])
        errors: list[float] = []

        def watch(model: ProductModel, errors: list[float] = errors) -> None:
            errors.append(float(np.abs(task.questions.answers(model) - task.truth).max()))

        watch(paper_mwem(task, Paper(epsilon, rounds, average=True, joined=True), rng, watch=watch).model)
        sizes = {
            "run": number,
            "records": table.total,
            "queries": len(task.truth),
            "bound": bound(at, rounds),
        }
        about = {k: case[k] for k in ("data", "epsilon", "rounds")} | sizes
        rows.append(about | {"max_error_average": errors[-1], "max_error_last": errors[-2]})
    return rows


def plot(rows: list[Row]) -> Any:
    """The errors and the bound as shares of n, against T."""
    drawn, axes = canvas(len(SMALL))
    for axis, name in zip(axes, SMALL, strict=True):
        at = by(pick(rows, data=name, epsilon=DRAWN), "rounds")
        for what, style, label in (
            ("bound", "k-", "bound of Theorem 2.3"),
            ("max_error_average", "C0o-", "average iterate (the theorem's)"),
            ("max_error_last", "C2o--", "last iterate"),
        ):
            shares = {t: [{"share": r[what] / r["records"]} for r in here] for t, here in at.items()}
            line(axis, shares, "share", style, markersize=4, label=label)
        axis.axhline(1.0, color="0.5", ls=":", label="n, which the uniform model keeps")
        scales = {"xlabel": "T", "ylabel": "maximum error / n", "xscale": "log", "yscale": "log"}
        frame(axis, list(at), keyed={"columns": 1}, title=f"{name}, epsilon {DRAWN:g}", **scales)
    return drawn


def tables(rows: list[Row]) -> list[Table]:
    """The calculator, on what the other figures ask."""
    lines = []
    for at in EXPERIMENTS:
        t, least = whole_rounds(at, (at.queries - 1) // 2)
        bounds = {"t": t, "least": least, "share": least / at.records, "chance": probability(at.queries, t)}
        lines.append(dict(zip(ASKED.split(), at, strict=True)) | bounds)
    return [Table("Theorem 2.3 at the settings of the experiments", *tabulated(lines, ASKED, BOUNDS))]


def marks(rows: list[Row]) -> Marks:
    ratios = [whole_rounds(at)[1] / closed_form(at) for at in EXPERIMENTS]
    likely = {at.name: whole_rounds(at, (1 - LIKELY) * at.queries / 2)[1] / at.records for at in EXPERIMENTS}
    useful = [name for name, share in likely.items() if share < 1]
    ends = {"settings": len(EXPERIMENTS), "least": min(ratios), "most": max(ratios)}
    shares = {"least": min(likely.values()), "most": max(likely.values()), "useful": useful or "none"}
    return [
        inequality(rows),
        mark(min(ratios) >= 1 - 1e-9 and max(ratios) < 1.1, **ends),
        mark(len(useful) == len(likely), number=len(useful), settings=len(likely), **shares),
    ]


def inequality(rows: list[Row]) -> Mark:
    """In no setting may more runs pass the bound than 2 T / |Q| of them; open where none could."""
    could = [row for row in rows if can_fail(row)]
    if not could:
        return mark(None, why=f"none of {len(rows)} runs could contradict it")
    broken, passed = [], 0
    for (name, epsilon, rounds), here in by(could, "data", "epsilon", "rounds").items():
        over = sum(row["max_error_average"] > row["bound"] for row in here)
        passed += over
        if over / len(here) > 2 * rounds / here[0]["queries"]:
            broken.append(f"{name}, epsilon {epsilon:g}, T = {rounds}: {over} of {len(here)}")
    useful = sum(row["bound"] < row["records"] for row in could)
    outcome = (
        f"too often on {'; '.join(broken)}"
        if broken
        else f"no run contradicts it; only {len(could)} of {len(rows)} could have (bound below 2 n, and the "
        f"probability is positive), {useful} of them with a bound below n"
    )
    nearest = max(row["max_error_average"] / row["bound"] for row in could)
    return mark(not broken, outcome=outcome, passed=passed, nearest=nearest)


def can_fail(row: Row) -> bool:
    """Whether any run of this setting could contradict the theorem: no parity is off by more than 2 n."""
    return bool(row["bound"] < 2 * row["records"] and probability(row["queries"], row["rounds"]) > 0)
