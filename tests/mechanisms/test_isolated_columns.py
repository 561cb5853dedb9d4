"""Lone columns: a rare flag gets its partner, one that goes with no other is named, and looking is cheap; a
label that hardly any row has is left alone unless it is asked for, then joined with each other column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.asked import request_of
from support.fakes import FakeNoise

from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.mechanisms import isolated_columns
from factored_mwem.mechanisms.isolated_columns import PATIENCE, IsolatedColumns, isolated
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.pipeline.release import make
from factored_mwem.pipeline.result import Release
from factored_mwem.request.policy import Policy
from factored_mwem.request.request import Request
from factored_mwem.tables.backends.opening import open_source
from factored_mwem.workload.workload import Workload


def forest_of(*groups: tuple[int, ...]) -> Forest:
    levels = Levels.fine((2,) * sum(map(len, groups)))
    parts = [Component.log_linear(CliqueTree(levels, (group,), ()), [], np.zeros(0)) for group in groups]
    return Forest(levels, parts, 100.0)


def columns(count: int) -> IsolatedColumns:
    domain = Domain.from_dict({f"a{i}": 2 for i in range(count)})
    return IsolatedColumns(Workload.marginals(3).candidates(domain))


def test_who_is_alone_and_which_views_are_offered() -> None:
    forest, looking = forest_of((0, 1), (2,), (3,)), columns(4)
    assert isolated(forest) == [2, 3]
    every = np.arange(len(looking.views))
    offered = [looking.views.positions(c) for c in looking.of_pairs(every, forest).tolist()]
    assert offered == [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def test_a_quiet_round_makes_one_look_and_quiet_ones_in_a_row_make_one_stop() -> None:
    forest, looking = forest_of((0, 1), (2,), (3,)), columns(4)
    cheap, dear = isolated_columns.DEAR / PATIENCE / 2, isolated_columns.DEAR
    assert looking.observe(forest, quiet=False, price=cheap) and not looking.seeking
    assert looking.observe(forest, quiet=True, price=dear) and not looking.seeking, "too dear to look"
    assert not looking.observe(forest, quiet=True, price=cheap) and looking.seeking
    assert not looking.observe(forest, quiet=True, price=cheap)
    assert not looking.observe(forest, quiet=False, price=cheap), "one that was found starts the count anew"
    assert [looking.observe(forest, quiet=True, price=cheap) for _ in range(PATIENCE)] == [False, True]
    assert not looking.seeking
    assert not looking.observe(forest, quiet=True, price=cheap)
    together = forest_of((0, 1, 2, 3))
    assert looking.observe(together, quiet=False, price=cheap) and not looking.seeking, "nobody is alone"


FLAGS = tuple(f"f{i}" for i in range(8))


def flags(rows: int = 20_000) -> pa.Table:
    """Columns that go together, flags of some 3 % that follow from one of them, and one from none."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 8, rows)
    ordinary = {f"c{i}": (base + (rng.random(rows) < 0.4) * rng.integers(0, 8, rows)) % 8 for i in range(6)}
    rare = {name: ((base == i) & (rng.random(rows) < 0.25)).astype(int) for i, name in enumerate(FLAGS)}
    return pa.table({**ordinary, **rare, "free": rng.integers(0, 4, rows)})


def released(epsilon: float) -> Release:
    domain = {**{f"c{i}": 8 for i in range(6)}, **dict.fromkeys(FLAGS, 2), "free": 4}
    request = Request.of(flags(), 2, domain=domain, epsilon=epsilon)
    rng = np.random.default_rng(1)

    def noisy(values: np.ndarray, scale: float) -> np.ndarray:
        return values + np.rint(rng.normal(scale=scale, size=len(values))).astype(np.int64)

    return make(request, noise=FakeNoise(request.budget.composition, offset=noisy))


