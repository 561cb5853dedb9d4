"""Refit: a component of a release's model fitted anew to other noisy answers, without any choice of what to
measure: the same tree, all measurements inside it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from factored_mwem.domain.levels import View
from factored_mwem.kernels.tree import CELLS, CLIQUE, FEWEST, Beliefs, Pace, Targets, descend, rebuild, tilt
from factored_mwem.model.dense import Factor
from factored_mwem.model.estimation import MAX_FINAL_STEPS, MIN_FINAL_GAIN, from_histogram
from factored_mwem.model.forest import Component
from factored_mwem.model.layout import lay_out
from factored_mwem.privacy.session import Measurement

MAX_WORK, COLD_STEPS = 400_000_000, 150
"""Cells that a fit may pass over, about a second; steps that one from single attributes needs at least. From
the model 40 steps do, where answers are many and noise is small.
"""


class Refit(Protocol):
    """A component that can be fitted anew, and made from what a fit found."""

    parameters: int
    """How many numbers a fit finds."""

    def fit(self, noisy: Mapping[int, np.ndarray], total: float) -> np.ndarray:
        """float64[parameters]: fitted to `noisy: float64[cells]` in records, by the measurement's number."""

    def component(self, theta: np.ndarray) -> Component:
        """The component that `theta: float[parameters]` stands for, calibrated."""


class TreeRefit:
    """A component of a clique tree: log-linear in what was measured inside it.

    A fit begins as a release does, from the noisy single attributes, and ends where it does; one that would
    take too long begins from the release's own model and makes a few steps.
    """

    def __init__(
        self,
        part: Component,
        measured: Mapping[int, Measurement],
        zeros: Mapping[View, np.ndarray],
    ) -> None:
        """`measured`: those that lie inside `part`, by number; `zeros`: the cells that rules leave empty, for
        views inside it.
        """
        self._part, self._measured = part, dict(measured)
        views = [m.positions for m in measured.values()]
        layout = lay_out(part.tree, [*views, *zeros])
        self._whole, self._layout = layout, layout._replace(tables=layout.tables[: len(views)])
        self._ruled = np.concatenate([np.zeros(0), *(np.where(c, -np.inf, 0.0) for c in zeros.values())])
        self._separators = int(layout.edges[:, CELLS].sum())
        self.parameters = sum(len(m.noisy) for m in measured.values())
        passed = 4 * sum(part.tree.cells) + 2 * sum(
            part.tree.cells[k] for k in self._layout.tables[:, CLIQUE]
        )
        affordable = MAX_WORK // max(passed, 1)
        self.cold = affordable >= COLD_STEPS
        self._steps = MAX_FINAL_STEPS if self.cold else max(affordable, FEWEST)

    def fit(self, noisy: Mapping[int, np.ndarray], total: float) -> np.ndarray:
        begin = self._begin(noisy) if self.cold else [np.zeros(self.parameters)]
        theta = np.concatenate([np.zeros(0), *begin])
        if len(self._measured) < 2 and not len(self._ruled):
            return theta  # the histogram itself, as in a release
        beliefs = self._beliefs(theta)
        weights = np.array([(total / m.stddev) ** 2 for m in self._measured.values()])
        targets = Targets(np.concatenate([noisy[i] for i in self._measured]) / total, weights)
        pace = Pace(8 / float(weights.max()), self._steps, MIN_FINAL_GAIN * len(theta))
        descend(beliefs, self._layout, targets, theta, pace)
        return theta

    def _begin(self, noisy: Mapping[int, np.ndarray]) -> list[np.ndarray]:
        """The parameters of a product of single attributes, each as first measured."""
        begun: set[int] = set()
        found = []
        for i, m in self._measured.items():
            first = len(m.positions) == 1 and m.positions[0] not in begun
            fine = first and m.positions[0] < len(self._part.tree.levels.shape)
            if fine:
                begun.add(m.positions[0])
                uniform = Factor.uniform(m.positions, (len(m.noisy),))
                found.append(np.log(from_histogram(uniform, noisy[i], m.stddev).weights))
            else:
                found.append(np.zeros(len(m.noisy)))
        return found

    def _beliefs(self, theta: np.ndarray) -> Beliefs:
        if not self.cold:
            beliefs = Beliefs(*(cells.copy() for cells in self._part.beliefs))
            tilt(beliefs, self._layout, theta)
            return beliefs
        beliefs = Beliefs(np.zeros(sum(self._part.tree.cells)), np.zeros(self._separators))
        rebuild(beliefs, self._whole, np.concatenate([theta, self._ruled]))
        return beliefs

    def component(self, theta: np.ndarray) -> Component:
        if not self.parameters:
            return self._part  # nothing was measured in it: nothing can come out otherwise
        return self._part.with_beliefs(self._beliefs(theta.astype(np.float64)), self._layout)
