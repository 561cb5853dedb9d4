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

import argparse
import gzip
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from factored_mwem import release
from factored_mwem.answers.query import Between, Count, OneOf
from factored_mwem.backends.codes import encode_table
from factored_mwem.domain.conditions import intervals, placed
from factored_mwem.domain.domain import Domain
from factored_mwem.errors import BudgetExceeded
from factored_mwem.interactive.asking import ask
from factored_mwem.interactive.question import NOBODY, Question
from factored_mwem.tables.source import open_table

HERE = Path(__file__).resolve().parents[2]
FEW = ("age", "workclass", "education", "marital-status", "sex", "income")
"""Columns of which a dense histogram has 60,480 cells."""
BETA = 0.001


def adult() -> tuple[pa.Table, Domain]:
    """Adult and its declared domain: the whole table where FMWEM_DATASETS has it, else the bundled part."""
    domain = Domain.load(HERE / "datasets" / "adult.domain.json")
    folder = os.environ.get("FMWEM_DATASETS")
    whole = Path(folder) / "adult" / "adult.csv.gz" if folder else None
    if whole is not None and whole.exists():
        with gzip.open(whole) as file:
            table = pa.csv.read_csv(file)
    else:
        table = pa.csv.read_csv(HERE / "datasets" / "adult.csv")
    return table, domain


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


class Dense:
    """The histogram of the columns, and questions as weights of each of its axes."""

    def __init__(self, codes: list[np.ndarray], shape: tuple[int, ...]) -> None:
        self.table = np.zeros(shape)
        np.add.at(self.table, tuple(codes), 1.0)
        self.n = float(self.table.sum())

    @staticmethod
    def answer(table: np.ndarray, masks: list[np.ndarray]) -> float:
        for mask in reversed(masks):
            table = table @ mask
        return float(table)


def masks_of(question: Question, shape: tuple[int, ...]) -> list[np.ndarray]:
    masks = [np.ones(size) for size in shape]
    for a, weights in zip(question.terms.support, question.terms.weights, strict=True):
        masks[a] = weights[0]
    return masks


def outer(masks: list[np.ndarray]) -> np.ndarray:
    found = np.ones(())
    for mask in masks:
        found = np.multiply.outer(found, mask)
    return found


def weights_alone(
    data: Dense, stream: list[tuple[int, list[np.ndarray]]], alpha: float, *, turbo: bool, seed: int
) -> tuple[float, int, float]:
    """(epsilon, answers off by more than alpha, the largest error as a share of alpha) of PMW or of Turbo."""
    rng, n = np.random.default_rng(seed), data.n
    each = 4 * math.log(1 / BETA) / (n * alpha)
    believed, updates = np.full(data.table.shape, 1 / data.table.size), np.zeros(data.table.shape)
    needed = np.full(data.table.shape, 5.0)
    known: dict[int, float] = {}
    spent, off, worst, level, is_open = 0.0, 0, 0.0, 0.0, False
    for key, masks in stream:
        truth = Dense.answer(data.table, masks) / n
        value = known.get(key) if turbo else None
        if value is None:
            query = outer(masks) > 0
            ready = not turbo or bool((updates[query] >= needed[query]).all())
            guess = Dense.answer(believed, masks)
            passed = False
            if ready:
                if not is_open:
                    spent, is_open = spent + 3 * each, True
                    level = alpha / 2 + rng.laplace(scale=1 / (n * each))
                passed = abs(truth - guess) + rng.laplace(scale=1 / (n * each)) < level
                is_open = passed
                if not passed and turbo:
                    needed[query] = updates[query].min() + 1
            if passed:
                value = guess
            else:
                spent += each
                value = truth + rng.laplace(scale=1 / (n * each))
                margin = 0.01 * alpha if turbo and not ready else 0.0
                rate = 4 / 8 if turbo else alpha / 2
                if abs(value - guess) > margin:
                    believed = believed * np.exp(math.copysign(rate, value - guess) * query)
                    believed /= believed.sum()
                    updates += query
                known[key] = value
        error = abs(value - truth) / alpha
        off, worst = off + (error > 1), max(worst, error)
    return spent, off, worst


