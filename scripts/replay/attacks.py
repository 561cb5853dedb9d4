"""Who asks the constructions of Gupta, Roth and Ullman, and their Algorithm 1, and what comes of it. NOT
PRIVATE.
"""

from __future__ import annotations

import math

import numpy as np

from factored_mwem.interactive.construction import Construction
from factored_mwem.interactive.constructions import FriezeKannan, Median, MultiplicativeWeights
from replay.bounds import BETA, DELTA, EPSILON, FK, MEDIAN, accuracy
from replay.figure import Row

ELEMENTS, RECORDS, QUERIES = 64, 1_000.0, 400
TOY, SIZE = 4, 12
"""Elements of the median's universe, and of each of its tables."""
MOST = 50_000
"""Updates after which a sequence is given up: far above every bound here."""
MANY, ASKED = 3e8, (10, 30, 100, 300, 1_000)
"""Records and numbers of queries of Algorithm 1: its constants say nothing about much smaller tables."""


def attacked(case: Row) -> list[Row]:
    """A row for each update of a sequence, and before the first: the maximum error then."""
    rng = np.random.default_rng([8, case["seed"]])
    alpha = case["alpha"] * RECORDS
    elements = TOY if case["construction"] == MEDIAN else ELEMENTS
    queries = (rng.random((QUERIES, elements)) < 0.5).astype(np.float64)
    if case["construction"] == MEDIAN:
        table = rng.multinomial(SIZE, rng.dirichlet(np.full(TOY, 0.5))) * (RECORDS / SIZE)
    else:
        table = rng.dirichlet(np.full(elements, 0.3)) * RECORDS
    made, truth, found = _made(case["construction"], table, RECORDS, alpha), queries @ table, list[Row]()
    while True:
        gaps = np.array([made.answer(query) for query in queries]) - truth
        error = float(np.abs(gaps).max())
        found.append({**case, "updates": len(found), "error": error / RECORDS, "bound": made.bound(alpha)})
        if error < alpha or len(found) > MOST:
            break
        chosen = _chosen(case["adversary"], gaps, alpha, len(found), rng)
        made.update(queries[chosen], truth[chosen])
    kept = {*range(min(len(found), 64)), *np.geomspace(1, len(found), 200).astype(int) - 1, len(found) - 1}
    return [{**found[i], "last": int(i == len(found) - 1)} for i in sorted(kept)]


def _made(name: str, table: np.ndarray, total: float, alpha: float) -> Construction[np.ndarray]:
    """A fresh construction for a table; Frieze and Kannan's is told the table's norm."""
    if name == MEDIAN:
        return Median(len(table), total, SIZE)
    if name == FK:
        return FriezeKannan(len(table), float(np.linalg.norm(table)), alpha)
    return MultiplicativeWeights(len(table), total, alpha)


def _chosen(adversary: str, gaps: np.ndarray, alpha: float, step: int, rng: np.random.Generator) -> int:
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
    rng, k = np.random.default_rng([9, case["seed"], case["queries"]]), case["queries"]
    queries = (rng.random((max(k, QUERIES), ELEMENTS)) < 0.5).astype(np.float64)
    table = rng.dirichlet(np.full(ELEMENTS, 0.3)) * MANY
    norm = float(np.linalg.norm(table)) if case["construction"] == FK else None
    alpha = accuracy(MANY, ELEMENTS, math.log(2 * k / BETA), norm=norm)
    made, truth = _made(case["construction"], table, MANY, alpha), queries @ table
    bound = made.bound(alpha)
    sigma = 1000 * math.sqrt(bound) * math.log(4 / DELTA) / EPSILON
    threshold, worst, updates = 4 * sigma * math.log(2 * k / BETA), 0.0, 0
    for number in range(k):
        asked = number
        if case["adversary"] == "greedy":
            answers = np.array([made.answer(query) for query in queries])
            asked = int(np.abs(answers - truth).argmax())
        noisy, given = truth[asked] + rng.laplace(scale=sigma), made.answer(queries[asked])
        if abs(noisy - given) > threshold:
            given = noisy
            made.update(queries[asked], noisy)
            updates += 1
        worst = max(worst, abs(float(given) - truth[asked]))
    return [
        {
            **case,
            "updates": updates,
            "bound": bound,
            "alpha": alpha / MANY,
            "error": worst / MANY,
            "guaranteed": 5 * alpha / 3 / MANY,
        }
    ]
