"""Agreement: of how many pairs of a person's rows codes are the same, each person weighing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from factored_mwem.domain.agreement import Grouping

Groupings = Mapping[str, Sequence[Grouping]]


def agreement_of(
    person: np.ndarray, codes: Mapping[str, np.ndarray], groupings: Groupings, whole: int
) -> np.ndarray:
    """int64[1 + groupings]: `whole` times the number of people with several rows; then for each grouping of
    each column the sum, over these people, of the share of their pairs of rows that are in one group, in
    parts of `whole`, rounded down for each person.

    `person: int64[row]`, from 0 on; `codes`: of each column, [row]; of a person up to 1,008 rows. Each number
    is a sum over people of one from 0 to `whole` that follows from that person's rows alone.
    """
    rows = np.bincount(person)
    several = rows > 1
    pairs = (rows * (rows - 1))[several]
    sums = [whole * int(several.sum())]
    for name, levels in groupings.items():
        for grouping in levels:
            group = grouping.of_codes(codes[name])
            size = int(group.max(initial=0)) + 1
            held, times = np.unique(person * size + group, return_counts=True)
            alike = np.bincount(held // size, times * (times - 1), minlength=len(rows))
            sums.append(int((whole * alike[several].astype(np.int64) // pairs).sum()))
    return np.array(sums, dtype=np.int64)
