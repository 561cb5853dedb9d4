"""Corrections beside oracles: raking by hand, shrinkage on tables whose truth is known, and rows that show
what no tree can hold.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from factored_mwem import Release, Workload, release
from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.levels import Levels, View
from factored_mwem.model import forest as forests
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.corrections import SWEEPS, Corrections, shrunk
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.session import Measurement, NoiseScale

SHAPE = (4, 3, 2)
LEVELS = Levels.of(SHAPE, [[np.array([0, 0, 1, 1])], [], []])
COARSE = 3  # the variable of attribute 0 in two groups


def measured(view: View, noisy: np.ndarray, sigma: float) -> Measurement:
    return Measurement(view, noisy, NoiseScale(sigma, Composition.ZCDP))


def by_hand(table: np.ndarray, wanted: list[tuple[View, np.ndarray]]) -> np.ndarray:
    """Raking of a table over all three attributes, cell by cell in plain Python."""
    cells = {cell: float(table.reshape(SHAPE)[cell]) for cell in itertools.product(*map(range, SHAPE))}

    def code(cell: tuple[int, ...], v: int) -> int:
        return cell[v] if v < 3 else cell[0] // 2

    ones = [((v,), {}) for v in range(3)]
    for view, own in ones:
        for cell, count in cells.items():
            key = tuple(code(cell, v) for v in view)
            own[key] = own.get(key, 0.0) + count
    asked = []
    for view, goal in wanted:
        sizes = [range(int(LEVELS.sizes[v])) for v in view]
        asked.append((view, dict(zip(itertools.product(*sizes), goal.tolist(), strict=True))))
    for _ in range(SWEEPS):
        for view, goal in [*asked, *ones]:
            now: dict[tuple[int, ...], float] = {}
            for cell, count in cells.items():
                key = tuple(code(cell, v) for v in view)
                now[key] = now.get(key, 0.0) + count
            for cell in cells:
                key = tuple(code(cell, v) for v in view)
                cells[cell] *= goal[key] / now[key] if now[key] > 0 else 0.0
    return np.array(list(cells.values()))


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_is_raked_as_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(24)) * 500
    table[rng.integers(24)] = 0.0
    wanted = [((0, 1), rng.dirichlet(np.ones(12)) * 500), ((COARSE, 2), rng.dirichlet(np.ones(4)) * 500)]
    corrections = Corrections(LEVELS, [view for view, _ in wanted], [goal for _, goal in wanted])
    found = corrections.applied((0, 1, 2), table)
    assert np.allclose(found, by_hand(table, wanted), rtol=1e-9, atol=1e-9)
    assert not np.allclose(found, table, atol=1.0)
    assert (found[table == 0] == 0).all(), "what rules out a cell rules it out after corrections too"


def test_only_what_lies_inside_a_view_corrects_it() -> None:
    """A pair, a marginal at a coarser level than was measured, and single attributes stay as they are."""
    table = np.arange(1.0, 13.0)
    corrections = Corrections(LEVELS, [(0, 2)], [np.arange(1.0, 9.0)])
    assert corrections.applied((0, 1), table) is table
    assert corrections.applied((COARSE, 2), table[:4]) is not None
    assert np.array_equal(corrections.applied((COARSE, 2), table[:4]), table[:4])
    assert not np.allclose(corrections.applied((0, 2), np.full(8, 4.5)), 4.5)


def test_shrinkage_beats_both_the_answer_and_the_measurement() -> None:
    """On average over tables that scatter about the answer as assumed; at the ends it is one of the two."""
    rng, gains = np.random.default_rng(3), []
    for _ in range(200):
        answer = rng.dirichlet(np.full(30, 0.5)) * 10_000
        truth = np.maximum(answer + rng.normal(size=30) * np.sqrt(4.0 * answer), 0)
        noisy = np.rint(truth + rng.normal(scale=30.0, size=30)).astype(np.int64)
        found = shrunk(answer, noisy, 30.0)
        assert found.sum() == pytest.approx(answer.sum()) and (found >= 0).all()
        gains.append([((guess - truth) ** 2).sum() for guess in (found, answer, noisy)])
    ours, answers, measurements = np.mean(gains, axis=0)
    assert ours < 0.9 * min(answers, measurements)
    exact = rng.integers(1, 100, 30)
    assert np.allclose(shrunk(exact.sum() * np.full(30, 1 / 30), exact, 1e-6), exact)
    assert np.array_equal(shrunk(answer, np.rint(answer).astype(np.int64), 30.0), answer)


def test_what_no_clique_holds_corrects_and_the_rest_does_not() -> None:
    tree = CliqueTree(LEVELS, ((0, 1),), ())
    parts = [Component.log_linear(tree, [], np.zeros(0))]
    parts.append(Component.log_linear(CliqueTree(LEVELS, ((2,),), ()), [], np.zeros(0)))
    forest = Forest(LEVELS, parts, 120.0)
    inside, beyond = np.arange(12), np.array([30, 0, 0, 30, 30, 0, 0, 30])
    rows = measured((), np.array([120]), 1.0)
    forest.correct([measured((0, 1), inside, 1.0), measured((0, 2), beyond, 0.01), rows])
    assert forest.corrections.views == [(0, 2)]
    assert np.allclose(forest.marginal((0, 1)), 10.0)
    assert np.allclose(forest.marginal((0, 2)), beyond, atol=0.01)
    forest.correct([])
    assert np.allclose(forest.marginal((0, 2)), 15.0)


def chained(rows: int = 4000) -> pa.Table:
    """Three bits of which the third is one where both others are, and one more column."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, (2, rows))
    return pa.table({"a": a, "b": b, "c": a & b, "x": rng.integers(0, 3, rows)})


def odd(rows: pa.Table) -> float:
    """The share of rows in which the third bit does not follow."""
    a, b, c = (np.asarray(rows[name]) for name in "abc")
    return float(((a & b) != c).mean())


def made() -> Release:
    domain = {"a": 2, "b": 2, "c": 2, "x": 3}
    asked = Workload.marginals(1) + Workload.of([("a", "b", "c")])
    # 9 cells: single attributes and pairs without a common one, no triple
    return release(chained(), asked, domain=domain, epsilon=50.0, max_cells=9)


def test_rows_answers_and_a_model_file_show_what_no_tree_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = made()
    assert max(len(clique) for clique in ours.manifest.cliques) < 3, "a tree holds the triple"
    assert odd(ours.to_arrow()) < 0.1
    counts = ours.marginal("a", "b", "c").counts
    assert counts[0, 0, 1] + counts[0, 1, 1] + counts[1, 0, 1] + counts[1, 1, 0] < 0.05 * counts.sum()
    ours.save(tmp_path / "made.fmwem")
    again = Release.load(tmp_path / "made.fmwem")
    assert np.array_equal(again.marginal("a", "b", "c").counts, counts)
    assert again.to_arrow().equals(ours.to_arrow())
    assert odd(again.sample(3000, seed=1)) < 0.1
    monkeypatch.setattr(forests.Forest, "correct", lambda self, measured: None)  # planted: forgotten
    assert odd(Release.load(tmp_path / "made.fmwem").to_arrow()) > 0.12
