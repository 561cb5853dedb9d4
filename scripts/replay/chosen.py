"""The marks of Figure 5: which cuboids were chosen, and errors beside the baselines'."""

from __future__ import annotations

import numpy as np

from replay.figure import PAPER, Claim, Row, mark, mean, pick, values
from replay.interval import Interval, both, decided

ROUNDS = 10
"""T."""
ORDERS = {"2-way": 2, "3-way": 3, "unrestricted": 8}
ONE, NOISE = "1", "its noise"
"""What a cell takes off a cuboid's score: 1, as the paper has it, or the expected absolute value of the noise
that it collects, 2 T / epsilon.
"""
ALL, BASE = "measure all cuboids", "measure the base cuboid"
UNIFORM, PRODUCT = "uniform", "product of one-way cuboids"
BASELINES = (ALL, BASE, UNIFORM, PRODUCT)
CONFLATED = 0.1
"""Of all cells: a component with more is no improvement on one table of all."""


def counted_seeds(rows: list[Row]) -> str:
    number = len(values(rows, "seed"))
    return f"{number} seed{'' if number == 1 else 's'}"


def not_offered(rows: list[Row]) -> str:
    """What no run could choose."""
    left, offered = max(values(rows, "left_out"), default=0), max(values(rows, "candidates"), default=0)
    return f"{left} of {left + offered} cuboids, of more than 2^16 cells, were not offered, and none else"


def ignored(rows: list[Row], a_cell: str, text: str, whose: str = PAPER) -> Claim:
    """No cuboid of more than three attributes is measured in any unrestricted run."""
    free = pick(rows, method="unrestricted", a_cell=a_cell)
    by = "; ".join(
        f"epsilon {e:g}: {mean(pick(free, epsilon=e), 'higher'):.1f}" for e in values(free, "epsilon")
    )
    why = (
        f"of T = {ROUNDS} measurements in the unrestricted runs ({counted_seeds(free)}), those of "
        "order 4 and "
        f"more: {by}"
    )
    if a_cell == ONE:
        why += (
            "; the sum of |cell error| never falls as a cuboid gets finer, and 1 a cell is little beside it"
        )
    used = max(values(free, "higher"), default=1)
    return Claim(text, mark(used == 0), f"{why}; {not_offered(free)}", whose)


def only_one(rows: list[Row], a_cell: str, text: str, whose: str = PAPER) -> Claim:
    """One in most of the runs."""
    three = pick(rows, method="3-way", a_cell=a_cell)
    by = "; ".join(
        f"epsilon {e:g}: {mean(pick(three, epsilon=e), 'three_way'):.1f}" for e in values(three, "epsilon")
    )
    once = sum(row["three_way"] == 1 for row in three)
    why = (
        f"of T = {ROUNDS} measurements in the 3-way runs, those of order 3: {by}; exactly one in {once} of "
        f"{len(three)} runs (most is what holds; {counted_seeds(three)}; the paper's T and "
        f"epsilon are lost); {not_offered(three)}"
    )
    return Claim(text, mark(2 * once > len(three)), why, whose)


def conflated(rows: list[Row]) -> Claim:
    """Section 4.1 on these attributes: in every run with the paper's score; the others are told."""
    ours = [row for row in pick(rows, a_cell=ONE) if row["method"] in ORDERS]
    others = pick(rows, a_cell=NOISE)
    spared = sum(row["conflated_at"] == 0 for row in others)
    largest = max((row["largest_cells"] for row in others), default=0)
    at = [row["conflated_at"] for row in ours]
    never = sum(i == 0 for i in at)
    cells = [row["largest_cells"] for row in ours]
    first = ", ".join(
        f"{name} {np.median([r['conflated_at'] or ROUNDS + 1 for r in pick(ours, method=name)]):g}"
        for name in values(ours, "method")
    )
    return Claim(
        "Section 4.1, on the original eight categorical attributes: with so few the components “are too "
        "quickly conflated to give an improvement”; judged is the first half, an improvement was "
        "not measured",
        mark(bool(at) and never == 0),
        f"one component has more than {CONFLATED:.0%} of the 27,000,960 cells by the end of {ROUNDS} rounds "
        f"in {len(at) - never} of {len(at)} runs with the paper's score (in all is what holds), "
        "from this round on in the median: "
        f"{first}; at the end the median is {np.median(cells) if cells else 0:,.0f} cells; a cell "
        "that costs its "
        f"expected noise, which is not the paper's score, leaves {spared} of {len(others)} runs without one "
        f"(at most {largest:,} cells)",
    )


def ratios(rows: list[Row], ours: list[Row], key: str, of: tuple[str, ...] = BASELINES) -> dict[float, float]:
    """epsilon -> the error of the best of these baselines over ours."""
    return {
        e: min(mean(pick(rows, method=m, epsilon=e), key) for m in of) / mean(pick(ours, epsilon=e), key)
        for e in values(ours, "epsilon")
    }


def lower(rows: list[Row], ours: list[Row], key: str) -> str:
    """The mark: below the best baseline at every epsilon, by the interval over the seeds."""
    truths = []
    for e in values(ours, "epsilon"):
        least = min(mean(pick(rows, method=m, epsilon=e), key) for m in BASELINES)
        truths.append(Interval.of([row[key] for row in pick(ours, epsilon=e)]).below(least))
    return decided(both(*truths) if truths else None)


def listed(found: dict[float, float]) -> str:
    return ", ".join(f"{ratio:.2f} at {e:g}" for e, ratio in found.items())
