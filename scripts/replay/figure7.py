"""Figure 7: factored MWEM on the 27-bit Adult, round by round, and on the same with 50 random bits beside.
NOT PRIVATE.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from factored_mwem.model.dense import ProductModel
from factored_mwem.privacy.session import Session
from factored_mwem.workload.queries.parities import Parities
from replay.adult27 import binary, bits
from replay.drawing import canvas, frame, line
from replay.figure import Mark, Marks, Row, Table, by, grid, mark, mean, pick, values
from replay.paper import Paper, PaperLearner, Task, paper_mwem, run_rounds

SWEEPS, ROUNDS = 10, 45
IRRELEVANT = 50
LIMIT, LIMIT_QUICK = 22, 18
"""Logarithm of cells, to base 2: a run ends with the choice that would make a larger component."""
SIMPLE = 2**12
"""Cells up to which a model has not risen in complexity yet: rounds of such models are compared in time."""
NO_COST, NO_LOSS = 1.5, 1.1
"""Times as long, and times the error, that still count as none: the paper states neither."""
REACHED = (25_000, 20_000, 15_000, 12_000, 10_000, 8_000, 6_000)
"""Maximum errors by which the table says how large the model was."""
ALONE, ASKED = "27 bits", "77 bits"
"""Without the irrelevant bits, and with them."""
QUESTIONS = {ALONE: 3_303, ASKED: 76_153}
MORE = QUESTIONS[ASKED] / QUESTIONS[ALONE]
TIMES = ("milliseconds", "milliseconds_model")
RUN = ("epsilon", "rounds", "seed", "kind")
"""What tells the runs apart."""


class TooLarge(Exception):
    """Ends a run before it sweeps over a component of so many cells."""

    def __init__(self, cells: int) -> None:
        super().__init__(cells)
        self.cells = cells


class Watched(PaperLearner):
    """The paper's learner, with the processor seconds of its last update, which it refuses to make too
    large.
    """

    def __init__(self, session: Session, task: Task, paper: Paper, model: ProductModel, limit: int) -> None:
        super().__init__(session, task, paper, model)
        self.limit, self.seconds = limit, 0.0

    def update(self) -> None:
        started = time.process_time()
        kind, question, _ = self.measured[-1]
        parts = {id(part): part for part in map(self.dense.model.factor, kind.positions(question))}
        cells = math.prod(len(part.weights) for part in parts.values())
        if cells > self.limit:
            raise TooLarge(cells)
        super().update()
        self.seconds = time.process_time() - started


def cases(full: bool) -> list[Row]:
    epsilons, seeds, limit = ((1.0, 10.0), 5, LIMIT) if full else ((1.0,), 2, LIMIT_QUICK)
    at = {"epsilon": epsilons, "rounds": ROUNDS, "seed": range(seeds), "kind": QUESTIONS}
    return grid(**at, limit=2**limit)


def run(case: Row) -> list[Row]:
    """A row for each round; where the run ended early, one more without times."""
    added = 0 if case["kind"] == ALONE else IRRELEVANT
    rng = np.random.default_rng([7, case["seed"], added])
    adult = bits()
    domain, rows = binary(np.vstack([adult, (rng.random((added, adult.shape[1])) < 0.5).astype(np.uint8)]))
    questions = Parities.up_to(range(len(domain)), 3)
    task, paper = Task.of(questions, domain, rows), Paper(case["epsilon"], case["rounds"], SWEEPS)
    paper_mwem(task, Paper(1.0, 3, 2), np.random.default_rng(0))  # compiles what is timed
    model = ProductModel.uniform(domain, task.total)
    learner = Watched(task.session(paper.epsilon, rng), task, paper, model, case["limit"])
    done: list[Row] = []

    def max_error() -> float:
        return float(np.abs(questions.answers(model) - task.truth).max())

    start, last = max_error(), time.process_time()

    def watch() -> None:
        nonlocal last
        seconds = time.process_time() - last, learner.seconds
        cells = [len(part.weights) for part in model.components]
        joined = (len(model.factor(p).positions) > 1 for p in range(len(adult), len(domain)))
        state = {
            "max_error": max_error(),
            "largest_cells": max(cells),
            "cells": sum(cells),
            "irrelevant_joined": sum(joined),
            "start_error": start,
        }
        times = {key: 1e3 * each for key, each in zip(TIMES, seconds, strict=True)}
        done.append(case | {"round": len(done) + 1} | times | state)
        last = time.process_time()

    try:
        run_rounds(learner, watch)
    except TooLarge as error:
        done.append({**case, "round": len(done) + 1, "too_large": error.cells})
    return done


def plot(rows: list[Row]) -> Any:
    """Milliseconds and maximum error by round, as in the paper, and the cells behind them."""
    drawn, axes = canvas(2, 2)
    seeds, epsilons = values(rows, "seed"), values(rows, "epsilon")
    panels = {
        "milliseconds": "milliseconds in the round",
        "max_error": "maximum error",
        "milliseconds_model": "milliseconds of the model alone",
        "largest_cells": "cells of the largest component",
    }
    for axis, (what, label) in zip(axes, panels.items(), strict=True):
        for epsilon, colour in zip(epsilons, ("tab:blue", "tab:red", "tab:green"), strict=False):
            for kind, style in zip(QUESTIONS, ("-", "--"), strict=True):
                at = by(pick(complete(rows), epsilon=epsilon, kind=kind), "round")
                half = {x: runs for x, runs in at.items() if 2 * len(runs) >= len(seeds)}
                words = f"{kind}, epsilon {epsilon:g}"
                line(axis, half, lambda runs, what=what: median(runs, what), style, color=colour, label=words)
        scale = "linear" if what == "max_error" else "log"
        columns = 1 if len(epsilons) == 1 else 2
        frame(axis, keyed={"columns": columns}, xlabel="round", ylabel=label, yscale=scale)
    axes[3].axhline(2**27, color="0.6", linewidth=0.8)
    axes[3].annotate("2^27", (1, 2**27), va="top", fontsize=9)
    return drawn


def complete(rows: list[Row]) -> list[Row]:
    """Without the choices that ended a run."""
    return [row for row in rows if "too_large" not in row]


def simple(rows: list[Row]) -> list[Row]:
    """Rounds of models that are still small."""
    return [row for row in complete(rows) if row["largest_cells"] <= SIMPLE]


def median(rows: list[Row], key: str) -> float:
    """nan where there is no row."""
    return float(np.median([row[key] for row in rows])) if rows else math.nan


def tables(rows: list[Row]) -> list[Table]:
    """How large the model was when the error had fallen so far."""
    sizes = []
    for limit in REACHED:
        cells = [f"{limit:,}"]
        for kind in (ALONE, ASKED):
            low = [row for row in pick(complete(rows), kind=kind) if row["max_error"] <= limit]
            first = [min(runs, key=lambda row: row["round"]) for runs in by(low, *RUN).values()]
            log = [math.log2(row["largest_cells"]) for row in first] or [0.0]
            shown = [f"{median(first, 'round'):.0f}", f"2^{np.median(log):.0f}", f"2^{max(log):.0f}"]
            cells += [str(len(first)), *(shown if first else [""] * 3)]
        sizes.append(cells)
    head = [f"{kind}: {what}" for kind in (ALONE, ASKED) for what in ("runs", "round", "median", "most")]
    caption = "Cells of the largest component when the maximum error first fell to"
    return [Table(caption, ["error", *head], sizes)]


def marks(rows: list[Row]) -> Marks:
    """Of time only ratios, and only where the models are still small: the size that a run happens on later
    says more about its time than anything else.
    """
    times = [row["milliseconds"] for row in simple(rows)] or [math.nan]
    runs = by(pick(complete(rows), kind=ASKED), *RUN).values()
    joined = sum(max(run, key=lambda row: row["round"])["irrelevant_joined"] for run in runs)
    whole, model = (slower(rows, what) for what in TIMES)
    slowest = max((row["milliseconds"] for row in complete(rows)), default=math.nan)
    return [
        mark(None, median=np.median(times), slow=max(times), slowest=slowest),
        complexity(rows),
        mark(model <= NO_COST, ratio=model),
        mark(whole <= NO_COST, ratio=whole),
        error(complete(rows)),
        mark(bool(runs) and joined == 0, joined=joined, of=IRRELEVANT * len(runs), runs=len(runs)),
    ]


def complexity(rows: list[Row]) -> Mark:
    """Not to be compared: how far a run goes decides, and how far the paper's went is not legible."""
    stopped, runs = [row for row in rows if "too_large" in row], by(rows, *RUN)
    if not stopped:
        largest = math.log2(max((row["largest_cells"] for row in rows), default=1))
        return mark(None, end=f"no run of {len(runs)} here went beyond 2^{largest:.0f} cells")
    numbers = [row["round"] for row in stopped]
    before = [pick(runs[tuple(row[key] for key in RUN)], round=row["round"] - 1)[0] for row in stopped]
    errors = [row["max_error"] for row in before]
    largest, limit = (math.log2(max(row[what] for row in stopped)) for what in ("too_large", "limit"))
    first = mean(pick(complete(rows), round=1), "start_error")
    end = (
        f"{len(stopped)} of {len(runs)} runs here came to a measurement that ties attributes into a "
        f"component of more than 2^{limit:.0f} cells (2^{largest:.0f} at most), in rounds "
        f"{min(numbers)} to {max(numbers)}, when the maximum error had fallen from {first:,.0f} to "
        f"between {min(errors):,.0f} and {max(errors):,.0f}; the table has the sizes before"
    )
    return mark(None, end=end)


def error(done: list[Row]) -> Mark:
    """At every round that all runs of both kinds have reached."""
    worst = (0.0, 0, 0.0)
    for (epsilon, number), at in by(done, "epsilon", "round").items():
        sides = [pick(at, kind=kind) for kind in (ALONE, ASKED)]
        seeds = [values(pick(done, epsilon=epsilon, kind=kind), "seed") for kind in (ALONE, ASKED)]
        if all(len(side) == len(of) > 0 for side, of in zip(sides, seeds, strict=True)):
            without, with_them = (mean(side, "max_error") for side in sides)
            worst = max(worst, (with_them / without, number, epsilon))
    return mark(0 < worst[0] <= NO_LOSS, worst=worst)


def slower(rows: list[Row], what: str) -> float:
    """Median time of a round of small models with the irrelevant bits, over that without; nan where there is
    none.
    """
    return median(pick(simple(rows), kind=ASKED), what) / median(pick(simple(rows), kind=ALONE), what)
