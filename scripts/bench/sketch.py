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

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
from common.runner import Benchmark, Options, Row
from common.tables import find

from factored_mwem.accounting.accountant import Budget, largest_rho
from factored_mwem.accounting.conversion import Composition
from factored_mwem.privacy.discover import threshold_for
from factored_mwem.privacy.noise import OpenDPNoise
from factored_mwem.sessions.sketch import Sketch, build
from factored_mwem.sessions.sketch import sketch as ours

DELTA = 1e-9
DEPTH = 5
COLUMNS = (
    *("workclass", "education", "marital-status", "occupation", "relationship", "race", "sex"),
    *("native-country",),
)
SPARSITY = (1, 4, 16, 64, 256)
QUERIES = (100, 10_000)
Answers = Callable[[np.ndarray], np.ndarray]
"""int64[k, m] of numbers of keys to float64[k]."""


@dataclass(frozen=True, kw_only=True)
class Sketches(Options):
    epsilons: tuple[float, ...] = (1.0,)
    rows: tuple[int, ...] = (2**17,)
    runs: int = 5


def keys_of_adult() -> list[str]:
    """The key of every row."""
    table = pd.read_csv(find("adult"), dtype=str, keep_default_na=False)[list(COLUMNS)]
    return table.agg("|".join, axis=1).tolist()


def by_sketch(made: Sketch, names: list[str], truth: np.ndarray | None = None) -> Answers:
    """All keys are answered once, and queries are their sums, as the sketch's own are. With `truth` it tells
    how often the interval of a key's count held it.
    """
    answers = made.answers([[name] for name in names])
    counts = np.array([a.estimate for a in answers])
    if truth is not None:
        held = np.mean([a.low <= n <= a.high for a, n in zip(answers, truth, strict=True)])
        bars = answers[-1]
        parts = f"noise {bars.noise_stderr:.1f}, hash {bars.projection_stderr:.1f}"
        print(
            f"an absent key +- {bars.stderr:.1f} ({parts}); intervals held {held:.1%} of {len(names):,} keys"
        )
    return lambda asked: counts[asked].sum(axis=1)


def by_countsketch(
    counts: np.ndarray, names: int, rows: int, rho: Fraction, rng: np.random.Generator
) -> Answers:
    """Truly random buckets and signs; a row of the table moves one bucket in each of DEPTH rows."""
    width = rows // DEPTH
    places, signs = rng.integers(0, width, (DEPTH, names)), rng.choice([-1, 1], (DEPTH, names))
    noise, estimates = OpenDPNoise(Composition.ZCDP), np.empty((DEPTH, names))
    for d in range(DEPTH):
        sums = np.bincount(places[d][: len(counts)], signs[d][: len(counts)] * counts, width).astype(np.int64)
        estimates[d] = signs[d] * noise.add(sums, scale=math.sqrt(DEPTH / (2 * rho)))[places[d]]
    return lambda asked: np.median(estimates[:, asked].sum(axis=2), axis=0)


def by_threshold(counts: np.ndarray, names: int, epsilon: float) -> Answers:
    """Keys of unknown names, of which those are told that enough rows have."""
    scale = math.sqrt(1 / (2 * largest_rho(epsilon, Fraction(DELTA) / 2)))
    threshold, _ = threshold_for(scale, Fraction(DELTA) / 2, l0=1, linf=1)
    noise, estimates = OpenDPNoise(Composition.ZCDP), np.zeros(names)
    kept = noise.threshold({str(i): int(n) for i, n in enumerate(counts)}, scale=scale, threshold=threshold)
    for key, noisy in kept.items():
        estimates[int(key)] = noisy
    return lambda asked: estimates[asked].sum(axis=1)


def by_query(counts: np.ndarray, rho: Fraction) -> Answers:
    """Every query with noise of its own, its share of rho."""
    noise = OpenDPNoise(Composition.ZCDP)
    return lambda asked: noise.add(counts[asked].sum(axis=1), scale=math.sqrt(len(asked) / (2 * rho)))


def compared(options: Sketches, folder: Path) -> Iterator[Row]:
    """A row for each kind and size of queries and each method, of all runs."""
    texts = keys_of_adult()
    present, keys = np.unique(texts, return_inverse=True)
    counts, distinct = np.bincount(keys), len(present)
    names = [*present.tolist(), *(f"absent {i}" for i in range(distinct))]
    padded = np.concatenate([counts, np.zeros(distinct, dtype=np.int64)])
    for epsilon, size in itertools.product(options.epsilons, options.rows):
        rng, rho, table = np.random.default_rng(0), Budget.of(epsilon, DELTA).amount, pa.table({"key": texts})
        told = {"epsilon": epsilon, "delta": DELTA, "size": size}
        length = math.sqrt(float((counts**2).sum()))
        print(f"{len(texts):,} rows, {distinct:,} keys, |D| {length:,.0f}; rho {float(rho):.4g}")
        methods: list[dict[str, Answers]] = []
        for _ in range(options.runs):
            started = time.perf_counter()
            made = ours(table, "key", **told)
            print(f"a sketch in {time.perf_counter() - started:.1f} s", end="; ")
            with mock.patch.object(build, "BLOCKS", 1):
                single = ours(table, "key", **told)
            run = {"sketch": by_sketch(made, names, padded), "one block": by_sketch(single, names)}
            run["laplace"] = by_sketch(ours(table, "key", noise="laplace", **told), names)
            run["countsketch"] = by_countsketch(counts, len(names), size, rho, rng)
            run["thresholded"] = by_threshold(counts, len(names), epsilon)
            run["each query"] = by_query(padded, rho)
            methods.append(run)
        for kind, m in itertools.product(("common", "distinct", "absent"), SPARSITY):
            low, high = (0, distinct) if kind == "distinct" else (distinct, len(names))
            drawn = keys if kind == "common" else np.arange(low, high)  # keys of a query may come twice
            asked = drawn[rng.integers(0, len(drawn), (max(QUERIES), m))]
            truth = padded[asked].sum(axis=1)
            for k, name in itertools.product(QUERIES, methods[0]):
                errors = np.array([run[name](asked[:k]) - truth[:k] for run in methods])
                about = {"epsilon": epsilon, "T": size, "keys": kind, "m": m, "k": k, "method": name}
                largest = float(np.abs(errors).max(axis=1).mean())
                yield {**about, "rms": float(np.sqrt((errors**2).mean())), "max": largest}


FIGURES = "rms = {rms:.1f} | ratio = {rms/:.2f} | max = {max:.1f} | ratio of max = {max/:.2f}"
sketch = Benchmark(Sketches, compared, "epsilon T keys m k method", FIGURES, base="sketch")
