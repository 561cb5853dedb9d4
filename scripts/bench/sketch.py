"""Errors of sparse queries: our sketch, a private CountSketch, thresholded counts, and noise for each query.
NOT PRIVATE: truth is read from the table.

    FMWEM_DATASETS=FOLDER python scripts/bench sketch [--epsilons 1] [--rows 131072] [--runs 5]

The key of a row of Adult (48,842) is what it holds in eight columns, thousands of different texts. A query
asks how many rows have any of m keys; `common` keys are drawn as rows are, `distinct` ones each alike,
`absent` ones are in no row. All promise (epsilon, 1e-9) against one row more or less, and have the same rho:

    sketch        T rows of signs, four coefficients, discrete Gaussian noise, as `fmwem sketch` has it
    one block     the same with a single polynomial for all rows
    laplace       the same with SparseProject's printed noise, priced in rho
    countsketch   d = 5 rows of T / 5 buckets, noise sqrt(d) as large, medians of d (Charikar and others 2002)
    thresholded   every key whose noisy count passes a threshold that has half of delta; 0 for all others
    each query    k queries answered one by one, noise sqrt(k) as large: who knows all k beforehand

Figures: root of the mean squared error in records, the largest of k errors, and both as a ratio to the
sketch's of the same run; how often 95 % intervals of the sketch held the truth.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from unittest import mock

import numpy as np
import pyarrow as pa
from replay import data

from factored_mwem.accounting.accountant import Budget, largest_rho
from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.discover import threshold_for
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.sparse import Sketch, build, sketch

DELTA = 1e-9
DEPTH = 5
COLUMNS = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex", "native-country",
)  # fmt: skip
SPARSITY = (1, 4, 16, 64, 256)
QUERIES = (100, 10_000)
Query = np.ndarray
"""int64[m]: numbers of keys."""
Answers = Callable[[np.ndarray], np.ndarray]
"""int64[k, m] of keys to float64[k]."""


def keys_of_adult() -> list[str]:
    """The key of every row."""
    columns = data.read("adult", data.ADULT)
    return ["|".join(row) for row in zip(*(columns[name] for name in COLUMNS), strict=True)]


def by_sketch(made: Sketch, names: list[str]) -> Answers:
    """All keys are answered once, and queries are their sums, as the sketch's own are."""
    counts = np.array([a.estimate for a in made.answers([[name] for name in names])])
    return lambda asked: counts[asked].sum(axis=1)


def by_countsketch(
    counts: np.ndarray, names: int, rows: int, rho: Fraction, rng: np.random.Generator
) -> Answers:
    """Truly random buckets and signs; a row of the table moves one bucket in each of DEPTH rows."""
    width = rows // DEPTH
    places, signs = rng.integers(0, width, (DEPTH, names)), rng.choice([-1, 1], (DEPTH, names))
    noise = OpenDPNoise(Composition.ZCDP)
    found = np.empty((DEPTH, names))
    for d in range(DEPTH):
        sums = np.bincount(places[d][: len(counts)], signs[d][: len(counts)] * counts, width).astype(np.int64)
        noisy = noise.add(sums, scale=math.sqrt(DEPTH / (2 * rho)))
        found[d] = signs[d] * noisy[places[d]]
    return lambda asked: np.median(found[:, asked].sum(axis=2), axis=0)


def by_threshold(counts: np.ndarray, names: int, epsilon: float) -> Answers:
    """Keys of unknown names, of which those are told that enough rows have."""
    rho = largest_rho(epsilon, Fraction(DELTA) / 2)
    scale = math.sqrt(1 / (2 * rho))
    threshold, _ = threshold_for(scale, Fraction(DELTA) / 2, l0=1, linf=1)
    noise = OpenDPNoise(Composition.ZCDP)
    kept = noise.threshold({str(i): int(n) for i, n in enumerate(counts)}, scale=scale, threshold=threshold)
    found = np.zeros(names)
    for key, noisy in kept.items():
        found[int(key)] = noisy
    return lambda asked: found[asked].sum(axis=1)


def by_query(counts: np.ndarray, rho: Fraction) -> Answers:
    """Every query with noise of its own, its share of rho."""

    def answers(asked: np.ndarray) -> np.ndarray:
        noise = OpenDPNoise(Composition.ZCDP)
        return noise.add(counts[asked].sum(axis=1), scale=math.sqrt(len(asked) / (2 * rho)))

    return answers


