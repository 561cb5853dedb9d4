"""Figure 5: maximum and average error over all 256 cuboids of Adult's eight categorical attributes. NOT
PRIVATE.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

from factored_mwem import Domain
from factored_mwem.mechanisms.queries import Queries
from factored_mwem.workload.queries.cuboids import Cuboids
from replay.adult27 import codes
from replay.figure import OPEN, Claim, Row, band, canvas, mark, mean, pick, save, values
from replay.paper import Paper, Task, paper_mwem

EPSILONS = (0.25, 0.5, 1.0, 2.0)
ROUNDS, SWEEPS, GUARD = 10, 100, 1.0
MOST = 2**16
"""Cells of a candidate. A score is at most 2 n = 60,324 less the cells, so whatever the data a larger one's
lies below that of every small cuboid.
"""
CAP, CAP_OF_FULL = 2**18, 2**20
"""Cells of a component: a candidate that would make a larger one is left out of that round."""
ORDERS = {"2-way": 2, "3-way": 3, "unrestricted": 8}
ONE, NOISE = "1", "its noise"
"""What a cell takes off a cuboid's score: 1, as the paper has it, or the expected absolute value of the noise
that it collects, 2 T / epsilon.
"""
ALL, BASE = "measure all cuboids", "measure the base cuboid"
SEVERAL, VERY_FEW = 3.0, 3

TITLE = "Figure 5: error over the 256 cuboids of Adult's eight categorical attributes"
SETTINGS = (
    "The 30,162 complete rows of adult.data; error of a cuboid: mean of |cell error|; maximum and average "
    "over all 256 cuboids. Candidates are the "
    "cuboids up to order 2, up to order 3, or all. Not stated in the paper and chosen here: epsilon, T = "
    f"{ROUNDS}, replay in up to {SWEEPS} sweeps "
    f"until within {GUARD:g} standard deviation of the noise, no cuboid twice. Left out: candidates of more "
    "than 2^16 cells, whose score cannot come "
    "near a small one's, and in each round those that would tie attributes into a component of more than "
    f"2^{CAP.bit_length() - 1} cells "
    f"(2^{CAP_OF_FULL.bit_length() - 1} in full; all eight have 27,000,960). A cuboid's score loses 1 for "
    "each cell, as in the paper, or, as a "
    "variation, the noise to expect there. The baselines, Laplace noise of scale 256 / epsilon in all "
    "cuboids or of 1 / epsilon in the base cuboid's "
    "cells, are exact in distribution. The rivals in the paper (Ding et al.) are not run."
)


def cases(full: bool) -> list[Row]:
    """MWEM by candidates and score, and the two baselines, all epsilons of which follow from one draw."""
    seeds, epsilons, cap = (range(3), EPSILONS, CAP_OF_FULL) if full else (range(1), EPSILONS[::2], CAP)
    kinds = [(name, ONE) for name in ORDERS] + [("3-way", NOISE), ("unrestricted", NOISE)]
    runs = [
        {"method": name, "a_cell": a, "epsilon": e, "seed": s, "cap": cap}
        for name, a in kinds
        for e in epsilons
        for s in seeds
    ]
    return runs + [{"method": of, "epsilons": list(epsilons), "seed": s} for of in (ALL, BASE) for s in seeds]


def run(case: Row) -> list[Row]:
    """Errors of one run of MWEM and what it measured, or of a baseline at every epsilon."""
    domain, rows = codes()
    rng = np.random.default_rng([5, case["seed"]])
    if case["method"] in (ALL, BASE):
        errors = (
            of_all(domain, rng)
            if case["method"] == ALL
            else cuboid_errors(rng.laplace(size=domain.cells), domain.shape)
        )
        return [
            {
                "method": case["method"],
                "a_cell": "",
                "epsilon": e,
                "seed": case["seed"],
                **_summary(errors / e),
            }
            for e in case["epsilons"]
        ]
    everything = range(len(domain))
    sets = [s for k in range(1, ORDERS[case["method"]] + 1) for s in itertools.combinations(everything, k)]
    cuboids = Cuboids(tuple(s for s in sets if math.prod(domain.shape[p] for p in s) <= MOST), domain.shape)
    settings = {"cap": case["cap"], "noise_penalty": case["a_cell"] == NOISE}
    paper = Paper(case["epsilon"], ROUNDS, SWEEPS, GUARD, **settings)
    made = paper_mwem(Task.of(cuboids, domain, rows), paper, rng)
    model, orders = made.model, [len(cuboids.cliques[q]) for q in made.asked]
    fits = Queries.about([cuboids], [1.0]).fits(model, case["cap"])
    found = {
        "candidates": len(cuboids.cliques),
        "left_out_at_end": int((~fits).sum()),
        "three_way": sum(k == 3 for k in orders),
        "higher": sum(k > 3 for k in orders),
        "largest_cells": max(len(part.weights) for part in model.components),
        "asked": "; ".join("+".join(domain.names[p] for p in cuboids.cliques[q]) for q in made.asked),
    }
    return [
        {
            **case,
            **_summary(cuboid_errors(model.marginal(everything) - rows.marginal(everything), domain.shape)),
            **found,
        }
    ]


def cuboid_errors(gaps: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """float64[cuboid]: the mean of |cell error| of each of the 2^d cuboids, from the errors of the base
    cuboid's cells, which add up.
    """
    found: list[float] = []
    pending = [(gaps.reshape(1, -1), 0)]
    while pending:
        table, at = pending.pop()
        if at == len(shape):
            found.append(float(np.abs(table).mean()))
            continue
        rest = table.shape[1] // shape[at]
        pending.append((table.reshape(-1, shape[at], rest).sum(axis=1), at + 1))
        pending.append((table.reshape(-1, rest), at + 1))
    return np.array(found)


def of_all(domain: Domain, rng: np.random.Generator) -> np.ndarray:
    """The errors of all cuboids, each cell measured with Laplace noise of scale 256: a mean of m absolute
    values has a Gamma distribution.
    """
    cells = [math.prod(s) for k in range(len(domain) + 1) for s in itertools.combinations(domain.shape, k)]
    return np.array([rng.gamma(m) * len(cells) / m for m in cells])


def plot(rows: list[Row], path: Path) -> None:
    """Maximum and average cuboid error against epsilon, as in the paper."""
    drawn, axes = canvas(2)
    for axis, key in zip(axes, ("max_error", "average_error"), strict=True):
        for method, a_cell in sorted({(row["method"], row["a_cell"]) for row in rows}):
            some = pick(rows, method=method, a_cell=a_cell)
            style = {"": ":", ONE: "-", NOISE: "--"}[a_cell]
            label = f"{method}, a cell costs its noise" if a_cell == NOISE else method
            band(
                axis,
                values(some, "epsilon"),
                lambda e, some=some: pick(some, epsilon=e),
                key,
                style,
                label=label,
            )
        axis.set(xlabel="epsilon", ylabel=f"{key.replace('_', ' ')} of a cuboid", xscale="log", yscale="log")
    axes[1].legend(fontsize=6)
    save(drawn, path)


def judge(rows: list[Row]) -> list[Claim]:
    """What MWEM chose, and its error against the better baseline at each epsilon."""
    three = pick(rows, method="3-way", a_cell=ONE)
    average, largest = _ratios(rows, three, "average_error"), _ratios(rows, three, "max_error")
    return [
        _few(rows, ONE, "One or very few 3-way cuboids are used, and higher ones not at all."),
        _few(rows, NOISE, "The same where a cell costs its expected noise instead of 1."),
        Claim(
            "The average error is several times lower than that of measuring all cuboids or the base cuboid.",
            mark(min(average.values()) >= SEVERAL),
            "3-way, better baseline's average error over MWEM's: "
            + _listed(average)
            + f" (several: at least {SEVERAL:g})",
        ),
        Claim(
            "The maximum error is comparable to the best of Ding et al.",
            OPEN,
            "their program is not run; the better baseline's maximum error over that of MWEM, 3-way: "
            + _listed(largest),
        ),
    ]


def _few(rows: list[Row], a_cell: str, text: str) -> Claim:
    three, free = pick(rows, method="3-way", a_cell=a_cell), pick(rows, method="unrestricted", a_cell=a_cell)
    used, higher = [row["three_way"] for row in three], [row["higher"] for row in free]
    few = bool(used) and max(used) <= VERY_FEW and min(used) >= 1 and max(higher, default=0) == 0
    by = "; ".join(
        f"epsilon {e:g}: {mean(pick(three, epsilon=e), 'three_way'):.1f} and "
        f"{mean(pick(free, epsilon=e), 'higher'):.1f}"
        for e in values(three, "epsilon")
    )
    return Claim(
        text,
        mark(few),
        f"of {ROUNDS} measurements, 3-way ones in the 3-way run and higher ones in the unrestricted run, at "
        f"{by}",
    )


def _ratios(rows: list[Row], ours: list[Row], key: str) -> dict[float, float]:
    """epsilon -> the better baseline's error over ours."""
    baselines = {
        e: min(mean(pick(rows, method=of, epsilon=e), key) for of in (ALL, BASE))
        for e in values(ours, "epsilon")
    }
    return {e: baseline / mean(pick(ours, epsilon=e), key) for e, baseline in baselines.items()}


def _listed(ratios: dict[float, float]) -> str:
    return ", ".join(f"{ratio:.1f} at epsilon {e:g}" for e, ratio in ratios.items())


def _summary(errors: np.ndarray) -> dict[str, float]:
    return {"max_error": float(errors.max()), "average_error": float(errors.mean())}
