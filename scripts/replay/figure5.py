"""Figure 5: maximum and average error over all 256 cuboids of Adult's eight categorical attributes. NOT
PRIVATE.
"""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import Any

import numpy as np
from common.runner import tabulated

from factored_mwem import Domain
from factored_mwem.workload.queries.cuboids import Cuboids
from replay import data
from replay.adult27 import codes
from replay.drawing import canvas, frame, line
from replay.figure import (
    Interval,
    Mark,
    Marks,
    Row,
    Table,
    Truth,
    all_of,
    by,
    filled,
    grid,
    mark,
    mean,
    pick,
    values,
)
from replay.loglinear import cuboid_mwem
from replay.paper import Paper, Task

EPSILONS = (0.25, 0.5, 1.0, 2.0)
EPSILONS_QUICK = (1.0,)
ROUNDS, SWEEPS, GUARD = 10, 100, 1.0
MOST = 2**16
"""Cells of a candidate. A score is at most 2 n = 60,324 less the cells, so whatever the data a larger one's
lies below that of every small cuboid.
"""
ORDERS = {"2-way": 2, "3-way": 3, "unrestricted": 8}
ONE, NOISE = "1", "its noise"
"""What a cell takes off a cuboid's score: 1, as the paper has it, or the expected absolute value of the noise
that it collects, 2 T / epsilon.
"""
COLOURS = {"2-way": "tab:blue", "3-way": "tab:green", "unrestricted": "tab:purple"}
RUNS = [*((name, ONE) for name in ORDERS), ("3-way", NOISE), ("unrestricted", NOISE)]
ALL, BASE = "measure all cuboids", "measure the base cuboid"
UNIFORM, PRODUCT = "uniform", "product of one-way cuboids"
BASELINES: dict[str, Row] = {
    ALL: {"color": "tab:red", "fmt": "--", "label": "all cuboids"},
    BASE: {"color": "tab:red", "fmt": ":", "label": "base cuboid"},
    UNIFORM: {"color": "0.4", "fmt": ":", "label": "uniform"},
    PRODUCT: {"color": "0.4", "fmt": "--", "label": "product"},
}
"""How they are drawn, and what the key calls them."""
CONFLATED = 0.1
"""Of all cells: a component with more is no improvement on one table of all."""


def cases(full: bool) -> list[Row]:
    """MWEM by candidates and score, and the baselines, all epsilons of which follow from one draw."""
    seeds, epsilons = (range(5), EPSILONS) if full else (range(1), EPSILONS_QUICK)
    runs = [each for name, a in RUNS for each in grid(method=name, a_cell=a, epsilon=epsilons, seed=seeds)]
    return runs + grid(method=BASELINES, epsilons=[list(epsilons)], seed=seeds)


def run(case: Row) -> list[Row]:
    """Errors of one run of MWEM and what it measured, or of a baseline at every epsilon."""
    domain, rows = codes()
    rng = np.random.default_rng([5, case["seed"]])
    if case["method"] in BASELINES:
        return baseline(case, domain, rows, rng)
    everything = range(len(domain))
    sets = [s for k in range(1, ORDERS[case["method"]] + 1) for s in itertools.combinations(everything, k)]
    cuboids = Cuboids(tuple(s for s in sets if math.prod(domain.shape[p] for p in s) <= MOST), domain.shape)
    paper = Paper(case["epsilon"], ROUNDS, SWEEPS, GUARD, noise_penalty=case["a_cell"] == NOISE)
    largest: list[int] = []
    task = Task.of(cuboids, domain, rows)
    model, asked = cuboid_mwem(task, paper, rng, watch=lambda now: largest.append(max(now.cells())))
    orders = [len(cuboids.cliques[q]) for q in asked]
    gaps = model.marginal(everything) - rows.marginal(everything)
    conflated = [i for i, cells in enumerate(largest, start=1) if cells > CONFLATED * domain.cells]
    chosen = {
        "candidates": len(cuboids.cliques),
        "left_out": len(sets) - len(cuboids.cliques),
        "three_way": sum(k == 3 for k in orders),
        "higher": sum(k > 3 for k in orders),
        "largest_cells": largest[-1],
        "conflated_at": min(conflated, default=0),
        "asked": "; ".join("+".join(domain.names[p] for p in cuboids.cliques[q]) for q in asked),
    }
    return [case | summary(cuboid_errors(gaps, domain.shape)) | chosen]


