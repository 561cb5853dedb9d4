"""Every sensitivity in unit.py is exactly the greatest change over all neighbouring tiny tables: not
smaller, and not larger.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from support.tables import CELLS, SHAPE, UNITS, every_unit, histogram, neighbours

from factored_mwem.accounting.unit import Neighbours, Unit
from factored_mwem.errors import InputError


def marginals() -> Iterator[np.ndarray]:
    """int[cells of the marginal, 6]: the matrix of every marginal of the domain but the empty one."""
    digits = np.array([np.unravel_index(c, SHAPE) for c in range(CELLS)])
    for kept in ((0,), (1,), (0, 1)):
        sizes = [SHAPE[k] for k in kept]
        cell = np.ravel_multi_index([digits[:, k] for k in kept], sizes)
        yield (cell[None, :] == np.arange(np.prod(sizes))[:, None]).astype(int)


def greatest(unit: Unit, change: Callable[[np.ndarray, np.ndarray], float]) -> float:
    """The greatest `change(marginal of D, marginal of D')` over all neighbours and marginals."""
    found = 0.0
    for matrix in marginals():
        for a, b in neighbours(unit.neighbours, unit.contributions):
            found = max(found, change(matrix @ histogram(a), matrix @ histogram(b)))
    return found


NORMS = {
    "l1_of_marginal": lambda a, b: np.abs(a - b).sum(),
    "l2_squared_of_marginal": lambda a, b: ((a - b) ** 2).sum(),
    "linf_of_marginal": lambda a, b: np.abs(a - b).max(),
    "l0_of_marginal": lambda a, b: (a != b).sum(),
}


@every_unit
@pytest.mark.parametrize("norm", list(NORMS))
def test_norms_of_a_marginal(unit: Unit, norm: str) -> None:
    """sqrt(k) for the L2 norm, or 1 under replace, the usual mistakes, are below the greatest change."""
    assert greatest(unit, NORMS[norm]) == getattr(unit, norm)


@pytest.mark.slow
@every_unit
def test_score_distance(unit: Unit) -> None:
    """The L1 distance to a fixed public table, over public tables with answers above and below the counts."""
    found = 0.0
    for matrix in marginals():
        cells = len(matrix)
        publics = [np.array(p) for p in itertools.product((0.0, 0.7, 4.0), repeat=cells)]
        if cells >= 4:
            publics = [np.where(np.arange(cells) == high, 4.0, 0.3) for high in range(cells)]
        for a, b in neighbours(unit.neighbours, unit.contributions):
            first, second = matrix @ histogram(a), matrix @ histogram(b)
            for public in publics:
                found = max(found, abs(np.abs(first - public).sum() - np.abs(second - public).sum()))
    assert found == pytest.approx(unit.l1_of_score, abs=1e-9)


@every_unit
def test_counting_query_and_parity(unit: Unit) -> None:
    """All queries with weights in {0, 1} and in {-1, 1}; what is linear is greatest at such corners."""
    changes = np.array(
        [histogram(a) - histogram(b) for a, b in neighbours(unit.neighbours, unit.contributions)]
    )
    counting = np.array(list(itertools.product((0, 1), repeat=CELLS)))
    signs = np.array(list(itertools.product((-1, 1), repeat=CELLS)))
    assert np.abs(changes @ counting.T).max() == unit.of_counting_query
    assert np.abs(changes @ signs.T).max() == unit.of_parity


@every_unit
def test_quantile_score(unit: Unit) -> None:
    """`discover` scores a bound by -|(1000 - q) below - q above|: a row adds between -q and 1000 - q, so
    exchanging one moves it by 1000.
    """
    found = 0
    for q in (0, 2, 50, 500, 998):
        for cut in range(CELLS + 1):
            for a, b in neighbours(unit.neighbours, unit.contributions):
                scores = [
                    -abs((1000 - q) * sum(c < cut for c in t) - q * sum(c > cut for c in t)) for t in (a, b)
                ]
                found = max(found, abs(scores[0] - scores[1]))
    assert found == unit.of_counting_query * 1000


def test_the_number_of_rows_is_public_only_where_all_neighbours_share_it() -> None:
    for unit in UNITS:
        same = all(len(a) == len(b) for a, b in neighbours(unit.neighbours, unit.contributions))
        assert unit.total_is_public == same
    assert not Unit(
        Neighbours.REPLACE, 1, by_id=True
    ).total_is_public  # people may have no row, or rows that were dropped


def test_the_brute_force_sees_a_sensitivity_that_is_too_small_or_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted: sensitivity 1 under replace; sqrt(k) in L2; a doubled L1."""
    for name, planted in (("l1_of_marginal", 1), ("l2_squared_of_marginal", 2), ("l1_of_marginal", 8)):
        with monkeypatch.context() as patch:
            patch.setattr(Unit, name, property(lambda _, planted=planted: planted))
            with pytest.raises(AssertionError):
                test_norms_of_a_marginal(Unit(Neighbours.REPLACE, 2), name)


@pytest.mark.parametrize("contributions", [0, -1])
def test_a_person_has_a_row(contributions: int) -> None:
    with pytest.raises(InputError, match="contributions"):
        Unit(contributions=contributions)