def queries(
    kind: str, keys: np.ndarray, distinct: int, names: int, m: int, rng: np.random.Generator
) -> Query:
    """int64[k, m] for the greatest k; keys of a query may come twice where they are drawn as rows are."""
    shape = (max(QUERIES), m)
    if kind == "common":
        return keys[rng.integers(0, len(keys), shape)]
    low, high = (0, distinct) if kind == "distinct" else (distinct, names)
    return rng.integers(low, high, shape)


def compared(epsilon: float, rows: int, runs: int) -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
    """(kind, m, errors float64[run, k] by method), and coverage on the way."""
    rng = np.random.default_rng(0)
    texts = keys_of_adult()
    present, keys = np.unique(texts, return_inverse=True)
    counts = np.bincount(keys)
    names = [*present.tolist(), *(f"absent {i}" for i in range(len(present)))]
    padded = np.concatenate([counts, np.zeros(len(present), dtype=np.int64)])
    rho = Budget.of(epsilon, DELTA).amount
    print(
        f"{len(texts):,} rows, {len(present):,} keys, |D| {math.sqrt(float((counts**2).sum())):,.0f}; "
        f"epsilon {epsilon:g}, rho {float(rho):.4g}, T {rows:,}",
        flush=True,
    )
    methods: list[dict[str, Answers]] = []
    for _ in range(runs):
        started = time.perf_counter()
        made = sketch(pa.table({"key": texts}), "key", epsilon=epsilon, delta=DELTA, size=rows)
        took = time.perf_counter() - started
        with mock.patch.object(build, "BLOCKS", 1):
            single = sketch(pa.table({"key": texts}), "key", epsilon=epsilon, delta=DELTA, size=rows)
        printed = sketch(
            pa.table({"key": texts}), "key", epsilon=epsilon, delta=DELTA, size=rows, noise="laplace"
        )
        inside(made, names, padded, took)
        methods.append(
            {
                "sketch": by_sketch(made, names),
                "one block": by_sketch(single, names),
                "laplace": by_sketch(printed, names),
                "countsketch": by_countsketch(counts, len(names), rows, rho, rng),
                "thresholded": by_threshold(counts, len(names), epsilon),
                "each query": by_query(padded, rho),
            }
        )
    for kind in ("common", "distinct", "absent"):
        for m in SPARSITY:
            asked = queries(kind, keys, len(present), len(names), m, rng)
            truth = padded[asked].sum(axis=1)
            each = {
                name: np.array([run[name](asked) - truth for run in methods])
                for name in methods[0]
                if name != "each query"
            }
            for k in QUERIES:
                part = np.array([run["each query"](asked[:k]) - truth[:k] for run in methods])
                yield kind, m, {name: errors[:, :k] for name, errors in each.items()} | {"each query": part}


def inside(made: Sketch, names: list[str], counts: np.ndarray, took: float) -> None:
    """How often the interval of a key's count held it."""
    answers = made.answers([[name] for name in names])
    held = np.mean([a.low <= n <= a.high for a, n in zip(answers, counts, strict=True)])
    bars = answers[-1]
    print(
        f"a sketch in {took:.1f} s; an absent key +- {bars.stderr:.1f} (noise {bars.noise_stderr:.1f}, hash "
        f"{bars.projection_stderr:.1f}); intervals held {held:.1%} of {len(names):,} keys",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench sketch", description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2**17])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    for epsilon in given.epsilons:
        for rows in given.rows:
            print(
                "\n| keys | m | k | figure | sketch | others, as a ratio to it |\n|---|---|---|---|---|---|"
            )
            for kind, m, errors in compared(epsilon, rows, given.runs):
                k = next(iter(errors.values())).shape[1]
                figures = {
                    "rms": {n: float(np.sqrt((e**2).mean())) for n, e in errors.items()},
                    "max": {n: float(np.abs(e).max(axis=1).mean()) for n, e in errors.items()},
                }
                for figure, by in figures.items():
                    own = by.pop("sketch")
                    others = ", ".join(f"{name} {error / own:.2f}" for name, error in by.items())
                    print(f"| {kind} | {m} | {k:,} | {figure} | {own:.1f} | {others} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
