"""Expected: how far off a release's marginals are expected to be, from its replicates; free."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from factored_mwem.answers.evidence import Evidence
from factored_mwem.answers.replicates import Replicates

ENOUGH = 12
"""Replicates that are asked: an error is a sum over cells, which differs little between them."""
MAX_MARGINALS = 5_000


def expected_errors(
    evidence: Evidence,
    order: int,
    replicates: Replicates,
    marginals: Sequence[tuple[int, ...]] | None = None,
) -> list[tuple[tuple[int, ...], float]]:
    """(attributes, error) of `marginals`, or of all of up to `order` attributes (MAX_MARGINALS at most).

    An error is the expected L1 distance of shares (0 to 2) between the model's marginal and the table's, as
    replicates have it: noise, and rows that no model follows, but nothing that the trees leave out.
    """
    attributes = range(len(evidence.model.levels.shape))
    if marginals is None:
        every = (itertools.combinations(attributes, k) for k in range(1, order + 1))
        marginals = list(itertools.islice(itertools.chain.from_iterable(every), MAX_MARGINALS))
    summed, asked = np.zeros(len(marginals)), min(ENOUGH, len(replicates))
    for b in range(asked):
        forest = replicates.forest(b)
        answers, truths = forest.marginals(marginals), replicates.truths(b, marginals)
        for i, (answer, truth) in enumerate(zip(answers, truths, strict=True)):
            summed[i] += np.abs(answer / answer.sum() - truth / truth.sum()).sum() / asked
    return list(zip(marginals, summed.tolist(), strict=True))
