"""Budget per question of `fmwem ask`, beside what others pay for the same stream. NOT PRIVATE.

    python scripts/bench ask [--alpha .05 .01] [--pool 10000] [--stream 20000] [--columns all]

Random predicates over Adult's columns (one to three of them; neighbouring codes where a column has an order,
else any), asked again and again by Zipf's law. All answers must be within alpha of the truth with probability
1 - beta. Under pure differential privacy, so that epsilons add:

- each:     every question measured, epsilon ln(1/beta) / (n alpha);
- cache:    the same, and from memory where it was asked before;
- pmw:      private multiplicative weights over the dense histogram of the columns, by the rules of Turbo's
            comparison: epsilon 4 ln(1/beta) / (n alpha) a measurement, and 3 times that to begin a test;
- turbo:    its own rule beside it: memory first, and measured without a test where some bin of the question
            was updated fewer than 5 times (one more after each failure); learning rate 4 / 8, margin .01;
- ours:     `ask` from a release's model (epsilon 1, all pairs), and from nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
from common.runner import Benchmark, Options, Row
from common.tables import BUNDLED, look_for

from factored_mwem import release
from factored_mwem.answers.query import Between, Count, OneOf
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded
from factored_mwem.sessions.online.asking import ask as asking
from factored_mwem.sessions.online.question import NOBODY, CountQuestion
from factored_mwem.tables.backends.codes import encode_table
from factored_mwem.tables.inputs.source import open_table

FEW = ("age", "workclass", "education", "marital-status", "sex", "income")
"""Columns of which a dense histogram has 60,480 cells."""
BETA = 0.001


@dataclass(frozen=True, kw_only=True)
class Stream(Options):
    alpha: tuple[float, ...] = (0.05, 0.01)
    pool: int = 10_000
    stream: int = 20_000
    zipf: float = 1.0
    columns: Literal["few", "all"] = "few"
    epsilon: float = 1000.0
    delta: tuple[float, ...] = (0.0,)
    seed: int = 0


def adult() -> tuple[pa.Table, Domain]:
    """Adult and its declared domain: the whole table where FMWEM_DATASETS has it, else the bundled part."""
    table = pa.csv.read_csv(look_for("adult") or BUNDLED / "adult.csv")
    return table, Domain.load(BUNDLED / "adult.domain.json")


def predicate(domain: Domain, columns: list[str], rng: np.random.Generator) -> Count:
    """A random conjunction over one to three columns."""
    chosen = rng.choice(columns, size=rng.integers(1, min(3, len(columns)) + 1), replace=False)
    where: list[Any] = []
    for name in sorted(chosen.tolist()):
        attribute = domain[name]
        ordered = np.flatnonzero(placed(attribute))
        if len(ordered) and attribute.type in ("integer", "number"):
            low, high = intervals(attribute)
            i, j = sorted(rng.choice(len(ordered), size=2).tolist())
            where.append(Between(name, float(low[ordered[i]]), float(high[ordered[j]])))
        else:
            values = [value for value in attribute.values if value is not None]
            some = rng.choice(len(values), size=rng.integers(1, max(2, len(values) // 2 + 1)), replace=False)
            where.append(OneOf(name, tuple(values[i] for i in sorted(some.tolist()))))
    return Count(tuple(where))


def masks_of(question: CountQuestion, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The question as weights of each axis of a histogram."""
    weights = dict(zip(question.terms.support, question.terms.weights, strict=True))
    return [weights[a][0] if a in weights else np.ones(size) for a, size in enumerate(shape)]


def answer(table: np.ndarray, masks: list[np.ndarray]) -> float:
    """Of a histogram and the weights of each of its axes."""
    return float(reduce(np.matmul, reversed(masks), table))


