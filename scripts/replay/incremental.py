"""MWEM over parities of very many attributes: after a round only what it touched is answered and scored
again. NOT PRIVATE.

A query's answer changes only where the newest measurement touched one of its attributes, so a round costs
what it changed, not what there is. The product scores every query in every round. The noise of the answers
and the update are those of the other figures.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from factored_mwem.accounting.conversion import Composition
from factored_mwem.model.dense import Asked, ProductModel
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.queries.parities import Parities
from replay.noise import SeededNotPrivateNoise
from replay.paper import Paper, update


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
