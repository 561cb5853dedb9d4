"""Lone columns: a rare flag gets its partner, one that goes with no other is named, and looking is cheap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from support.fakes import FakeNoise

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.mechanisms import lone
from factored_mwem.mechanisms.lone import PATIENCE, LoneColumns, alone
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.request import Request
from factored_mwem.workload.workload import Workload


def forest_of(*groups: tuple[int, ...]) -> Forest:
    levels = Levels.fine((2,) * sum(map(len, groups)))
    parts = [Component.log_linear(CliqueTree(levels, (group,), ()), [], np.zeros(0)) for group in groups]
    return Forest(levels, parts, 100.0)


def columns(count: int) -> LoneColumns:
    return LoneColumns(Workload.marginals(3).candidates(Domain.from_dict({f"a{i}": 2 for i in range(count)})))


def test_who_is_alone_and_which_views_are_offered() -> None:
    forest, looking = forest_of((0, 1), (2,), (3,)), columns(4)
    assert alone(forest) == [2, 3]
    every = np.arange(len(looking.views))
    offered = [looking.views.positions(c) for c in looking.of_pairs(every, forest).tolist()]
    assert offered == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def test_a_quiet_round_makes_one_look_and_quiet_ones_in_a_row_make_one_stop() -> None:
    forest, looking = forest_of((0, 1), (2,), (3,)), columns(4)
    cheap, dear = lone.DEAR / PATIENCE / 2, lone.DEAR
    assert looking.heard(forest, quiet=False, price=cheap) and not looking.seeking
    assert looking.heard(forest, quiet=True, price=dear) and not looking.seeking, "too dear to look"
    assert not looking.heard(forest, quiet=True, price=cheap) and looking.seeking
    assert not looking.heard(forest, quiet=True, price=cheap)
    assert not looking.heard(forest, quiet=False, price=cheap), "one that was found starts the count anew"
    assert [looking.heard(forest, quiet=True, price=cheap) for _ in range(PATIENCE)] == [False, True]
    assert not looking.seeking
    assert not looking.heard(forest, quiet=True, price=cheap)
    together = forest_of((0, 1, 2, 3))
    assert looking.heard(together, quiet=False, price=cheap) and not looking.seeking, "nobody is alone"


FLAGS = tuple(f"f{i}" for i in range(8))


def flags(rows: int = 20_000) -> pa.Table:
    """Six columns that go together, flags of some 3 % that follow from one of them, and one that follows from
    none.
    """
    rng = np.random.default_rng(0)
    base = rng.integers(0, 8, rows)
    ordinary = {f"c{i}": (base + (rng.random(rows) < 0.4) * rng.integers(0, 8, rows)) % 8 for i in range(6)}
    rare = {name: ((base == i) & (rng.random(rows) < 0.25)).astype(int) for i, name in enumerate(FLAGS)}
    return pa.table({**ordinary, **rare, "free": rng.integers(0, 4, rows)})


def released(epsilon: float) -> Release:
    domain = {**{f"c{i}": 8 for i in range(6)}, **dict.fromkeys(FLAGS, 2), "free": 4}
    request = Request.of(
        flags(), 2, None, domain=domain, columns=None, rows=None, sample_seed=None, epsilon=epsilon
    )
    rng = np.random.default_rng(1)

    def noisy(values: np.ndarray, scale: float) -> np.ndarray:
        return values + np.rint(rng.normal(scale=scale, size=len(values))).astype(np.int64)

    return make(request, noise=FakeNoise(request.budget.composition, offset=noisy))


def test_rare_flags_get_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody looks after lone columns, and some stay alone."""
    assert not any((name,) in released(0.3).manifest.components for name in FLAGS)
    monkeypatch.setattr(lone, "DEAR", 0.0)
    assert any((name,) in released(0.3).manifest.components for name in FLAGS)


def test_columns_that_stay_alone_are_named() -> None:
    made = released(0.01)
    left = [c[0] for c in made.manifest.components if len(c) == 1]
    notes = [note for note in made.manifest.notes if "no other column" in note]
    assert left and len(notes) == 1 and all(repr(name) in notes[0] for name in left)