def baseline(case: Row, domain: Domain, rows: data.Exact, rng: np.random.Generator) -> list[Row]:
    """A row for each epsilon, all from one draw of noise."""
    method, shape, everything = case["method"], domain.shape, range(len(domain))
    noise = [rng.laplace(size=size) for size in shape] if method == PRODUCT else []
    if method == ALL:
        errors = of_all(domain, rng)
    elif method == BASE:
        errors = cuboid_errors(rng.laplace(size=domain.cells), shape)
    elif method == UNIFORM:
        exact = rows.marginal(everything)
        errors = cuboid_errors(exact.sum() / domain.cells - exact, shape)
    lines = []
    for e in case["epsilons"]:
        if method == PRODUCT:
            noisy = [rows.marginal([p]) + len(shape) / e * noise[p] for p in everything]
            errors = cuboid_errors(product_of(noisy, rows.total) - rows.marginal(everything), shape)
        scaled = summary(errors / e if method in (ALL, BASE) else errors)
        lines.append({"method": method, "a_cell": "", "epsilon": e, "seed": case["seed"], **scaled})
    return lines


def summary(errors: np.ndarray) -> dict[str, float]:
    return {"max_error": float(errors.max()), "average_error": float(errors.mean())}


def cuboid_errors(gaps: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """float64[cuboid]: the mean of |cell error| of each of the 2^d cuboids, from the errors of the base
    cuboid's cells, which add up.
    """
    errors: list[float] = []
    pending = [(gaps.reshape(1, -1), 0)]
    while pending:
        table, at = pending.pop()
        if at == len(shape):
            errors.append(float(np.abs(table).mean()))
            continue
        rest = table.shape[1] // shape[at]
        pending.append((table.reshape(-1, shape[at], rest).sum(axis=1), at + 1))
        pending.append((table.reshape(-1, rest), at + 1))
    return np.array(errors)


def of_all(domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """The errors of all cuboids, each cell measured with Laplace noise of scale 256: a mean of m absolute
    values has a Gamma distribution.
    """
    cells = [math.prod(s) for k in range(len(domain) + 1) for s in itertools.combinations(domain.shape, k)]
    return np.array([rng.gamma(m) * len(cells) / m for m in cells])


def product_of(one_ways: list[np.ndarray], total: float) -> np.ndarray:
    """float64[cells]: independent attributes with these counts, negative ones 0, in records."""
    shares = [np.maximum(counts, 0.0) / np.maximum(counts, 0.0).sum() for counts in one_ways]
    product: np.ndarray = reduce(lambda a, b: np.multiply.outer(a, b).ravel(), shares, np.full(1, total))
    return product


def plot(rows: list[Row]) -> Any:
    """Maximum and average cuboid error against epsilon, as in the paper."""
    drawn, axes = canvas(2)
    for axis, what in zip(axes, ("max_error", "average_error"), strict=True):
        for method, a_cell in RUNS:
            style = {"fmt": "--" if a_cell == NOISE else "-", "color": COLOURS[method]}
            label = f"MWEM, {method}" + (", noise" if a_cell == NOISE else "")
            at = by(pick(rows, method=method, a_cell=a_cell), "epsilon")
            line(axis, at, what, band=True, label=label, **style)
        for method, style in BASELINES.items():
            line(axis, by(pick(rows, method=method), "epsilon"), what, **style)
        scales = {"xlabel": "epsilon", "xscale": "log", "yscale": "log"}
        frame(axis, values(rows, "epsilon"), ylabel=f"{what.replace('_', ' ')} of a cuboid", **scales)
    return drawn


def tables(rows: list[Row]) -> list[Table]:
    """Errors, and what was measured."""
    caption = f"Error over 256 cuboids, and cuboids measured of each order (means of {seeds_of(rows)})"
    errors = "maximum error = {max_error:.3g} | average error = {average_error:.3g}"
    used = "3-way used = {three_way:.1f} | higher used = {higher:.1f}"
    titles, lines = tabulated(rows, "method a_cell epsilon", f"{errors} | {used}")
    return [Table(caption, ["method", "a cell costs", *titles[2:]], lines)]


def marks(rows: list[Row]) -> Marks:
    """What MWEM chose, and its error against the best baseline at each epsilon."""
    three = pick(rows, method="3-way", a_cell=ONE)
    each = {of: ratios(rows, three, "average_error", (of,)) for of in BASELINES}
    errors = {
        "average": ratios(rows, three, "average_error"),
        "largest": ratios(rows, three, "max_error"),
        "seeds": seeds_of(rows),
        "beside": "; ".join(f"{of} {filled('{at:.2f}', {'at': at})}" for of, at in each.items()),
    }
    return [
        ignored(rows, ONE),
        only_one(rows, ONE),
        mark(None, **errors),
        mark(None, **errors),
        conflated(rows),
        ignored(rows, NOISE),
        only_one(rows, NOISE),
        mark(lower(rows, three, "average_error"), **errors),
        mark(lower(rows, three, "max_error"), **errors),
    ]


def seeds_of(rows: list[Row]) -> str:
    number = len(values(rows, "seed"))
    return f"{number} seed{'' if number == 1 else 's'}"


def measured(rows: list[Row], column: str) -> Row:
    """How many cuboids were of an order, how many seeds say so, and what no run could choose."""
    left, offered = (max(values(rows, key), default=0) for key in ("left_out", "candidates"))
    number = "; ".join(f"epsilon {e:g}: {mean(at, column):.1f}" for e, at in by(rows, "epsilon").items())
    return {"number": number, "seeds": seeds_of(rows), "left": left, "sets": left + offered}


def ignored(rows: list[Row], a_cell: str) -> Mark:
    """No cuboid of more than three attributes is measured in any unrestricted run."""
    free = pick(rows, method="unrestricted", a_cell=a_cell)
    return mark(max(values(free, "higher"), default=1) == 0, **measured(free, "higher"))


def only_one(rows: list[Row], a_cell: str) -> Mark:
    """One in most of the runs."""
    three = pick(rows, method="3-way", a_cell=a_cell)
    once = sum(row["three_way"] == 1 for row in three)
    return mark(2 * once > len(three), once=once, runs=len(three), **measured(three, "three_way"))


def conflated(rows: list[Row]) -> Mark:
    """Section 4.1 on these attributes: in every run with the paper's score; of the others it is only said."""
    ours = [row for row in pick(rows, a_cell=ONE) if row["method"] in ORDERS]
    others, tied = pick(rows, a_cell=NOISE), sum(row["conflated_at"] > 0 for row in ours)
    first = [
        f"{name} {np.median([row['conflated_at'] or ROUNDS + 1 for row in runs]):g}"
        for name, runs in by(ours, "method").items()
    ]
    cells = np.median([row["largest_cells"] for row in ours] or [0])
    spared, largest = len(pick(others, conflated_at=0)), max(values(others, "largest_cells"), default=0)
    counts = {"tied": tied, "runs": len(ours), "spared": spared, "others": len(others), "largest": largest}
    return mark(bool(ours) and tied == len(ours), first=first, median=cells, **counts)


def least(rows: list[Row], epsilon: float, key: str, of: tuple[str, ...]) -> float:
    """The error of the best of these baselines."""
    return min(mean(pick(rows, method=method, epsilon=epsilon), key) for method in of)


def ratios(
    rows: list[Row], ours: list[Row], key: str, of: tuple[str, ...] = tuple(BASELINES)
) -> dict[float, float]:
    """epsilon -> the error of the best of these baselines over ours."""
    return {e: least(rows, e, key, of) / mean(runs, key) for e, runs in by(ours, "epsilon").items()}


def lower(rows: list[Row], ours: list[Row], key: str) -> Truth:
    """Below the best baseline at every epsilon, by the interval over the seeds."""
    runs = {e: Interval.of(at, key) for e, at in by(ours, "epsilon").items()}
    return all_of(at.below(least(rows, e, key, tuple(BASELINES))) for e, at in runs.items()) if runs else None
