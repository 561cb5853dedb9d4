"""Views: exactly the combinations of levels that fit, each counted or added up from one that is, and no score
moves more than it may.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from support.fakes import FakeNoise
from support.marks import others_slow
from support.models import named
from support.naive import at_levels, cells_of, count
from support.rows import private_counts, tables_of
from support.tables import Table

from factored_mwem.accounting.accountant import Accountant, Budget
from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.domain.domain import Domain
from factored_mwem.domain.levels import Levels
from factored_mwem.kernels.scoring import CAP, CLEAR, LITTLE
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.clique_tree import CliqueTree
from factored_mwem.model.forest import Component, Forest
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.privacy.session import Eligible, Session
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

LEVELS = {
    "fine": Levels.fine((3, 4, 2, 1, 5)),
    "one level": Levels.of((6, 4, 2), [[[0, 0, 1, 2, 2, 1]], [[1, 0, 0, 1]], []]),
    "two levels": Levels.of(
        (6, 5, 3, 2),
        [[[0, 0, 1, 2, 2, 1], [0, 0, 1, 0, 0, 1]], [[0, 1, 2, 2, 1], [0, 1, 0, 0, 1]], [], [[0, 0]]],
    ),
    "one attribute": Levels.of((6,), [[[0, 0, 1, 2, 2, 1], [0, 0, 1, 0, 0, 1]]]),
    "size one": Levels.of((1, 6, 1), [[], [[0, 0, 0, 1, 1, 1]], []]),
}
LIMITS = [1, 4, 8, 17, 60, 1e9]
every_case = pytest.mark.parametrize("case", LEVELS)
limits = pytest.mark.parametrize("limit", LIMITS)


def fine_candidates(levels: Levels, order: int) -> Candidates:
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(levels.shape)})
    return Workload.marginals(min(order, len(domain))).candidates(domain)


def views_of(case: str, limit: float, order: int = 3) -> Candidates:
    return fine_candidates(LEVELS[case], order).at(LEVELS[case], limit)


def refines(levels: Levels, fine: tuple[int, ...], coarse: tuple[int, ...]) -> bool:
    """Whether each of `coarse` is an attribute of `fine` at the same level or a coarser one."""
    chains = {v: chain for chain in levels.chains for v in chain}
    return all(
        any(chains[u] is chains[v] and chains[v].index(u) <= chains[v].index(v) for u in fine) for v in coarse
    )


def finer_than(views: Candidates, b: int) -> list[int]:
    """Other candidates from which this one could be added up."""
    coarse = views.positions(b)
    return [c for c in range(len(views)) if c != b and refines(views.levels, views.positions(c), coarse)]


# ---- which there are


@every_case
@limits
@pytest.mark.parametrize("order", [1, 2, 3])
def test_exactly_the_combinations_that_fit(case: str, limit: float, order: int) -> None:
    levels = LEVELS[case]
    fine, views = fine_candidates(levels, order), views_of(case, limit, order)
    found = [views.positions(c) for c in range(len(views))]
    every = [
        v for c in range(len(fine)) for v in itertools.product(*(levels.chains[a] for a in fine.positions(c)))
    ]
    assert sorted(found) == sorted(view for view in every if 1 < levels.cells(view) <= limit)
    assert len(found) == len(set(found))
    assert fine.combinations(levels.chains) == len(every)
    for c, view in enumerate(found):
        assert [int(levels.attribute[v]) for v in view] == sorted(int(levels.attribute[v]) for v in view)
        assert views.cells[c] == levels.cells(view) and views.orders[c] == len(view)
        assert views.clique(c) == tuple(f"a{levels.attribute[v]}" for v in view)


@every_case
@limits
def test_the_levels_to_combine_can_be_fewer(case: str, limit: float) -> None:
    """Only the ends of long chains, or the coarsest alone: what a large workload is cut down to."""
    levels = LEVELS[case]
    for chains in (
        [(c[0], c[-1]) if len(c) > 2 else c for c in levels.chains],
        [c[-1:] for c in levels.chains],
    ):
        fine = fine_candidates(levels, 2)
        views = fine.at(levels, limit, chains)
        every = [
            v for c in range(len(fine)) for v in itertools.product(*(chains[a] for a in fine.positions(c)))
        ]
        assert sorted(views.positions(c) for c in range(len(views))) == sorted(
            v for v in every if 1 < levels.cells(v) <= limit
        )
        assert fine.combinations(chains) == len(every)
        check_bases(views)


def check_bases(views: Candidates) -> None:
    """A base is its own; whatever hangs below it is coarser, or has fewer attributes."""
    assert np.array_equal(views.base_of[views.base_of], views.base_of)
    for c in range(len(views)):
        assert refines(views.levels, views.positions(int(views.base_of[c])), views.positions(c))


@every_case
@limits
def test_bases_refine_what_hangs_below_and_nothing_refines_them(case: str, limit: float) -> None:
    views = views_of(case, limit)
    check_bases(views)
    bases = np.flatnonzero(views.base_of == np.arange(len(views))).tolist()
    for b in bases:
        assert not finer_than(views, b), "it need not have been counted"
    assert views.offsets[-1] == views.cells[bases].sum()
    assert all((views.offsets[c + 1] > views.offsets[c]) == (c in bases) for c in range(len(views)))


@pytest.mark.parametrize("case", ["two levels", "one attribute"])
def test_nothing_is_counted_twice_where_middle_levels_are_left_out(case: str) -> None:
    """From the ends of the chains alone: what hangs below a finer candidate is added up from it, though the
    level between is missing.
    """
    levels = LEVELS[case]
    views = fine_candidates(levels, 2).at(
        levels, 1e9, [(c[0], c[-1]) if len(c) > 2 else c for c in levels.chains]
    )
    for b in np.flatnonzero(views.base_of == np.arange(len(views))).tolist():
        assert not finer_than(views, b)


@every_case
@limits
def test_coarse_steps_add_up_right(case: str, limit: float) -> None:
    """Each candidate that is no base, cell by cell of the one that it is added up from: the steps name the
    cell that holds it, by brute force over a random table; and all that hang below a base have room.
    """
    levels, views = LEVELS[case], views_of(case, limit)
    first, which, steps = views.coarse
    counts = np.random.default_rng(0).integers(0, 9, size=int(np.prod(levels.shape))).tolist()
    table = dict(zip(cells_of(levels.shape), counts, strict=True))
    seen = []
    for b in range(len(views)):
        places = {b: 0}
        for i in range(first[b], first[b + 1]):
            c, finer, begin, from_, at = which[i].tolist()
            seen.append(c)
            assert views.base_of[c] == b != c
            assert places[finer] == from_ and begin == sum(int(views.cells[each]) for each in places)
            places[c] = begin
            fine = views.positions(finer)
            sizes = [int(levels.sizes[v]) for v in fine]
            found = np.zeros(int(views.cells[c]))
            starts = np.concatenate([[0], np.cumsum(sizes)])
            for cell, value in zip(cells_of(sizes), at_levels(table, named(levels, fine)), strict=True):
                found[sum(int(steps[at + starts[j] + digit]) for j, digit in enumerate(cell))] += value
            assert found.tolist() == at_levels(table, named(levels, views.positions(c)))
    assert sorted(seen) == np.flatnonzero(views.base_of != np.arange(len(views))).tolist()


def test_fine_candidates_are_their_own_bases() -> None:
    """As the faithful engine has them."""
    fine = fine_candidates(LEVELS["two levels"], 2)
    assert np.array_equal(fine.base_of, np.arange(len(fine))) and len(fine.coarse[1]) == 0
    assert np.array_equal(fine.keep(fine.orders == 2).members, fine.members[fine.orders == 2])


@pytest.mark.slow
def test_half_a_million_fine_candidates() -> None:
    """1,000 binary attributes, all pairs: single attributes alone are added up, each from a pair."""
    fine = fine_candidates(Levels.fine((2,) * 1000), 2)
    views = fine.at(Levels.fine((2,) * 1000), 1e5)
    assert len(views) == len(fine) == 500_500
    pairs = views.orders == 2
    assert np.array_equal(views.base_of[pairs], np.flatnonzero(pairs)) and pairs[views.base_of].all()
    assert (views.members[views.base_of[~pairs]] == views.members[~pairs][:, :1]).any(axis=1).all()


# ---- scores


def forest_of(levels: Levels, rng: np.random.Generator, total: float) -> Forest:
    """Some attributes tied together along a tree, at any level, others alone."""
    views = [[(a,)] for a in range(len(levels.shape))]
    if len(levels.shape) > 1:
        tied = [
            (int(rng.choice(levels.chains[a])), int(rng.choice(levels.chains[a + 1])))
            for a in range(min(len(levels.shape) - 1, 2))
        ]
        views = [[*(v for one in views[: len(tied) + 1] for v in one), *tied], *views[len(tied) + 1 :]]
    parts = [
        Component.log_linear(
            CliqueTree.of(levels, v), v, rng.normal(size=sum(levels.cells(w) for w in v)) * 2
        )
        for v in views
    ]
    return Forest(levels, parts, total)


def scores(
    forest: Forest,
    views: Candidates,
    rows: list[tuple[int, ...]],
    noise: float = 0.0,
    sparse: float = math.inf,
) -> np.ndarray:
    tables = tables_of(
        [np.array([row[a] for row in rows], dtype=np.uint8) for a in range(len(views.domain))], views
    )
    bases = np.flatnonzero(views.base_of == np.arange(len(views)))
    return tables.scores(ModelAnswers(views).answers(forest, bases, noise, sparse))


def random_rows(levels: Levels, n: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    return [tuple(int(rng.integers(s)) for s in levels.shape) for _ in range(n)]


@every_case
@pytest.mark.parametrize("limit", [4, 17, 60, 1e9])
@pytest.mark.parametrize("seed", others_slow(range(3), lambda seed: not seed))
def test_a_score_is_the_distance_of_integer_gaps_added_up(case: str, limit: float, seed: int) -> None:
    """A base's cells are rounded to the grid one by one; what hangs below it adds these integers up, and so
    comes near its own distance. Off it goes the noise of each cell, up to CAP times what the model has there.
    Of many cells it is what stands out of the noise, where that is more.
    """
    rng = np.random.default_rng(seed)
    levels, views = LEVELS[case], views_of(case, limit)
    if not len(views):
        return
    forest = forest_of(levels, rng, float(rng.uniform(1, 90)))
    rows = random_rows(levels, int(rng.integers(0, 80)), rng)
    noise, sparse = float(rng.integers(3)), float(rng.choice([0, 8, np.inf]))
    found = scores(forest, views, rows, noise, sparse)
    for c in range(len(views)):
        view, base = views.positions(c), views.positions(int(views.base_of[c]))
        grouped = [tuple(int(levels.groups[v][row[levels.attribute[v]]]) for v in base) for row in rows]
        true = count(grouped, [int(levels.sizes[v]) for v in base], tuple(range(len(base))))
        held = np.floor(forest.marginal(base) * SCORE_GRID + 0.5)
        gaps = held - np.array(true) * SCORE_GRID
        summed: dict[tuple[int, ...], np.ndarray] = {}
        both = np.stack([gaps, held], axis=1)
        for cell, amounts in zip(cells_of([int(levels.sizes[v]) for v in base]), both, strict=True):
            place = tuple(int(levels.between(base[j], v)[cell[j]]) for v in view for j in range(len(base)) if levels.attribute[base[j]] == levels.attribute[v])  # fmt: skip  # noqa: E501
            summed[place] = summed.get(place, 0.0) + amounts
        harm = noise * SCORE_GRID
        expected = sum(abs(gap) - min(harm, CAP * kept) for gap, kept in summed.values())
        if len(summed) > sparse:
            outstanding = (
                max(abs(gap) - CLEAR * harm, 0) - min(harm, kept) // LITTLE for gap, kept in summed.values()
            )
            expected = max(expected, sum(outstanding))
        assert abs(found[c] - expected) <= (1 + CAP) * len(true), (
            "one unit a cell, and CAP of what is held: a float's last digit can turn the rounding"
        )


@every_case
@pytest.mark.parametrize("limit", others_slow([4, 17, 1e9], lambda limit: limit == 4))
@pytest.mark.parametrize("contributions", [1, 2])
def test_neighbours_move_every_score_by_at_most_its_sensitivity(
    case: str, limit: float, contributions: int
) -> None:
    """In integers, for base and coarse candidates alike: k records under add-remove, 2 k under replace, not
    one unit more, whether what stands out of the noise counts or not. It is reached.
    """
    rng = np.random.default_rng(contributions)
    levels, views = LEVELS[case], views_of(case, limit, 2)
    if not len(views):
        return
    cells = cells_of(levels.shape)
    derived = views.base_of != np.arange(len(views))
    reached = np.zeros(len(views), dtype=bool)
    cases = ((0.7, 0.0, np.inf), (33.3, 0.0, np.inf), (33.3, 40.0, np.inf), (33.3, 1.0, 0.0), (0.7, 1.0, 0.0))
    for total, noise, sparse in cases:
        forest, rest = forest_of(levels, rng, total), random_rows(levels, 12, rng)
        people: list[Table] = [tuple(p) for p in rng.integers(len(cells), size=(12, contributions)).tolist()]
        alone = scores(forest, views, rest, noise, sparse)
        with_person = np.array(
            [scores(forest, views, [*rest, *(cells[i] for i in person)], noise, sparse) for person in people]
        )
        moved = np.abs(with_person - alone)
        assert moved.max() <= Unit(Neighbours.ADD_REMOVE, contributions).l1_of_score * SCORE_GRID
        assert (
            np.abs(with_person[:, None] - with_person[None]).max()
            <= Unit(Neighbours.REPLACE, contributions).l1_of_score * SCORE_GRID
        )
        reached |= (moved == contributions * SCORE_GRID).any(axis=0)
    assert reached[~derived].any() and (not derived.any() or reached[derived].any())


@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("contributions", [1, 3])
def test_select_charges_for_what_a_score_moves(relation: Neighbours, contributions: int) -> None:
    """The scores that reach the sampler are distances less a public penalty, at the stated scale."""
    levels, rng = LEVELS["two levels"], np.random.default_rng(1)
    views = views_of("two levels", 60, 2)
    forest = forest_of(levels, rng, 20.0)
    answers = ModelAnswers(views).answers(forest, np.flatnonzero(views.base_of == np.arange(len(views))))
    unit, rows = Unit(relation, contributions), random_rows(levels, 30, rng)
    cells = cells_of(levels.shape)
    offered, seen = np.arange(1, len(views), 2), []
    for extra in range(6):
        person = [cells[i] for i in rng.integers(len(cells), size=contributions)] if extra else []
        if relation is Neighbours.REPLACE and not extra:
            person = [cells[0]] * contributions
        table = [*rows, *person]
        fake, ledger = FakeNoise(), Accountant(Budget.of(1.0, 1e-9))
        sealed = private_counts(
            [np.array([row[a] for row in table], dtype=np.uint8) for a in range(4)], views
        )
        chosen = Session(ledger, unit, fake).select(
            sealed, answers, Eligible(offered, views.cells[offered] * 0.3), cost=Fraction(1, 100)
        )
        assert chosen in offered
        seen.append(fake.calls[0].values)
        (entry,) = ledger.entries
        assert entry.sensitivity == unit.l1_of_score * SCORE_GRID and entry.scale == fake.calls[0].scale
    assert np.abs(np.array(seen) - np.array(seen)[:1]).max() <= unit.l1_of_score * SCORE_GRID
