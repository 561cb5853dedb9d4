"""Every kernel against brute force, on shapes with a name: a wrong stride or digit shows on at least one of
them.
"""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from support.fakes import callable_part
from support.naive import Dense, cells_of, count, l1
from support.rows import tables_of

from factored_mwem.accounting.conversion import Composition
from factored_mwem.domain.domain import Domain
from factored_mwem.kernels import dense
from factored_mwem.kernels.caching import TRIED
from factored_mwem.kernels.counting import MAX_COUNT
from factored_mwem.kernels.dense import FLOOR, marginal_into
from factored_mwem.kernels.parts import PartLibrary
from factored_mwem.kernels.scoring import Coarser, Counts, distances
from factored_mwem.model.answers import ModelAnswers
from factored_mwem.model.dense import Factor, ProductModel, update
from factored_mwem.privacy.rows import SCORE_GRID
from factored_mwem.privacy.session import Measurement, NoiseScale
from factored_mwem.workload.candidates import Candidates
from factored_mwem.workload.workload import Workload

# name -> (sizes of the attributes, marginals)
CASES = {
    "tree": ((2, 3, 2, 4), [(0, 1), (1, 2), (1, 3)]),
    "cyclic": ((2, 3, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "missing attribute": ((3, 2, 5), [(0, 1), (1,)]),
    "full": ((2, 3, 4), [(0, 1, 2)]),
    "singletons": ((4, 1, 3), [(0,), (1,), (2,)]),
    "size one inside": ((2, 1, 3), [(0, 1, 2), (0, 2), (1, 2)]),
    "size one last": ((2, 3, 1, 1), [(0, 1, 2, 3), (1, 2), (2, 3), (3,)]),
    "size one first": ((1, 1, 2), [(0, 1, 2), (0, 1), (0, 2)]),
    "one attribute": ((7,), [(0,)]),
}
multiply_by = callable_part(dense.multiply_by)
named = pytest.mark.parametrize(("shape", "marginals"), CASES.values(), ids=CASES)


def candidates_of(shape: tuple[int, ...], marginals: list[tuple[int, ...]]) -> Candidates:
    domain = Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)})
    return Workload.of([[domain.names[p] for p in m] for m in marginals]).candidates(domain)


def columns_of(rows: list[tuple[int, ...]], attributes: int) -> list[np.ndarray]:
    return list(np.array(rows, dtype=np.uint8).reshape(len(rows), attributes).T.copy())