def ours(
    table: pa.Table,
    given: dict[str, Any],
    stream: list[tuple[int, Count, float]],
    alpha: float,
    **policy: Any,
) -> tuple[float, int, int, float, dict[str, int], int]:
    """(epsilon, answers, those off by more than their bound, the largest error as a share of it, answers by
    source, tests) of a session.
    """
    off, worst, answered = 0, 0.0, 0
    with ask(
        table, given.get("model"), domain=given.get("domain"), alpha=alpha, beta=BETA, **policy
    ) as session:
        for _, query, truth in stream:
            try:
                told = session.answer(query)
            except BudgetExceeded:
                break
            answered += 1
            error = abs(told.value - truth) / session.alpha
            off, worst = off + (error > 1), max(worst, error)
        return session.spent, answered, off, worst, session.counts, session.tests


def rows(args: argparse.Namespace) -> Iterator[tuple[str, str, float, int, str]]:
    """(alpha, who, epsilon, answers, remarks), one after the other."""
    table, domain = adult()
    columns = list(domain.names) if args.columns == "all" else list(FEW)
    table = table.select(columns)
    domain = domain.project(columns)
    rng = np.random.default_rng(args.seed)
    pool: dict[str, tuple[Count, Question]] = {}
    while len(pool) < args.pool:
        query = predicate(domain, columns, rng)
        question = Question.of(query, domain)
        if question.wanted[0] != NOBODY and question.cut.positions:
            pool[question.text] = (query, question)
    asked = list(pool.values())
    weights = 1 / np.arange(1, len(asked) + 1) ** args.zipf
    picks = rng.choice(len(asked), size=args.stream, p=weights / weights.sum()).tolist()
    codes = [
        np.asarray(each, dtype=np.int64) for each in encode_table(domain.modelled, open_table(table)).columns
    ]
    shape = domain.modelled.shape
    truths = [true_count(codes, question) for _, question in asked]
    stream = [(i, asked[i][0], truths[i]) for i in picks]
    n, distinct = len(codes[0]), len(set(picks))
    print(f"{n:,} records, {len(asked):,} predicates, {len(picks):,} asked, {distinct:,} of them distinct")
    made = release(table, 2, domain=domain, epsilon=1.0, delta=1e-9, rows=1)
    for alpha in args.alpha:
        each = math.log(1 / BETA) / (n * alpha)
        yield f"{alpha:g}", "each", each * len(picks), len(picks), ""
        yield f"{alpha:g}", "cache", each * distinct, len(picks), ""
        if args.columns != "all":
            data = Dense(codes, shape)
            masks = [(i, masks_of(asked[i][1], shape)) for i in picks]
            for name, turbo in (("pmw", False), ("turbo", True)):
                spent, off, worst = weights_alone(data, masks, alpha, turbo=turbo, seed=args.seed)
                yield f"{alpha:g}", name, spent, len(picks), f"off {off}, worst {worst:.2f} alpha"
        for name, given in (("warm", {"model": made}), ("cold", {"domain": domain})):
            for delta in args.delta:
                began = time.perf_counter()
                spent, answered, off, worst, counts, tests = ours(
                    table, given, stream, alpha, epsilon=args.epsilon, delta=delta
                )
                took = time.perf_counter() - began
                remarks = f"{counts}, {tests} tests, off {off}, worst {worst:.2f} alpha, {took:.0f} s"
                yield f"{alpha:g}", f"ours {name}, delta {delta:g}", spent, answered, remarks


def true_count(codes: list[np.ndarray], question: Question) -> float:
    inside = np.ones(len(codes[0]), dtype=bool)
    for a, weights in zip(question.terms.support, question.terms.weights, strict=True):
        inside &= weights[0][codes[a]] > 0
    return float(inside.sum())


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench ask", description=__doc__.splitlines()[0])
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.05, 0.01])
    parser.add_argument("--pool", type=int, default=10_000, help="distinct predicates")
    parser.add_argument("--stream", type=int, default=20_000, help="questions asked")
    parser.add_argument("--zipf", type=float, default=1.0)
    parser.add_argument("--columns", choices=("few", "all"), default="few")
    parser.add_argument("--epsilon", type=float, default=1000.0, help="a session's budget: enough for all")
    parser.add_argument("--delta", type=float, nargs="+", default=[0.0])
    parser.add_argument("--seed", type=int, default=0)
    best: dict[str, float] = {}
    print(f"{'alpha':>6}  {'who':<24}{'epsilon':>10}{'per answer':>12}{'x turbo':>9}")
    for alpha, who, spent, answers, remarks in rows(parser.parse_args()):
        best.setdefault(alpha, math.nan)
        if who == "turbo":
            best[alpha] = spent / answers
        ratio = spent / answers / best[alpha]
        print(
            f"{alpha:>6}  {who:<24}{spent:>10.4g}{spent / answers:>12.3g}{ratio:>9.3g}  {remarks}", flush=True
        )
    return 0
