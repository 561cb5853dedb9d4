"""Construction: a hypothesis about a private table that queries, one after the other, make better.

Gupta, Roth, Ullman 2011 call it an iterative database construction (IDC). Counts are in records throughout: a
query q with weights in [0, 1] has the answer q(D) = <q, D> from 0 to n. Nothing here is private: what a
hypothesis is told are noisy answers.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

Q = TypeVar("Q", contravariant=True)


class Construction(Protocol[Q]):
    """A hypothesis D^t, updated in place; what a query is, each kind of construction says."""

    def answer(self, query: Q) -> float:
        """q(D^t), in records."""

    def update(self, query: Q, value: float) -> None:
        """The next hypothesis, D^{t+1}. Of `value`, records, only the side of q(D^t) counts on which it lies:
        below it, or not.
        """

    def bound(self, alpha: float) -> float:
        """B(alpha): the most updates that queries answered wrongly by `alpha` records or more can cause, of a
        construction made for this `alpha`, whatever the table is.
        """
