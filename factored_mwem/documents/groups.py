"""Groups: the codes of a column as a picture can show them: neighbours put together, rare values as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.documents.wording import plain, rounded
from factored_mwem.domain.attribute import Attribute
from factored_mwem.tables.labels import Label, labels_of

MOST_BINS, MOST_VALUES = 32, 20
"""Bars of a column of bins, and of one of listed values."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """`labels` of groups of codes, and `of_code: int64[code]`, the group of each. `scaled`: how many of the
    first groups follow one another as numbers or moments do. `said`: what was put together, in words.
    """

    labels: tuple[str, ...]
    of_code: np.ndarray
    scaled: int
    said: str

    def __len__(self) -> int:
        return len(self.labels)

    def added(self, counts: np.ndarray) -> np.ndarray:
        """float64[group]: the sums of `counts: [code]`."""
        return np.bincount(self.of_code, weights=counts, minlength=len(self))

    @property
    def weights(self) -> np.ndarray:
        """float64[group, code]: 1 where a code is in the group."""
        weights = np.zeros((len(self), len(self.of_code)))
        weights[self.of_code, np.arange(len(self.of_code))] = 1.0
        return weights


def groups_of(attribute: Attribute, known: np.ndarray | None) -> Groups:
    """Groups for a picture; `known: [code]` says which listed values are frequent: public counts."""
    labels = labels_of(attribute)
    apart = len(attribute.sentinels) + attribute.nullable  # at the end: texts among numbers, and null
    inside = len(labels) - apart
    if attribute.categorical:
        names, of_code, said = _frequent(labels[:inside], known)
        scaled = 0
    else:
        names, of_code, said = _neighbours(labels[:inside])
        scaled = len(names)
    rest = ["missing" if label is None else plain(label) for label in labels[inside:]]
    ends = np.arange(len(names), len(names) + apart)
    return Groups((*names, *rest), np.concatenate([of_code, ends]).astype(np.int64), scaled, said)


def _neighbours(labels: tuple[Label, ...]) -> tuple[list[str], np.ndarray, str]:
    """Bins in order; where they are many, so many neighbours as one."""
    size = len(labels)
    if size <= MOST_BINS:
        return [rounded(str(label)) for label in labels], np.arange(size), ""
    each = -(-size // MOST_BINS)
    of_code = np.arange(size) // each
    names = [
        rounded(_joined(str(labels[at]), str(labels[min(at + each, size) - 1])))
        for at in range(0, size, each)
    ]
    return names, of_code, f"{size:,} bins or values, {each} neighbours a bar"


def _joined(first: str, last: str) -> str:
    """One label for all from the first to the last bin."""
    between = ".." if ".." in first + last or not (first + last).startswith("[") else ", "
    low, high = first.partition(between)[0], last.rpartition(between)[2]
    return f"{low}{between}{high}"


def _frequent(labels: tuple[Label, ...], known: np.ndarray | None) -> tuple[list[str], np.ndarray, str]:
    """Listed values in their order; where they are many, the most frequent ones, and the others as one."""
    size = len(labels)
    if size <= MOST_VALUES:
        return [plain(label) for label in labels], np.arange(size), ""
    counts = np.zeros(size) if known is None else known[:size]
    first = np.argsort(-counts, kind="stable")[: MOST_VALUES - 1]
    of_code = np.full(size, len(first))
    of_code[first] = np.arange(len(first))
    names = [*(plain(labels[i]) for i in first), f"{size - len(first):,} other values"]
    which = "the first" if known is None else "the most frequent"
    return names, of_code, f"{size:,} values: {which} {len(first)}, and all others as one bar"
