"""Figure 6: time of factored MWEM on ever more independent attributes, against the time to evaluate the
queries on the data. NOT PRIVATE.

MWEM is `Incremental` here: a query's answer changes only where the newest measurement touched one of its
attributes, so a round costs what it changed, not what there is. The product scores every query in every
round. The noise of the answers and the update are those of the other figures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from common.runner import tabulated

from factored_mwem import Domain
from factored_mwem.accounting.conversion import Composition
from factored_mwem.model.dense import AnsweredQuestion, ProductModel
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.queries.parities import Parities, parities_of
from replay.drawing import canvas, frame, line
from replay.figure import Marks, Row, Table, Truth, by, mark, pick
from replay.paper import Paper, SeededNotPrivateNoise, update

T = TypeVar("T")
RECORDS = 100_000
CHANCE, EVEN = 0.25, 0.5
EVEN_SIZES = ((10, 3), (50, 3), (100, 3), (1000, 2))
EPSILON, EPSILONS_EVEN = 5.0, (1.0, 5.0)
SWEEPS, GUARD = 100, 0.5
SAMPLE, REPEATS = 2_000, 3
"""Queries that plain numpy evaluates, its time for all is this many's, scaled up; and of so many runs the
fastest is taken, of either side.
"""
NEGLIGIBLE = 0.1
"""Of the total time: 'almost exclusively dominated' leaves less than this to the rest."""
LATE = 6
"""A run that has not ended before this round is not one that did almost no work."""
ENOUGH, CORES = 100, 48
"""Attributes from which the time is judged; the paper's cores."""
EXCELLENT = 0.05
"""Of the records: what the uniform distribution may be off by and be an excellent fit."""


def cases(full: bool) -> list[Row]:
    """One run for each number of attributes, and the footnote's at some of them."""
    triples = [*range(10, 101, 10), *([200] if full else [])]
    pairs = range(200 + 100 * full, 1001, 100) if full else (200, 500, 1000)
    sizes = [(d, 3) for d in triples] + [(d, 2) for d in pairs]
    some = [(CHANCE, *size) for size in sizes] + [(EVEN, *size) for size in EVEN_SIZES]
    return [{"attributes": d, "order": order, "chance": chance} for chance, d, order in some]


def run(case: Row) -> list[Row]:
    """Seconds on the data, inside MWEM and for plain numpy, and the largest component at the end; or, of even
    bits, how far the uniform distribution is off and when a run ends.
    """
    d, order, chance = case["attributes"], case["order"], case["chance"]
    rng = np.random.default_rng([6, d, order])
    columns = [(rng.random(RECORDS, dtype=np.float32) < chance).astype(np.uint8) for _ in range(d)]
    questions = Parities.up_to(range(d), order)
    row = {**case, "queries": len(questions.members), "rounds": d}
    if chance == EVEN:
        truth = parities_of(columns, questions.members)
        return [row | {"max_error_before": float(np.abs(truth).max()), **ended(d, questions, truth, rng)}]
    few = [np.zeros(64, dtype=np.uint8)] * 3  # compiles what is timed
    small = Parities.up_to(range(3), 2)
    fitted(3, small, parities_of(few, small.members), Paper(1.0, 2, 2))
    on_data, truth = fastest(lambda: parities_of(columns, questions.members))
    paper = Paper(EPSILON, d, SWEEPS, GUARD)
    inside, fit = fastest(lambda: fitted(d, questions, truth, paper))
    sizes = {"largest_component": max(len(part.positions) for part in fit.model.components)}
    errors = {"max_error_before": np.abs(truth).max(), "max_error": np.abs(fit.answers - truth).max()}
    seconds = {
        "seconds_data": on_data,
        "seconds_mwem": inside,
        "seconds_total": on_data + inside,
        "seconds_plain": plain_seconds(columns, questions.members, truth),
    }
    return [row | seconds | sizes | {name: float(error) for name, error in errors.items()}]


def started(attributes: int, questions: Parities, truth: np.ndarray) -> Incremental:
    """MWEM before its first round."""
    domain = Domain.from_dict({f"a{i}": 2 for i in range(attributes)})
    return Incremental(ProductModel.uniform(domain, float(RECORDS)), questions, truth)


def fitted(attributes: int, questions: Parities, truth: np.ndarray, paper: Paper) -> Incremental:
    """All rounds, from the same seed each time."""
    fit = started(attributes, questions, truth)
    fit.rounds(paper, np.random.default_rng([66, attributes, questions.members.shape[1]]))
    return fit


def ended(attributes: int, questions: Parities, truth: np.ndarray, rng: np.random.Generator) -> Row:
    """Rounds until the first measurement that shows no more than its noise, by epsilon; LATE where none of
    those before did. Then the run is given up: even bits tie each other together, and the model grows.
    """
    papers = [Paper(epsilon, attributes, SWEEPS, GUARD) for epsilon in EPSILONS_EVEN]
    return {
        f"ended_{paper.epsilon:g}": started(attributes, questions, truth).rounds(paper, rng, early=LATE)
        for paper in papers
    }


