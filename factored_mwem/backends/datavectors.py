"""Datavectors: private rows as codes, wherever they are. The engine asks them for exact counts of a list of
marginals, and for nothing else.

Counts are sums over rows of public functions of each row, so they are the same however rows are split,
ordered, retried or counted; every implementation gives the same integers, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np


class Axis(NamedTuple):
    """A column of the encoded rows, as it is or at a coarser level: what a marginal may be over."""

    column: int
    """Its number among the encoded columns."""
    lookup: np.ndarray | None
    """uint32[code as encoded]: the code on this axis; None where it is the same."""
    size: int
    """Codes on this axis; `lookup` has none beyond."""


class Datavectors(Protocol):
    """Private rows, encoded; a call of `exact_counts` is one pass over them.

    Holds private rows: a subclass of `Private`, which only privacy/counts.py may ask.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """Codes of each encoded column: public, from the domain."""

    @property
    def dear(self) -> bool:
        """Whether a pass costs so much that more should be counted than is needed, to save another."""

    def exact_counts(self, axes: Sequence[Axis], members: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """int32[all cells] or int64[all cells]: the counts of every marginal, row-major, one after the other.

        `members: int32[marginal, slot]` are numbers of `axes`, at least one each, of different columns,
        padded with -1; `offsets: int64[marginal + 1]` says where a marginal's counts begin. Changed where the
        rows are not those of an earlier pass; ResourceError where a marginal has more than 2^32 cells.
        """
