"""Refit: a component of a release's model fitted anew to other noisy answers, without any choice of what to
measure: the same tree, all measurements inside it at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from factored_mwem.domain.levels import View
from factored_mwem.kernels.tree import CELLS, Beliefs, Pace, Targets, descend, rebuild
from factored_mwem.model.dense import Factor
from factored_mwem.model.estimation import MAX_FINAL_STEPS, MIN_FINAL_GAIN, from_histogram
from factored_mwem.model.forest import Component
from factored_mwem.model.layout import lay_out
from factored_mwem.privacy.session import Measurement


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

    A fit begins as a release does, from the noisy single attributes, and ends where it does.
    """

    def __init__(
        self,
        part: Component,
        measured: Mapping[int, Measurement],
        zeros: Mapping[View, np.ndarray],
        total: float,
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

    def fit(self, noisy: Mapping[int, np.ndarray], total: float) -> np.ndarray:
        theta = np.concatenate([np.zeros(0), *self._begin(noisy)])
        if len(self._measured) < 2 and not len(self._ruled):
            return theta  # the histogram itself, as in a release
        beliefs = self._beliefs(theta)
        weights = np.array([(total / m.stddev) ** 2 for m in self._measured.values()])
        targets = Targets(np.concatenate([noisy[i] for i in self._measured]) / total, weights)
        pace = Pace(8 / float(weights.max()), MAX_FINAL_STEPS, MIN_FINAL_GAIN * len(theta))
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
        beliefs = Beliefs(np.zeros(sum(self._part.tree.cells)), np.zeros(self._separators))
        rebuild(beliefs, self._whole, np.concatenate([theta, self._ruled]))
        return beliefs

    def component(self, theta: np.ndarray) -> Component:
        if not self.parameters:
            return self._part  # nothing was measured in it: nothing can come out otherwise
        return self._part.with_beliefs(self._beliefs(theta.astype(np.float64)), self._layout)
