"""The forest that fits noisy marginals best, each weighted by its precision. It reads nothing private."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from factored_mwem.domain.levels import Levels, View
from factored_mwem.kernels.dense import FLOOR
from factored_mwem.kernels.tree import Beliefs, Pace, Targets, descend, tilt
from factored_mwem.model.clique_tree import CliqueTree, lay_out
from factored_mwem.model.dense import Factor
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.session import Measurement

MAX_ROUND_STEPS, MAX_FINAL_STEPS = 25, 1000
"""Most steps after a round, and at the end. Rounds start from the last fit; 25, 40 and 100 steps gave the
same errors on Adult.
"""
MIN_GAIN, MIN_FINAL_GAIN = 1e-2, 2e-2
"""A component is fitted once the second half of the steps lowers its loss by less than this for each measured
cell, after a round and at the end. Noise alone makes the loss about 0.5 for each: a nearer fit lowered no
table's error, and raised Adult's at epsilon 1 by 1 %.
"""


class Estimate:
    """Measurements, their log-linear parameters, and the forest they make.

    `zeros`: bool[cells] by view; where it holds, rules leave no row, and the model none from the start.
    """

    def __init__(self, levels: Levels, total: float, zeros: Mapping[View, np.ndarray] | None = None) -> None:
        self.zeros = dict(zeros or {})
        self.measurements: list[Measurement] = []
        self.thetas: list[np.ndarray] = []
        self.beyond: list[Measurement] = []
        self.steps: dict[int, float] = {}
        self.forest = Forest(levels, [], total)
        self._held: Measurement | None = None

    def start(self, single: Sequence[Measurement]) -> None:
        """Start from one noisy marginal of each attribute: each is a component, except attributes that rules
        tie together.
        """
        self.measurements = list(single)
        self.thetas = [
            np.log(from_histogram(Factor.uniform(m.positions, (len(m.noisy),)), m.noisy, m.stddev).weights)
            for m in single
        ]
        parts, groups = [], tied(self.zeros, self.forest.levels)
        for group in groups:
            views, theta = [single[a].positions for a in group], [self.thetas[a] for a in group]
            parts.append(self._component(views, np.concatenate(theta), set(group)))
        self.forest = Forest(self.forest.levels, parts, self.forest.total)
        for group in groups:
            if len(group) > 1:
                self.fit(group[:1], iterations=MAX_ROUND_STEPS, enough=MIN_GAIN)

    def add(self, m: Measurement) -> None:
        """Add a measurement: merge or grow the trees that it touches, and fit the result."""
        self.measurements.append(m)
        self.thetas.append(np.zeros(len(m.noisy)))
        touched = sorted({int(self.forest.levels.attribute[v]) for v in m.positions})
        self.fit(touched, iterations=MAX_ROUND_STEPS, enough=MIN_GAIN)

    def hold(self, public: Measurement) -> None:
        """Add counts that are no estimate but known: the model has them exactly, now and at the end."""
        if len(public.positions) > 1:
            self.add(public)
        self._held = public
        self._make_exact()

    def _make_exact(self) -> None:
        """Multiply the clique that holds them, so that it has the known counts (iterative proportional
        fitting, of one table), and let the others follow.
        """
        if self._held is None:
            return
        view, wanted = self._held.positions, self._held.noisy / self._held.noisy.sum()
        forest = self.forest
        part = forest.components_by_id[int(forest.part_of[forest.levels.attribute[view[0]]])]
        now = forest.marginal(view) / forest.total
        moves = np.log(np.maximum(wanted, FLOOR)) - np.log(np.maximum(now, FLOOR))
        beliefs = Beliefs(*(cells.copy() for cells in part.beliefs))
        layout = lay_out(part.tree, [view])
        tilt(beliefs, layout, moves)
        forest.replace(part.with_beliefs(beliefs, layout))
        own = next(i for i, m in enumerate(self.measurements) if m.positions == view)
        self.thetas[own] = self.thetas[own] + moves

    def measured(self, public: View) -> list[Measurement]:
        """The measurements, without what stood for those of `public` attributes alone."""
        inside, of = set(public), self.forest.levels.attributes_of
        return [m for m in self.measurements if not inside.issuperset(of(m.positions))]

    def take(self, measured: Sequence[Measurement]) -> None:
        """Add measurements that lie within cliques; `finish` fits them."""
        self.measurements += measured
        self.thetas += [np.zeros(len(m.noisy)) for m in measured]

    def finish(self) -> None:
        """Fit every component to the end."""
        for part in self.forest.components:
            if len(part.attributes) > 1:
                self.fit(part.attributes[:1], iterations=MAX_FINAL_STEPS, enough=MIN_FINAL_GAIN)
        self._make_exact()
        self.forest.correct(self.beyond)

    def fit(self, attributes: Sequence[int], *, iterations: int, enough: float) -> None:
        """Join the components that hold `attributes`, and fit the result to all measurements inside it."""
        forest = self.forest
        old = {int(forest.part_of[a]) for a in attributes}
        inside = {a for id_ in old for a in forest.components_by_id[id_].attributes}
        used = [
            i
            for i, m in enumerate(self.measurements)
            if inside.issuperset(forest.levels.attributes_of(m.positions))
        ]
        views = [self.measurements[i].positions for i in used]
        theta = np.concatenate([self.thetas[i] for i in used])
        part = forest.components_by_id[next(iter(old))] if len(old) == 1 else None
        # The newest view comes last. If a clique holds it, the tree stays, and its beliefs are a warm start.
        if part is not None and part.tree.clique_of(views[-1]) is not None:
            # the fit works in place, and readers of the old component may still use its beliefs
            copied = Beliefs(*(cells.copy() for cells in part.beliefs))
            part = part.with_beliefs(copied, lay_out(part.tree, views))
        else:
            part = self._component(views, theta, inside)
        step = min((self.steps.get(id_, np.inf) for id_ in old), default=np.inf)
        targets = self._targets(used)
        longest = min(step, 8 / float(targets.weights.max()))
        pace = Pace(longest, iterations, enough * len(targets.shares))
        _, step, _ = descend(part.beliefs, part.layout, targets, theta, pace)
        at = 0
        for i in used:
            self.thetas[i] = theta[at : at + len(self.thetas[i])]
            at += len(self.thetas[i])
        forest.replace(part)
        self.steps[int(forest.part_of[attributes[0]])] = step

    def _component(self, views: Sequence[View], theta: np.ndarray, inside: set[int]) -> Component:
        """The log-linear model over the attributes `inside`, with the zeros that rules put there."""
        levels = self.forest.levels
        zeros = {v: cells for v, cells in self.zeros.items() if inside & set(levels.attribute[list(v)])}
        return Component.log_linear(CliqueTree.of(levels, [*views, *zeros]), views, theta, zeros)

    def _targets(self, used: Sequence[int]) -> Targets:
        """The measurements `used`, in shares and weighted by their precision."""
        total, measured = self.forest.total, [self.measurements[i] for i in used]
        weights = np.array([(total / m.stddev) ** 2 for m in measured])
        return Targets(np.concatenate([m.noisy for m in measured]) / total, weights)


def tied(views: Iterable[View], levels: Levels) -> list[list[int]]:
    """All attributes in groups: attributes of a view are in the same group. The groups are in the order of
    their first attributes.
    """
    group_of = list(range(len(levels.shape)))
    for view in views:
        joined = {group_of[a] for a in levels.attribute[list(view)].tolist()}
        group_of = [min(joined) if g in joined else g for g in group_of]
    return [[a for a, g in enumerate(group_of) if g == first] for first in sorted(set(group_of))]


def from_histogram(factor: Factor, noisy: np.ndarray, stddev: float) -> Factor:
    """The nearest table to a measurement of every cell, without negative cells and with none ruled out."""
    total = max(float(noisy.sum()), 1.0)
    floor = min(stddev / 20, total / 10 / len(noisy))
    weights = np.maximum(nearest_counts(noisy, total), floor)
    return Factor(factor.positions, factor.shape, np.maximum(weights / weights.sum(), FLOOR))


def nearest_counts(noisy: np.ndarray, total: float) -> np.ndarray:
    """float64[cells]: the point nearest to `noisy` (least squares) of sum `total`, no cell negative."""
    descending = np.sort(noisy.astype(np.float64))[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(noisy) + 1)
    # the first entry always qualifies: its excess is its value less the total, which is no larger
    last = np.flatnonzero(descending >= excess)[-1]
    return np.maximum(noisy - excess[last], 0.0)


def estimate_total(measurements: Sequence[Measurement]) -> tuple[float, float]:
    """(records, standard error): the inverse-variance mean of the measurements' sums, at least 1 record."""
    precision = np.array([1 / (len(m.noisy) * m.stddev**2) for m in measurements])
    sums = np.array([float(m.noisy.sum()) for m in measurements])
    return max(1.0, float((precision * sums).sum() / precision.sum())), float(precision.sum() ** -0.5)