def random_rows(shape: tuple[int, ...], n: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Rows over half of the cells: the others have none."""
    cells = cells_of(shape)
    some = [cells[i] for i in rng.permutation(len(cells))[: (len(cells) + 1) // 2]]
    return [some[i] for i in rng.integers(len(some), size=n)]


def score(
    model: ProductModel,
    candidates: Candidates,
    counts: np.ndarray,
    offsets: np.ndarray,
    grid: float = SCORE_GRID,
) -> np.ndarray:
    answers = ModelAnswers(candidates).answers(model, np.arange(len(candidates)))
    out = np.empty(len(candidates), dtype=np.int64)
    distances(
        answers, candidates.sizes, Counts(counts, offsets), float(grid), Coarser(*candidates.coarse), out
    )
    return out


def grown(
    shape: tuple[int, ...], merges: list[tuple[int, ...]], total: float, rng: np.random.Generator
) -> ProductModel:
    """Components that are anything but uniform."""
    model = ProductModel.uniform(Domain.from_dict({f"a{i}": size for i, size in enumerate(shape)}), total)
    for positions in [*((p,) for p in range(len(shape))), *merges]:
        factor = model.merge(positions)
        model.replace(Factor(factor.positions, factor.shape, rng.dirichlet(np.ones(len(factor.weights)))))
    return model


@pytest.mark.skipif(numba.version_info.short not in TRIED, reason="numba compiles all its own way")
def test_a_part_has_no_code_of_its_own() -> None:
    """Which nobody would call; a newer numba has to be tried first, and `TRIED` to say so."""
    multiply_by(np.ones(1), *np.zeros((2, 1), dtype=np.int64), np.ones(1))
    libraries = [made.library for made in dense.multiply_by.overloads.values()]
    assert libraries and all(type(library) is PartLibrary for library in libraries)


# ---- marginals and products


@named
def test_marginal_into_adds_the_marginal(shape: tuple[int, ...], marginals: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(math.prod(shape)))
    factor = Factor(tuple(range(len(shape))), shape, weights)
    oracle = Dense(shape, dict(zip(cells_of(shape), weights.tolist(), strict=True)))
    for positions in marginals:
        expected = oracle.answer(positions, 1.0)
        out = np.ones(len(expected))
        marginal_into(weights, *factor.index(positions), out)
        np.testing.assert_allclose(out - 1, expected, atol=1e-12)


@named
def test_multiply_by_reweights_every_cell(shape: tuple[int, ...], marginals: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(2)
    factor = Factor(tuple(range(len(shape))), shape, rng.dirichlet(np.ones(math.prod(shape))))
    for positions in marginals:
        ratio = rng.uniform(0.5, 2, size=math.prod(shape[p] for p in positions))
        by_cell = dict(zip(cells_of(shape, positions), ratio, strict=True))
        weights = factor.weights.copy()
        multiply_by(weights, *factor.index(positions), ratio)
        expected = [
            w * by_cell[tuple(cell[p] for p in positions)]
            for w, cell in zip(factor.weights, cells_of(shape), strict=True)
        ]
        np.testing.assert_allclose(weights, expected, rtol=1e-15)


def test_no_weight_becomes_zero() -> None:
    weights = np.array([0.5, 0.5])
    for _ in range(3):
        multiply_by(weights, np.array([0]), np.array([0, 1]), np.array([1e-200, 1.0]))
    assert weights.tolist() == [FLOOR, 0.5]


# ---- replay


@named
def test_replay_is_the_oracles(shape: tuple[int, ...], marginals: list[tuple[int, ...]]) -> None:
    """Several sweeps, noise below zero and above n, and components whose attributes are not
    0, 1, 2.
    """
    rng = np.random.default_rng(3)
    for n in (1.0, 30.0, 5000.0):
        start = rng.dirichlet(np.ones(math.prod(shape)))
        factor = Factor(tuple(2 * p + 1 for p in range(len(shape))), shape, start)
        oracle = Dense(shape, dict(zip(cells_of(shape), start.tolist(), strict=True)))
        measured = [
            (
                p,
                (rng.normal(n / len(cells_of(shape, p)), n / 2, size=len(cells_of(shape, p)))).tolist(),
                float(rng.uniform(0.1, n / 5)),
            )
            for p in marginals
        ]
        ours = [
            Measurement(tuple(2 * p + 1 for p in m[0]), np.array(m[1]), NoiseScale(m[2], Composition.ZCDP))
            for m in measured
        ]
        updated = update(factor, ours, n, sweeps=6)
        oracle.replay(measured, n, 6)
        np.testing.assert_allclose(updated.weights, list(oracle.shares.values()), rtol=1e-11)


# ---- distances


@named
@pytest.mark.parametrize(
    "merges", [[], [(0, -1)], [(0, 1), (1, 2)], [range(4)]], ids=["alone", "ends", "chain", "joined"]
)
def test_distances_are_l1_on_the_grid(
    shape: tuple[int, ...], marginals: list[tuple[int, ...]], merges: list[tuple[int, ...]]
) -> None:
    """Every way in which a candidate can lie across components: alone, first with last (their slots
    interleave), a chain, one component.
    """
    rng = np.random.default_rng(4)
    width = len(shape)
    model = grown(shape, [tuple(sorted({min(p, width - 1) % width for p in m})) for m in merges], 61.0, rng)
    candidates = candidates_of(shape, marginals)
    for n in (0, 1, 57):
        rows = random_rows(shape, n, rng)
        offsets = candidates.offsets
        found = score(model, candidates, tables_of(columns_of(rows, width), candidates).held, offsets)
        for c, distance in enumerate(found.tolist()):
            answer, true = (
                model.marginal(candidates.positions(c)),
                count(rows, shape, candidates.positions(c)),
            )
            rounded = sum(
                abs(math.floor(a * SCORE_GRID + 0.5) - t * SCORE_GRID)
                for a, t in zip(answer, true, strict=True)
            )
            assert abs(distance - rounded) <= len(true), (
                "one unit a cell: a float's last digit can turn the rounding"
            )
            assert abs(distance / SCORE_GRID - l1(answer.tolist(), true)) <= len(true) / SCORE_GRID


def test_rounding_is_to_the_nearest_unit_of_the_grid() -> None:
    """With a grid of 1 the model's 2.5 and 1.5 become 3 and 2: halves go up, as floor(x + 1/2) does."""
    candidates = candidates_of((2,), [(0,)])
    model = ProductModel(candidates.domain, [Factor((0,), (2,), np.array([0.625, 0.375]))], 4.0)
    found = score(model, candidates, np.array([0, 0], dtype=np.int32), candidates.offsets, grid=1.0)
    assert found.tolist() == [3 + 2]


@pytest.mark.slow
@named
def test_one_row_moves_a_distance_by_at_most_one_record(
    shape: tuple[int, ...], marginals: list[tuple[int, ...]]
) -> None:
    """The stated sensitivity, in integers: SCORE_GRID, not one unit more; and it is reached."""
    rng = np.random.default_rng(6)
    candidates, reached = candidates_of(shape, marginals), 0
    offsets = candidates.offsets
    for _ in range(3):
        model = grown(shape, [(0, len(shape) - 1)] if len(shape) > 1 else [], float(rng.uniform(1, 40)), rng)
        rows = random_rows(shape, int(rng.integers(0, 30)), rng)
        before = score(model, candidates, tables_of(columns_of(rows, len(shape)), candidates).held, offsets)
        for cell in cells_of(shape):
            after = score(
                model,
                candidates,
                tables_of(columns_of([*rows, cell], len(shape)), candidates).held,
                offsets,
            )
            assert np.abs(after - before).max() <= SCORE_GRID
            reached += int((np.abs(after - before) == SCORE_GRID).sum())
    assert reached


def test_distances_of_the_largest_counts_do_not_wrap_round() -> None:
    """Two cells of 2^31 - 1 rows against a model of one record: 2^52 units, far inside 64 bits."""
    candidates = candidates_of((2,), [(0,)])
    model = ProductModel.uniform(candidates.domain, 1.0)
    found = score(model, candidates, np.full(2, MAX_COUNT, dtype=np.int32), candidates.offsets)
    assert found.tolist() == [2 * (MAX_COUNT * SCORE_GRID - SCORE_GRID // 2)]


# ---- signatures
