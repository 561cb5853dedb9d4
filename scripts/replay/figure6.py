"""Figure 6: time of factored MWEM on ever more independent attributes, against the time to evaluate the
queries on the data. NOT PRIVATE.

A query's answer changes only where the newest measurement touched one of its attributes, so a round costs
what it changed, not what there is. That is why this figure alone chooses by itself: the product scores every
query in every round. The noise of the answers and the update are those of the other figures.
"""

from __future__ import annotations

import time
from functools import reduce
from pathlib import Path

import numpy as np

from factored_mwem import Domain
from factored_mwem.accounting.conversion import Composition
from factored_mwem.model.dense import Asked, ProductModel
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.queries.parities import Parities, parities_of
from replay.figure import OPEN, Claim, Row, canvas, mark, pick, save, values
from replay.noise import SeededNotPrivateNoise
from replay.paper import Paper, update

RECORDS = 100_000
CHANCE = 0.25
EPSILON = 5.0
SWEEPS, GUARD = 100, 0.5
SAMPLE = 2_000
"""Queries that plain numpy evaluates; its time for all is this many's, scaled up."""
NEGLIGIBLE = 0.1
"""Of the total time."""

TITLE = "Figure 6: factored MWEM on 10 to 1,000 independent attributes"
SETTINGS = (
    f"{RECORDS:,} records; every binary attribute is set with probability {CHANCE:g} (the paper's is lost; "
    "any but 1/2 will do); T = number of "
    "attributes; all parities up to order 3 where it says so, up to order 2 beyond (the paper's order is "
    "lost; 1,000 attributes have 166 million "
    f"triples); epsilon = {EPSILON:g} (not stated in the paper: at 1,000 attributes one parity beats a "
    "pair's by 6 epsilon nats, and there are 500 "
    f"times as many pairs, so with epsilon = 1 half of the choices would be pairs); replay in up to {SWEEPS} "
    f"sweeps, until within {GUARD:g} standard "
    "deviations of the noise; no question twice. 'Data' packs the bits and evaluates all queries once; "
    "'plain' is the same in numpy on one byte a "
    f"bit, timed on at most {SAMPLE:,} of the queries and scaled up. One process, one core (the paper had "
    "48)."
)


def cases(full: bool) -> list[Row]:
    """One run for each number of attributes."""
    triples = [*range(10, 101, 10), *([200] if full else [])]
    pairs = range(200 + 100 * full, 1001, 100) if full else (200, 500, 1000)
    return [{"attributes": d, "order": 3} for d in triples] + [{"attributes": d, "order": 2} for d in pairs]