def weights_alone(
    table: np.ndarray, stream: list[tuple[int, list[np.ndarray]]], alpha: float, *, turbo: bool, seed: int
) -> Row:
    """PMW, or Turbo, over the dense histogram of the columns."""
    rng, n = np.random.default_rng(seed), table.sum()
    each = 4 * math.log(1 / BETA) / (n * alpha)
    noise, rate = 1 / (n * each), 4 / 8 if turbo else alpha / 2
    believed, updates = np.full(table.shape, 1 / table.size), np.zeros(table.shape)
    needed = np.full(table.shape, 5.0)
    known: dict[int, float] = {}
    spent, errors, level, is_open = 0.0, [], 0.0, False
    for key, masks in stream:
        truth = answer(table, masks) / n
        value = known.get(key) if turbo else None
        if value is None:
            query = reduce(np.multiply.outer, masks) > 0
            ready = not turbo or bool((updates[query] >= needed[query]).all())
            guess, passed = answer(believed, masks), False
            if ready:
                if not is_open:
                    spent, level = spent + 3 * each, alpha / 2 + rng.laplace(scale=noise)
                is_open = passed = abs(truth - guess) + rng.laplace(scale=noise) < level
                if not passed and turbo:
                    needed[query] = updates[query].min() + 1
            if passed:
                value = guess
            else:
                spent += each
                known[key] = value = truth + rng.laplace(scale=noise)
                if abs(value - guess) > (0.01 * alpha if turbo and not ready else 0.0):
                    believed = believed * np.exp(math.copysign(rate, value - guess) * query)
                    believed /= believed.sum()
                    updates += query
        errors.append(abs(value - truth) / alpha)
    return {"epsilon": spent, "remarks": remark(errors)}


def remark(errors: list[float]) -> str:
    """Answers off by more than their bound, and the largest error as a share of it."""
    return f"off {sum(error > 1 for error in errors)}, worst {max(errors, default=0):.2f} alpha"


def ours(table: pa.Table, stream: list[tuple[Count, float]], alpha: float, **told: Any) -> Row:
    """What a session spends on the stream, as far as its budget lasts."""
    errors, began = [], time.perf_counter()
    with asking(table, alpha=alpha, beta=BETA, **told) as session:
        for query, truth in stream:
            try:
                errors.append(abs(session.answer(query).value - truth) / session.alpha)
            except BudgetExceeded:
                break
        took = time.perf_counter() - began
        parts = f"{session.counts}, {session.tests} tests, {remark(errors)}, {took:.0f} s"
        return {"epsilon": session.spent, "answers": len(errors), "remarks": parts}


def asked(options: Stream, folder: Path) -> Iterator[Row]:
    table, domain = adult()
    columns = list(domain.names) if options.columns == "all" else list(FEW)
    table, domain = table.select(columns), domain.project(columns)
    rng = np.random.default_rng(options.seed)
    pool: dict[str, tuple[Count, CountQuestion]] = {}
    while len(pool) < options.pool:
        query = predicate(domain, columns, rng)
        question = CountQuestion.of(query, domain)
        if question.wanted[0] != NOBODY and question.cut.positions:
            pool[question.text] = (query, question)
    questions = list(pool.values())
    weights = 1 / np.arange(1, len(questions) + 1) ** options.zipf
    picks = rng.choice(len(questions), size=options.stream, p=weights / weights.sum()).tolist()
    codes = np.array(encode_table(domain.modelled, open_table(table)).columns, dtype=np.int64)
    truths = [float(question.terms.of_rows(codes)[0]) for _, question in questions]
    stream = [(questions[i][0], truths[i]) for i in picks]
    n, distinct = len(codes[0]), len(set(picks))
    if options.columns != "all":
        histogram = np.histogramdd(codes.T, [np.arange(size + 1) for size in domain.modelled.shape])[0]
        masks = [(i, masks_of(questions[i][1], histogram.shape)) for i in picks]
    print(
        f"{n:,} records, {len(questions):,} predicates, {len(picks):,} asked, {distinct:,} of them distinct"
    )
    starts = {"warm": release(table, 2, domain=domain, epsilon=1.0, delta=1e-9, rows=1), "cold": None}
    for alpha in options.alpha:
        each = math.log(1 / BETA) / (n * alpha)
        rows = {"each": {"epsilon": each * len(picks)}, "cache": {"epsilon": each * distinct}}
        if options.columns != "all":
            for name in ("pmw", "turbo"):
                told = {"turbo": name == "turbo", "seed": options.seed}
                rows[name] = weights_alone(histogram, masks, alpha, **told)
        for name, model in starts.items():
            for delta in options.delta:
                told = {"model": model} if model else {"domain": domain}
                told |= {"epsilon": options.epsilon, "delta": delta}
                rows[f"ours {name}, delta {delta:g}"] = ours(table, stream, alpha, **told)
        for who, row in rows.items():
            answers = row.get("answers", len(picks))
            yield {"alpha": alpha, "who": who, **row, "each": row["epsilon"] / answers}


COLUMNS = "epsilon = {epsilon:.4g} | per answer = {each:.3g} | x turbo = {each/:.3g} | remarks = {remarks}"
ask = Benchmark(Stream, asked, "alpha who", COLUMNS, base="turbo")