def fastest(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds of processor time of the fastest of some runs, and what the last one returned."""
    best = math.inf
    for _ in range(REPEATS):
        begun = time.process_time()
        result = work()
        best = min(best, time.process_time() - begun)
    return best, result


def plain_seconds(columns: list[np.ndarray], members: np.ndarray, truth: np.ndarray) -> float:
    """How long numpy alone takes over all queries, from an even sample of them, whose answers must be the
    same.
    """
    sample = np.unique(np.linspace(0, len(members) - 1, SAMPLE).astype(int))

    def evaluated() -> list[int]:
        answers = []
        for query in members[sample]:
            odd = columns[query[0]]
            for p in query[1:]:
                odd = odd ^ columns[p] if p >= 0 else odd
            answers.append(len(odd) - 2 * int(np.count_nonzero(odd)))
        return answers

    seconds, answers = fastest(evaluated)
    assert np.array_equal(answers, truth[sample])
    return seconds * len(members) / len(sample)


def plot(rows: list[Row]) -> Any:
    """Seconds against attributes, total and inside MWEM: left up to 100, right beyond, as in the paper."""
    drawn, axes = canvas(2)
    lines = (
        ("seconds_plain", "plain numpy on the data", "0.6"),
        ("seconds_total", "packed and MWEM", "tab:blue"),
        ("seconds_mwem", "inside MWEM", "tab:red"),
    )
    for axis, low, high in zip(axes, (0, 100), (100, 1000), strict=True):
        shown = [row for row in pick(rows, chance=CHANCE) if low <= row["attributes"] <= high]
        for order, style in ((3, "-"), (2, "--")):
            at = by(pick(shown, order=order), "attributes")
            for what, label, colour in lines if len(at) > 1 else ():
                line(axis, at, what, style, marker=".", color=colour, label=f"{label}, order {order}")
        frame(axis, keyed={"columns": 1}, xlabel="attributes", ylabel="seconds", yscale="log")
    return drawn


def tables(rows: list[Row]) -> list[Table]:
    """The seconds behind the plot."""
    timed = sorted(pick(rows, chance=CHANCE), key=lambda r: (-r["order"], r["attributes"]))
    parts = [r | {"part": share(r), "left": r["max_error"] / r["max_error_before"]} for r in timed]
    seconds = "plain = {seconds_plain:.3g} | packed = {seconds_data:.3g} | MWEM = {seconds_mwem:.3g}"
    columns = f"{seconds} | MWEM's part = {{part:.1%}} | error left = {{left:.1%}}"
    caption = "Seconds; MWEM's part is of plain and MWEM together"
    return [Table(caption, *tabulated(parts, "attributes order queries", columns))]


def marks(rows: list[Row]) -> Marks:
    """Structure at every size, time at the largest size of each order, and the footnote on even bits."""
    timed, even = pick(rows, chance=CHANCE), pick(rows, chance=EVEN)
    joined = [r["attributes"] for r in timed if r["largest_component"] > 1]
    left = max((r["max_error"] / r["max_error_before"] for r in timed), default=1.0)
    judged = [r for r in timed if r["attributes"] >= ENOUGH]
    judged.sort(key=lambda r: (-r["order"], r["attributes"]))
    largest = [max(of, key=lambda r: r["attributes"]) for of in by(judged, "order").values()]
    spread = {size(r): r["seconds_plain"] / CORES / r["seconds_mwem"] for r in largest}
    off = {size(r): r["max_error_before"] / RECORDS for r in even}
    rounds = "; ".join(
        f"epsilon {e:g}: " + ", ".join(f"{in_round(r[f'ended_{e:g}'])} of {r['rounds']}" for r in even)
        for e in EPSILONS_EVEN
    )
    alone, packed = (
        bool(timed) and not joined and left < 0.5,
        {size(r): r["seconds_mwem"] / r["seconds_total"] for r in largest},
    )
    return [
        mark(alone, why=f"attributes were joined at {joined}" if joined else "", sizes=len(timed), left=left),
        mark(negligible(judged), plain={size(r): share(r) for r in judged}),
        mark(
            None, spread=[f"{ratio:.2f} times MWEM's at {of}" for of, ratio in spread.items()], packed=packed
        ),
        mark(bool(even) and max(off.values()) <= EXCELLENT, off=off, skewed=1 - 2 * CHANCE),
        mark(None, rounds=rounds),
    ]


def negligible(judged: list[Row]) -> Truth:
    """Decided by the triples where they refute; where only pairs do, it stays open, for the paper does not
    say that it went over to them.
    """
    below = {o: max(map(share, pick(judged, order=o)), default=1.0) < NEGLIGIBLE for o in (2, 3)}
    return (below[2] or None) if below[3] else False


def in_round(number: int) -> str:
    return str(number) if number < LATE else f"after {LATE - 1}"


def share(row: Row) -> float:
    """MWEM's part of a run that evaluates record by record."""
    return float(row["seconds_mwem"] / (row["seconds_plain"] + row["seconds_mwem"]))


def size(row: Row) -> str:
    return f"{row['attributes']} attributes in order {row['order']}"


# ---- MWEM, round by round


class Incremental:
    """MWEM from the uniform model, whose answers (`answers: float64[query]`) and scores are kept from round
    to round.
    """

    def __init__(self, model: ProductModel, questions: Parities, truth: np.ndarray) -> None:
        self.model, self.questions, self.truth = model, questions, truth
        members, attributes = questions.members, len(model.domain)
        slots = members.ravel().astype(np.int16)  # numpy sorts 16-bit integers by radix
        order = np.argsort(slots, kind="stable")
        self._by_attribute = order // members.shape[1]
        self._ends = np.searchsorted(slots[order], np.arange(attributes + 1))
        # mean sign of every attribute that is alone; padding reads the last entry
        self._signs = np.append(np.zeros(attributes), 1.0)
        self.answers = self._answers(members)
        self._asked = np.zeros(len(truth), dtype=bool)
        self._measured: list[list[tuple[int, AnsweredQuestion]]] = [[] for _ in range(attributes)]
        """With their rounds, by a question's first attribute."""

    def rounds(self, paper: Paper, rng: np.random.Generator, *, early: int = 0) -> int:
        """All rounds: choose, measure, step, and answer anew what the step touched; returns how many there
        were. `early`: stops with that round, or with the first measurement before it that shows no more than
        its noise (HLM12 section 2.3.3).
        """
        scale = NoiseScale(2 * paper.rounds / paper.epsilon, Composition.PURE)
        noise = SeededNotPrivateNoise(rng)
        chances = Chances(np.abs(self.answers - self.truth) * paper.epsilon / (4 * paper.rounds))
        for i in range(paper.rounds):
            chosen = chances.draw(rng)
            self._asked[chosen] = True
            about = self.questions.positions(chosen)
            noisy = noise.add(self.truth[chosen : chosen + 1], scale=scale.value)
            if early and (i + 1 == early or abs(noisy[0] - self.answers[chosen]) <= scale.mean_abs):
                return i + 1
            asked = (self.questions, chosen, Measurement(about, noisy, scale))
            self._measured[about[0]].append((i, asked))
            near = {p for q in about for p in self.model.factor(q).positions}
            inside = sorted((m for p in near for m in self._measured[p]), key=lambda m: m[0])
            update(self.model, [measured for _, measured in inside], paper)
            changed = self._renew(chosen)
            scores = np.abs(self.answers[changed] - self.truth[changed]) * paper.epsilon / (4 * paper.rounds)
            chances.put(changed, np.where(self._asked[changed], -np.inf, scores))
        return paper.rounds

    def _renew(self, question: int) -> np.ndarray:
        """Answer again the queries about any attribute of the component that a question is in; returns their
        numbers.
        """
        part = self.model.factor(self.questions.positions(question)[0])
        lists = [self._by_attribute[self._ends[p] : self._ends[p + 1]] for p in part.positions]
        changed = lists[0] if len(lists) == 1 else np.unique(np.concatenate(lists))
        if len(part.positions) == 1:
            self._signs[part.positions[0]] = part.weights[0] - part.weights[1]
        self.answers[changed] = self._answers(self.questions.members[changed])
        return changed

    def _answers(self, members: np.ndarray) -> np.ndarray:
        """As the query kind answers on a product of components; quicker while every attribute is one."""
        if len(self.model.factors) < len(self.model.domain):
            return Parities(members).answers(self.model)
        return reduce(np.multiply, (self._signs[slot] for slot in members.T), self.model.total)


class Chances:
    """The exponential mechanism over scores of which few change at a time: draws with probability in
    proportion to exp(score).
    """

    BLOCK = 1024
    REACH = 300.0
    """Scores are kept relative to one that is at most this far from the highest: exp neither overflows nor
    loses what could be drawn.
    """

    def __init__(self, scores: np.ndarray) -> None:
        self._scores = np.append(scores, np.full(-len(scores) % self.BLOCK, -np.inf))
        self._around(float(scores.max()))

    def _around(self, top: float) -> None:
        self._shift = top
        self._weights = np.exp(self._scores - top).reshape(-1, self.BLOCK)

    def put(self, at: np.ndarray, scores: np.ndarray) -> None:
        """New scores of some; -inf is never drawn."""
        self._scores[at] = scores
        with np.errstate(over="ignore"):  # an overflow is seen in `draw`, which starts again from the highest
            self._weights.ravel()[at] = np.exp(scores - self._shift)

    def draw(self, rng: np.random.Generator) -> int:
        """The number of one, chosen by its block and then inside the block."""
        blocks = self._weights.sum(axis=1)
        total = blocks.sum()
        if not np.exp(-self.REACH) < total < np.exp(self.REACH):
            self._around(float(self._scores.max()))
            blocks = self._weights.sum(axis=1)
            total = blocks.sum()
        sums = np.cumsum(blocks)
        block = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        inside = np.cumsum(self._weights[block])
        return block * self.BLOCK + int(np.searchsorted(inside, rng.random() * inside[-1], side="right"))