def run(case: Row) -> list[Row]:
    """Seconds on the data, inside MWEM and for plain numpy; the largest component at the end."""
    d, order = case["attributes"], case["order"]
    rng = np.random.default_rng([6, d, order])
    columns = [(rng.random(RECORDS, dtype=np.float32) < CHANCE).astype(np.uint8) for _ in range(d)]
    questions = Parities.up_to(range(d), order)
    _warm_up()
    started = time.perf_counter()
    truth = parities_of(columns, questions.members)
    on_data = time.perf_counter() - started
    model = ProductModel.uniform(Domain.from_dict({f"a{i}": 2 for i in range(d)}), float(RECORDS))
    started = time.perf_counter()
    fit = Incremental(model, questions, truth)
    fit.rounds(Paper(EPSILON, d, SWEEPS, GUARD), rng)
    inside = time.perf_counter() - started
    plain = _plain_seconds(columns, questions.members, truth)
    read = len(truth) * 2 * 8 * -(-RECORDS // 64)  # the words of the shared prefix and of the last attribute
    return [
        {
            "attributes": d,
            "order": order,
            "queries": len(truth),
            "rounds": d,
            "seconds_data": on_data,
            "seconds_mwem": inside,
            "seconds_total": on_data + inside,
            "seconds_plain": plain,
            "bytes_per_second": read / on_data,
            "largest_component": max(len(part.positions) for part in model.components),
            "max_error_before": float(np.abs(truth).max()),
            "max_error": float(np.abs(fit.answers - truth).max()),
        }
    ]


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
        self._signs = np.append(
            np.zeros(attributes), 1.0
        )  # mean sign of every attribute that is alone; padding reads the last entry
        self.answers = self._answers(members)
        self._asked = np.zeros(len(truth), dtype=bool)
        self._measured: list[list[tuple[int, Asked]]] = [[] for _ in range(attributes)]
        """With their rounds, by a question's first attribute."""

    def rounds(self, paper: Paper, rng: np.random.Generator) -> None:
        """All rounds: choose, measure, step, and answer anew what the step touched."""
        scale = NoiseScale(2 * paper.rounds / paper.epsilon, Composition.PURE)
        noise = SeededNotPrivateNoise(rng)
        chances = Chances(np.abs(self.answers - self.truth) * paper.epsilon / (4 * paper.rounds))
        for i in range(paper.rounds):
            chosen = chances.draw(rng)
            self._asked[chosen] = True
            about = self.questions.positions(chosen)
            noisy = noise.add(self.truth[chosen : chosen + 1], scale=scale.value)
            asked = (self.questions, chosen, Measurement(about, noisy, scale))
            self._measured[about[0]].append((i, asked))
            near = {p for q in about for p in self.model.factor(q).positions}
            inside = sorted((m for p in near for m in self._measured[p]), key=lambda m: m[0])
            update(self.model, [measured for _, measured in inside], paper)
            changed = self._renew(chosen)
            scores = np.abs(self.answers[changed] - self.truth[changed]) * paper.epsilon / (4 * paper.rounds)
            chances.put(changed, np.where(self._asked[changed], -np.inf, scores))

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


def _warm_up() -> None:
    """Compile what is timed."""
    few = [np.zeros(64, dtype=np.uint8)] * 3
    questions = Parities.up_to(range(3), 2)
    model = ProductModel.uniform(Domain.from_dict({"a": 2, "b": 2, "c": 2}), 64.0)
    Incremental(model, questions, parities_of(few, questions.members)).rounds(
        Paper(1.0, 2, 2), np.random.default_rng(0)
    )


def _plain_seconds(columns: list[np.ndarray], members: np.ndarray, truth: np.ndarray) -> float:
    """How long numpy alone takes over all queries, from an even sample of them, whose answers must be the
    same.
    """
    sample = np.unique(np.linspace(0, len(members) - 1, SAMPLE).astype(int))
    started = time.perf_counter()
    found = []
    for query in members[sample]:
        odd = columns[query[0]]
        for p in query[1:]:
            odd = odd ^ columns[p] if p >= 0 else odd
        found.append(len(odd) - 2 * np.count_nonzero(odd))
    seconds = time.perf_counter() - started
    assert np.array_equal(found, truth[sample])
    return seconds * len(members) / len(sample)


def plot(rows: list[Row], path: Path) -> None:
    """Seconds against attributes, total and inside MWEM: left up to 100, right beyond, as in the paper."""
    drawn, axes = canvas(2)
    lines = (
        ("seconds_plain", "plain numpy on the data", "0.6"),
        ("seconds_total", "total", "tab:blue"),
        ("seconds_mwem", "inside MWEM", "tab:red"),
    )
    for axis, of in zip(
        axes,
        ([r for r in rows if r["attributes"] <= 100], [r for r in rows if r["attributes"] >= 100]),
        strict=True,
    ):
        for order, style in ((3, "-"), (2, "--")):
            some = sorted(pick(of, order=order), key=lambda r: r["attributes"])
            for key, label, colour in lines if some else ():
                xs, ys = [r["attributes"] for r in some], [r[key] for r in some]
                axis.plot(xs, ys, style, marker=".", color=colour, label=f"{label}, order {order}")
        axis.set(xlabel="attributes", ylabel="seconds", yscale="log")
        axis.legend(fontsize=7)
    save(drawn, path)


def judge(rows: list[Row]) -> list[Claim]:
    """The paper's claims: structure at every size, time at the largest size of each order, where it is not
    all start-up.
    """
    joined = [r["attributes"] for r in rows if r["largest_component"] > 1]
    left = max(r["max_error"] / r["max_error_before"] for r in rows)
    largest = [max(pick(rows, order=order), key=lambda r: r["attributes"]) for order in values(rows, "order")]
    plain = {_size(r): r["seconds_mwem"] / (r["seconds_plain"] + r["seconds_mwem"]) for r in largest}
    packed = {_size(r): r["seconds_mwem"] / r["seconds_total"] for r in largest}
    faster = {_size(r): r["seconds_plain"] / r["seconds_data"] for r in largest}
    speed = max(r["bytes_per_second"] for r in rows) / 1e9
    return [
        Claim(
            "Every attribute is a component of its own to the end.",
            mark(not joined and left < 0.5),
            f"attributes were joined at {joined}"
            if joined
            else f"at all {len(rows)} sizes, while the maximum error fell to at most {left:.0%} of the first",
        ),
        Claim(
            "Time inside factored MWEM is negligible next to evaluating the queries on the data, record by "
            "record.",
            mark(plain[_size(largest[-1])] < NEGLIGIBLE),
            f"MWEM's part of a run that evaluates in plain numpy: {_percent(plain)} (the last is marked, "
            f"below {NEGLIGIBLE:.0%} holds)",
        ),
        Claim(
            "Evaluating the queries on the data dominates the total, on 48 cores.",
            OPEN,
            f"ours packs 64 records into a word and reads up to {speed:.0f} GB/s on one core: "
            + ", ".join(
                f"{ratio:.0f} times as fast as plain numpy at {size}" for size, ratio in faster.items()
            )
            + f"; MWEM's part of what is left: {_percent(packed)}",
        ),
    ]


def _size(row: Row) -> str:
    return f"{row['attributes']} attributes in order {row['order']}"


def _percent(shares: dict[str, float]) -> str:
    return ", ".join(f"{share:.1%} at {size}" for size, share in shares.items())
