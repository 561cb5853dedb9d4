"""Votes: what the values of a column look like, by noisy counts of how many look like each kind. No private
row is read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from factored_mwem.tables.codes.kinds import KINDS, LOOKS, MAX_DECIMALS, MOMENTS, NUMBERS, RESOLUTIONS, TEXTS

T = TypeVar("T")
TOLERANCE = 0.05
"""A column is of a kind when at most this share of its values is of another; mixed from there on."""
INEXACT = 0.005
"""The share of a column's numbers that may need more decimals, or of its timestamps that may be no multiples
of a unit, where all are written so.
"""
BELIEVED = 5.0
"""Standard deviations of noise from which a vote is believed: of thirty kinds, noise alone makes one believed
once in 100,000 columns. At 4 it was once in a thousand, and a column of text then came back as numbers.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """Noisy votes of a column on KINDS, and their standard deviation. `zeros`: of a column of text, how many
    zeros most whole numbers have behind a point; 0 for none.
    """

    noisy: np.ndarray
    stddev: float
    zeros: int = 0

    @classmethod
    def spelt(cls, noisy: np.ndarray, stddev: float) -> Votes:
        """Of `noisy: float64[kind, then number of zeros]`: with the votes of numbers with zeros that are
        believed among those of whole numbers.
        """
        kinds, with_zeros = np.split(noisy, [len(KINDS)])
        believed = np.where(with_zeros > BELIEVED * stddev, with_zeros, 0.0)
        most = int(np.argmax(believed))
        zeros = most + 1 if believed[most] > max(kinds[KINDS.index("integer")], 0.0) else 0
        kinds[KINDS.index("integer")] += believed.sum()
        return cls(kinds, stddev, zeros)

    def of(self, *kinds: str) -> float:
        """The votes for these kinds: each that is believed, and the others where they are together."""
        counts = self.noisy[[KINDS.index(kind) for kind in kinds]]
        believed = counts > BELIEVED * self.stddev
        rest = float(counts[~believed].sum())
        together = rest if rest > BELIEVED * self.stddev * float((~believed).sum()) ** 0.5 else 0.0
        return float(counts[believed].sum()) + together

    def believed(self, kind: str) -> bool:
        return bool(self.noisy[KINDS.index(kind)] > BELIEVED * self.stddev)

    def type(self) -> str:
        """The type that covers nearly all values, or the numbers or moments of a mixed column; text where
        nothing else stands out, or where numbers are codes.
        """
        numbers, moments = self.of(*NUMBERS), self.of(*MOMENTS)
        texts = self.of(*TEXTS)
        present = numbers + moments + texts
        if present <= 0 or self.believed("code"):
            return "string"
        if self.of("boolean") >= (1 - TOLERANCE) * present:
            return "boolean"
        if max(numbers, moments) < TOLERANCE * present:
            return "string"
        if numbers >= moments:
            return "number" if self.decimals() != 0 or self.zeros else "integer"
        return "datetime" if self.of(*MOMENTS[1:]) > INEXACT * moments else "date"

    def looks(self) -> str:
        """What most values of a column of text look like, one of LOOKS, if they do; "untold" where so few are
        there that no kind is believed.
        """
        present = self.of(*NUMBERS) + self.of(*MOMENTS) + self.of(*TEXTS) + self.of("code")
        found = (kind for kind in LOOKS if self.believed(kind) and 2 * self.of(kind) > present)
        return next(found, "" if present > 0 else "untold")

    def notated(self) -> bool:
        """Whether most values of a column of text are numbers or times of day, some of which are not plain:
        of money, say.
        """
        numbers, present = self.of(*NUMBERS), self.of(*NUMBERS) + self.of(*MOMENTS) + self.of(*TEXTS)
        written = [self.of(look) for look in ("clock", "amount") if self.believed(look)]
        most = max(written, default=0.0)
        return (
            most >= TOLERANCE * present > 0 and 2 * (most + numbers) > present and not self.believed("code")
        )

    def read(self, look: str, kinds: Mapping[str, float], zeros: int = 0) -> Votes:
        """The same where what looked like a text, one of LOOKS, is read: about so many rows of each of these
        kinds, of which whole numbers have so many `zeros` behind a point.
        """
        noisy = self.noisy.copy()
        for kind, rows in kinds.items():
            noisy[KINDS.index(kind)] += rows
            noisy[KINDS.index(look)] -= rows
        return replace(self, noisy=noisy, zeros=zeros or self.zeros)

    def mixed(self) -> bool:
        """Whether clearly more than a few values are texts."""
        texts = self.of(*TEXTS)
        return texts >= TOLERANCE * (texts + self.of(*NUMBERS, *MOMENTS)) > 0

    def decimals(self) -> int | None:
        """The decimals that all but few numbers do with; None if many need more."""
        return self._enough(NUMBERS, range(MAX_DECIMALS + 1))

    def resolution(self) -> str | None:
        """The unit of which all but few timestamps are multiples."""
        return self._enough(MOMENTS[1:], RESOLUTIONS)

    def _enough(self, kinds: Sequence[str], names: Sequence[T]) -> T | None:
        """The first of `names`, one for each of `kinds` but the last, after which few votes follow."""
        most = INEXACT * self.of(*kinds)
        if not most:
            return None
        left = (name for i, name in enumerate(names) if self.of(*kinds[i + 1 :]) <= most)
        return next(left, None)
