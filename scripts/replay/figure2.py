"""Figure 2: random range queries against the lower bound of the matrix mechanism."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from factored_mwem.model.dense import Factor, ProductModel
from factored_mwem.workload.queries.ranges import Ranges
from replay import data
from replay.baselines import gram_of_ranges, hierarchy, identity, noise_of_matrix_mechanism, svd_bound
from replay.figure import OPEN, Claim, Row, canvas, mark, mean, pick, save, values
from replay.paper import Paper, Task, paper_mwem

TITLE = "Figure 2: range queries against the SVD lower bound"
SETTINGS = (
    "Random boxes, the two ends of each side drawn uniformly; squared error a query, mean of 5 repetitions "
    "(2 in quick); 2,000 boxes over the "
    "epsilon grid, and more and fewer at epsilon 0.1. The paper leaves open how ends are drawn, the domains "
    "(here 4,357; 91 x 100 with ages 0 to "
    "90 and hours 0 to 99; 75 x 51; 12,501), the numbers of queries, and whether measurements are replayed: "
    "both are run, plain MWEM and MWEM "
    "with at most 100 replay sweeps that stop at one standard deviation of the noise. T is 10, 12, 14 or 16 "
    "and the best T is drawn, as in the "
    "paper; choosing it looks at the data, so T = 12 throughout is drawn, too, and no claim holds unless it "
    "holds for T = 12. The bound is "
    "(sum of singular values)^2 / domain size * 2 log(2 / delta) / epsilon^2 a query, delta = 1 / n. "
    "Baselines: uniform, identity, HB."
)
SETS = ("capital loss", "age x hours", "recency x frequency", "monetary")
EPSILONS = (0.0125, 0.025, 0.05, 0.1)
ROUNDS = (10, 12, 14, 16)
QUERIES, FIXED_EPSILON, FIXED_ROUNDS = 2000, 0.1, 12
VARIANTS = {"mwem": (1, 0.0), "mwem, replay": (100, 1.0)}
"""Sweeps and guard."""


def cases(full: bool) -> list[Row]:
    counts = (125, 250, 500, 1000, 4000) if full else (250, 1000)
    points = [(QUERIES, epsilon) for epsilon in EPSILONS] + [(queries, FIXED_EPSILON) for queries in counts]
    bounds = [
        {"data": name, "part": "bound", "queries": queries} for name in SETS for queries in (QUERIES, *counts)
    ]
    runs = [
        {"data": name, "part": "run", "queries": queries, "epsilon": epsilon, "repetition": repetition}
        for name in SETS
        for queries, epsilon in points
        for repetition in range(5 if full else 2)
    ]
    return bounds + runs


def run(case: Row) -> list[Row]:
    table = data.ordered(case["data"])
    ranges = Ranges.random(tuple(range(len(table.shape))), table.shape, case["queries"], seed=0)
    if case["part"] == "bound":
        bound = svd_bound(gram_of_ranges(ranges), table.cells) / case["queries"]
        grid = EPSILONS if case["queries"] == QUERIES else (FIXED_EPSILON,)
        return [
            row_of(
                case, "bound", bound * noise_of_matrix_mechanism(epsilon, 1 / table.total), epsilon=epsilon
            )
            for epsilon in grid
        ]
    return [*runs_of_mwem(case, table, ranges), *runs_of_baselines(case, table, ranges)]


def row_of(case: Row, method: str, error: float, **more: object) -> Row:
    return {
        "data": case["data"],
        "queries": case["queries"],
        "epsilon": case.get("epsilon"),
        "method": method,
        "error": error,
        **more,
    }


def runs_of_mwem(case: Row, table: data.Table, ranges: Ranges) -> list[Row]:
    task, rows = Task.of(ranges, table.domain, table.rows), list[Row]()
    for at, (method, (sweeps, guard)) in enumerate(VARIANTS.items()):
        for rounds in ROUNDS:
            rng = np.random.default_rng(
                [case["repetition"], rounds, at, round(case["epsilon"] * 10_000), SETS.index(table.name)]
            )
            paper = Paper(case["epsilon"], rounds, sweeps=sweeps, guard=guard, joined=True)
            model = paper_mwem(task, paper, rng).model
            error = float(np.mean((ranges.answers(model) - task.truth) ** 2))
            rows.append(row_of(case, method, error, rounds=rounds, repetition=case["repetition"]))
    return rows


def runs_of_baselines(case: Row, table: data.Table, ranges: Ranges) -> list[Row]:
    truth, counts = ranges.answers(table.rows), table.histogram().reshape(table.shape)
    rng = np.random.default_rng([case["repetition"], round(case["epsilon"] * 10_000), 7])
    made: dict[str, Callable[[], np.ndarray]] = {
        "uniform": lambda: np.full(table.shape, table.total / table.cells),
        "identity": lambda: identity(counts, case["epsilon"], rng),
        "hb": lambda: hierarchy(counts, case["epsilon"], rng),
    }
    rows = []
    for method, make in made.items():
        model = ProductModel(table.domain, [Factor(ranges.at, table.shape, make().ravel())], 1.0)
        rows.append(
            row_of(
                case,
                method,
                float(np.mean((ranges.answers(model) - truth) ** 2)),
                repetition=case["repetition"],
            )
        )
    return rows


def best(rows: list[Row]) -> float:
    """The least mean over the repetitions among the T."""
    return min(
        (mean(pick(rows, rounds=rounds), "error") for rounds in values(rows, "rounds")), default=float("nan")
    )


def plot(rows: list[Row], path: Path) -> None:
    drawn, axes = canvas(len(SETS), 2)
    for i, name in enumerate(SETS):
        here = pick(rows, data=name)
        for axis, along, fixed in (
            (axes[i], "epsilon", {"queries": QUERIES}),
            (axes[i + len(SETS)], "queries", {"epsilon": FIXED_EPSILON}),
        ):
            lines(axis, pick(here, **fixed), along)
        axes[i].set_title(name)
    for row in (0, 1):
        axes[row * len(SETS)].set_ylabel("squared error a query")
    axes[0].legend(fontsize=6)
    save(drawn, path)


def lines(axis: object, rows: list[Row], along: str) -> None:
    xs = values(rows, along)
    at = {x: pick(rows, **{along: x}) for x in xs}

    def draw(style: str, label: str, of: Callable[[list[Row]], float]) -> None:
        axis.plot(xs, [of(at[x]) for x in xs], style, label=label, markersize=3)  # type: ignore[attr-defined]

    draw("k-", "SVD bound", lambda r: mean(pick(r, method="bound"), "error"))
    for method, colour in (("mwem", "g"), ("mwem, replay", "b")):
        draw(f"{colour}o-", f"{method}, best T", lambda r, m=method: best(pick(r, method=m)))
        draw(
            f"{colour}:",
            f"{method}, T = {FIXED_ROUNDS}",
            lambda r, m=method: mean(pick(r, method=m, rounds=FIXED_ROUNDS), "error"),
        )
    for method, style in (("uniform", "y--"), ("identity", "r--"), ("hb", "m--")):
        draw(style, method, lambda r, m=method: mean(pick(r, method=m), "error"))
    axis.set(xlabel=along, xscale="log", yscale="log")  # type: ignore[attr-defined]
    axis.set_xticks(sorted(set(xs)), [f"{x:g}" for x in sorted(set(xs))])  # type: ignore[attr-defined]
    axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)  # type: ignore[attr-defined]


def judge(rows: list[Row]) -> list[Claim]:
    """At the smallest epsilon, where the paper makes its claim; T fixed, so that no mark rests on a choice
    that looks at the data.
    """
    texts = (
        "MWEM's error is below the SVD lower bound for small epsilon, in all four cases",
        "the improvement on the bound is often more than an order of magnitude, sometimes up to three",
        "(beyond the paper) below the bound MWEM is also below answering every query from the uniform "
        "distribution, in all four cases",
    )
    names = values(pick(rows, method="bound"), "data")
    if set(names) != set(SETS):
        return [Claim(text, OPEN, f"runs on {len(names)} of {len(SETS)} data sets only") for text in texts]
    gains, over_uniform = {}, {}
    for name in SETS:
        here = pick(rows, data=name, queries=QUERIES)
        here = pick(here, epsilon=min(values(here, "epsilon")))
        ours = min(mean(pick(here, method=m, rounds=FIXED_ROUNDS), "error") for m in VARIANTS)
        gains[name] = mean(pick(here, method="bound"), "error") / ours
        over_uniform[name] = mean(pick(here, method="uniform"), "error") / ours
    told = f"bound over MWEM (T = {FIXED_ROUNDS}): " + ", ".join(
        f"{name} {gain:.3g}" for name, gain in gains.items()
    )
    trivial = "uniform over MWEM: " + ", ".join(f"{name} {gain:.3g}" for name, gain in over_uniform.items())
    many = sum(gain >= 10 for gain in gains.values())
    return [
        Claim(texts[0], mark(min(gains.values()) > 1), told),
        Claim(
            texts[1],
            mark(2 * many >= len(SETS) and max(gains.values()) >= 100),
            f"tenfold on {many} of {len(SETS)}; {told}",
        ),
        Claim(texts[2], mark(min(over_uniform.values()) > 1), trivial),
    ]
