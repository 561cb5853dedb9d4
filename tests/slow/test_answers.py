"""Coverage: 95 % intervals of what was measured, and of what follows from it linearly, over many draws of
noise for one design; and a planted bug that must show.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from support.goodness import happens

from factored_mwem.accounting.conversion import Composition
from factored_mwem.answers import projections
from factored_mwem.answers.answering import Answering
from factored_mwem.answers.evidence import Evidence
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.session import Measurement, NoiseScale

FIRST, DRAWS = 480, 840
"""The first are enough where they cannot be of a share of 0.8, nor of 1."""
DOMAIN = Domain.from_dict({"a": 4, "b": 3, "c": 6})
LEVELS = Levels.of((4, 3, 6), [[np.array([0, 0, 1, 1])], [], [np.array([0, 0, 1, 1, 2, 2])]])
A, B, C, A2, C3 = 0, 1, 2, 3, 4
"""Variables: three attributes, and the coarser levels of two of them."""
TABLE = np.random.default_rng(5).integers(40, 400, (4, 3, 6))
DESIGN = [((A,), 6.0), ((A2, B, C3), 9.0), ((B, C), 5.0), ((A, B), 14.0), ((C3,), 4.0)]
QUERIES = {
    "count where a = 2": TABLE[2].sum(),
    "count where b = 1": TABLE[:, 1].sum(),
    "count where a = 2 and b = 1": TABLE[2, 1].sum(),
    "count where b = 1 and c >= 3": TABLE[:, 1, 3:].sum(),
    "count where a <= 1 and b = 2 and c >= 4": TABLE[:2, 2, 4:].sum(),
    "count": TABLE.sum(),
    "share where b = 0 given c between 2 and 4": TABLE[:, 0, 2:5].sum() / TABLE[:, :, 2:5].sum(),
    "mean c where b = 2": (TABLE[:, 2].sum(axis=0) * np.arange(6)).sum() / TABLE[:, 2].sum(),
    "count where a = 3 minus count where c = 5": TABLE[3].sum() - TABLE[:, :, 5].sum(),
    "share where a = 0 minus share where c >= 4": (TABLE[0].sum() - TABLE[:, :, 4:].sum()) / TABLE.sum(),
}


def forest() -> Forest:
    parts = [
        Component.log_linear(CliqueTree.of(LEVELS, [(a,)]), [(a,)], np.zeros(size))
        for a, size in enumerate((4, 3, 6))
    ]
    return Forest(LEVELS, parts, float(TABLE.sum()))


def counts(view) -> np.ndarray:
    cells = np.zeros([int(LEVELS.sizes[v]) for v in view], dtype=np.int64)
    groups = [LEVELS.groups[v] for v in view]
    axes = [int(LEVELS.attribute[v]) for v in view]
    for cell in np.ndindex(TABLE.shape):
        cells[tuple(of[cell[a]] for of, a in zip(groups, axes, strict=True))] += TABLE[cell]
    return cells.ravel()


def noise(rng, scale, size, composition) -> np.ndarray:
    if composition is Composition.ZCDP:
        return np.rint(rng.normal(0, scale, size)).astype(np.int64)
    p = 1 - np.exp(-1 / scale)  # a difference of two geometric numbers is discrete Laplace
    return rng.geometric(p, size) - rng.geometric(p, size)


def held(text: str, composition: Composition, *, public: bool) -> Iterator[bool]:
    """Whether the interval of a query holds the truth, draw by draw."""
    rng, model, truth = np.random.default_rng(1), forest(), QUERIES[text]
    exact = [(view, counts(view), NoiseScale(scale, composition)) for view, scale in DESIGN]
    while True:
        measured = [
            Measurement(view, cells + noise(rng, scale.value, len(cells), composition), scale)
            for view, cells, scale in exact
        ]
        answering = Answering(Evidence(DOMAIN, model, measured, [], public, "tree"))
        answer = answering.answer(text)
        assert answer.basis == "measured"
        yield bool(answer.low[0] <= truth <= answer.high[0])


def covers(text: str, composition: Composition, *, public: bool) -> bool:
    """Whether the share of draws may be 0.95, and is told from 0.8. A public number of rows is known."""
    share, draws = 1.0 if public and text == "count" else 0.95, held(text, composition, public=public)
    hits = sum(itertools.islice(draws, FIRST))
    if happens(hits, FIRST, share, []) and not happens(hits, FIRST, 0.8, []):
        return True
    return happens(hits + sum(itertools.islice(draws, DRAWS - FIRST)), DRAWS, share, [0.8])


@pytest.mark.parametrize(("composition", "public"), [(Composition.ZCDP, False), (Composition.PURE, True)])
@pytest.mark.parametrize("text", list(QUERIES))
def test_intervals_of_what_was_measured_hold_the_truth(text, composition, public) -> None:
    assert covers(text, composition, public=public)


def test_a_variance_that_forgets_summed_cells_is_seen(monkeypatch) -> None:
    """The planted bug: a noisy sum of many cells taken for as sure as one of them."""
    honest = projections.Noisy.projected

    def forgetful(self, index, variables):
        look = honest(self, index, variables)
        return look._replace(summed=1, precision=look.precision * look.summed)

    monkeypatch.setattr(projections.Noisy, "projected", forgetful)
    text = "count where b = 1"  # of which every measurement is summed over other columns
    assert not covers(text, Composition.ZCDP, public=False)
