"""Groups: the codes of a column as a picture shows them: neighbours merged, and rare values merged into
one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from factored_mwem.documents.page import plain, rounded
from factored_mwem.domain.attribute import Attribute
from factored_mwem.tables.codes.decode import Label, labels_of

MOST_BINS, MOST_VALUES = 32, 20
"""Most bars for a column of bins, and for one of listed values."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """`labels` of groups of codes, and `of_code: int64[code]`, the group of each. `scaled`: how many of the
    first groups follow one another as numbers or moments do. `note`: what was merged, in words.
    """

    labels: tuple[str, ...]
    of_code: np.ndarray
    scaled: int
    note: str

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
    labels, inside = labels_of(attribute), _inside(attribute)
    if attribute.categorical:
        names, of_code, note = _frequent(labels[:inside], known)
        scaled = 0
    else:
        each = -(-inside // MOST_BINS)
        of_code = np.arange(inside) // max(each, 1)
        names, note = _spans(attribute, labels, of_code), ""
        scaled = len(names)
        if each > 1:
            note = f"{inside:,} bins or values, {each} neighbours a bar"
    return _with_rest(attribute, names, of_code, scaled, note)


def groups_at(attribute: Attribute, level: np.ndarray) -> Groups | None:
    """The groups of a coarser level, `level: int64[code]`, of an attribute with bins; None if they are not
    neighbours, or too many for a picture.
    """
    inside = _inside(attribute)
    of_code = level[:inside]
    starts = np.diff(of_code, prepend=-1) != 0
    rest = level[inside:]
    alone = len(np.unique(rest)) == len(rest) and not np.isin(rest, of_code).any()
    count = int(starts.sum())
    if attribute.categorical or not alone or count != len(np.unique(of_code)) or count > MOST_BINS:
        return None
    of_code = np.cumsum(starts) - 1
    note = f"{inside:,} bins or values, in {count:,} groups that were measured"
    names = _spans(attribute, labels_of(attribute), of_code)
    return _with_rest(attribute, names, of_code, count, note)


def _inside(attribute: Attribute) -> int:
    """How many codes come before those of special texts and of null."""
    return attribute.size - len(attribute.sentinels) - attribute.nullable


def _with_rest(attribute: Attribute, names: list[str], of_code: np.ndarray, scaled: int, note: str) -> Groups:
    """With a group for each code after those inside."""
    rest = labels_of(attribute)[len(of_code) :]
    ends = np.arange(len(names), len(names) + len(rest))
    words = ["missing" if label is None else plain(label) for label in rest]
    return Groups((*names, *words), np.concatenate([of_code, ends]).astype(np.int64), scaled, note)


def _spans(attribute: Attribute, labels: tuple[Label, ...], of_code: np.ndarray) -> list[str]:
    """A label for each run of neighbours."""
    if not len(of_code):
        return []
    starts = np.flatnonzero(np.diff(of_code, prepend=-1))
    ends = [*(starts[1:] - 1), len(of_code) - 1]
    texts = [_short(attribute, str(labels[i])) for i in range(len(of_code))]
    return [texts[a] if a == b else _joined(texts[a], texts[b]) for a, b in zip(starts, ends, strict=True)]


def _short(attribute: Attribute, label: str) -> str:
    """A label of this program without meaningless digits."""
    if attribute.type == "number":
        return rounded(label)
    return label.replace(".000000", "").replace("T00:00:00", "") if attribute.type == "datetime" else label


def _joined(first: str, last: str) -> str:
    """One label for all from the first to the last bin."""
    return f"{start_of(first)}..{last.rpartition(', ' if last.startswith('[') else '..')[2].rstrip(')]')}"


def start_of(label: str) -> str:
    """Where a bin begins."""
    return label[1:].partition(", ")[0] if label.startswith("[") else label.partition("..")[0] or label


def _frequent(labels: tuple[Label, ...], known: np.ndarray | None) -> tuple[list[str], np.ndarray, str]:
    """Listed values in their order; if there are many, the most frequent ones, with all others as one."""
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