@pytest.mark.slow
def test_rare_flags_get_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nobody looks after lone columns, and some stay alone."""
    assert not any((name,) in released(0.2).manifest.components for name in FLAGS)
    monkeypatch.setattr(isolated_columns, "DEAR", 0.0)
    assert any((name,) in released(0.2).manifest.components for name in FLAGS)


def test_columns_that_stay_alone_are_named() -> None:
    made = released(0.01)
    left = [c[0] for c in made.manifest.components if len(c) == 1]
    notes = [note for note in made.manifest.notes if "no dependence on other columns" in note]
    assert left and len(notes) == 1 and all(repr(name) in notes[0] for name in left)


# ---- a label that hardly any row has


OTHERS = tuple(f"a{i}" for i in range(6))
LABELLED = Domain.from_dict(dict.fromkeys(OTHERS, 4) | {"rare": 2, "lone": 3})


def people(rows: int = 20_000) -> pa.Table:
    """Six columns that go together, a flag that 3 % have, all of one kind, and a column of chance."""
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 4, rows)
    rare = (kind == 3) & (rng.random(rows) < 0.12)
    columns = {name: np.where(rng.random(rows) < 0.5, kind, rng.integers(0, 4, rows)) for name in OTHERS}
    return pa.table(columns | {"rare": rare.astype(np.int64), "lone": rng.integers(0, 3, rows)})


def made(asked: Workload, **choices: Any) -> Release:
    """As many rounds as columns that go with the flag; the best score wins, and answers are exact."""
    policy = Policy.of(epsilon=10.0, rounds=len(OTHERS), **choices)
    noise = FakeNoise(policy.budget(learn_domain=False).composition)
    return make(request_of(open_source(people()), asked, policy, LABELLED, sample_seed=1), noise=noise)


def joined_with_rare(release: Release) -> set[str]:
    """The columns in a measured marginal with the flag."""
    of, at = release.model.levels.attribute, LABELLED.index("rare")
    views = [{int(of[v]) for v in m.positions} for m in release.measurements]
    return {LABELLED.names[a] for view in views if at in view for a in view} - {"rare"}


@pytest.mark.parametrize("order", [2, 3])
def test_a_label_far_from_all_others_is_joined_with_each(order: int) -> None:
    """Without a weight the rounds go to others, as a label of weight 1 asks for no more than pairs do."""
    plain = Workload.marginals(order)
    assert (
        joined_with_rare(made(plain))
        == joined_with_rare(made(plain + Workload.label("rare", weight=1.0)))
        == set()
    )
    release = made(plain + Workload.label("rare"))
    assert joined_with_rare(release) >= set(OTHERS)


def test_a_label_alone_is_joined_with_each() -> None:
    assert joined_with_rare(made(Workload.label("rare"))) >= set(OTHERS)


def test_a_label_comes_out_right() -> None:
    """The flag's share by another column: as in the table where the label is asked for, else alike in all."""
    table = people()
    code, rare = (np.asarray(table[name]) for name in ("a0", "rare"))
    true = [rare[code == k].mean() for k in range(4)]
    shares = {}
    for name, asked in (("label", Workload.label("rare")), ("none", Workload())):
        release = made(Workload.marginals(2) + asked)
        cells = release.model.marginal((LABELLED.index("a0"), LABELLED.index("rare"))).reshape(4, 2)
        shares[name] = cells[:, 1] / cells.sum(axis=1)
    assert np.allclose(shares["label"], true, atol=0.002)
    assert np.ptp(shares["none"]) < 0.002 < 0.02 < np.ptp(true)


def test_the_dense_engine_asks_of_a_label_first() -> None:
    release = made(Workload.marginals(2) + Workload.label("rare"), engine="mwem")
    asked = [question.question for question in release.manifest.questions]
    assert len(asked) == len(OTHERS) and all("rare" in words.split(" x ") for words in asked)
    plain = made(Workload.marginals(2), engine="mwem")
    assert joined_with_rare(plain) == set()
