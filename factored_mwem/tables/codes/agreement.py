"""Agreement: of how many pairs of a person's rows codes are the same, each person weighing one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from factored_mwem.domain.agreement import Grouping

Groupings = Mapping[str, Sequence[Grouping]]


def agreement_of(
    person: np.ndarray,
    codes: Mapping[str, np.ndarray],
    groupings: Groupings,
    whole: int,
    family: np.ndarray | None = None,
) -> np.ndarray:
    """int64[1 + groupings]: `whole` times the number of people with several rows; then for each grouping of
    each column the sum, over these people, of the share of their pairs of rows that are in one group, in
    parts of `whole`, rounded down for each person.

    `person: int64[row]`, from 0 on; `codes`: of each column, [row]; of a person up to 1,008 rows. Where a
    `family: int64[row]`, from 0 on, parts the rows of each person, only pairs in one family count. Each
    number is a sum over people of one from 0 to `whole` that follows from that person's rows alone.
    """
    family = person if family is None else family
    people = int(person.max(initial=-1)) + 1
    owner = np.zeros(int(family.max(initial=-1)) + 1, dtype=np.int64)
    owner[family] = person
    rows = np.bincount(family)
    of_person = np.bincount(owner, rows * (rows - 1), minlength=people).astype(np.int64)
    several = of_person > 0
    pairs = of_person[several]
    sums = [whole * int(several.sum())]
    for name, levels in groupings.items():
        for grouping in levels:
            group = grouping.of_codes(codes[name])
            size = int(group.max(initial=0)) + 1
            held, times = np.unique(family * size + group, return_counts=True)
            alike = np.bincount(owner[held // size], times * (times - 1), minlength=people)
            sums.append(int((whole * alike[several].astype(np.int64) // pairs).sum()))
    return np.array(sums, dtype=np.int64)
